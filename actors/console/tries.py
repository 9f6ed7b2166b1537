"""Logins that fail: the more of an address or of a user, the longer the next one waits.

Nobody is refused for what others did: the right password of a user whose name somebody guesses at is looked at after
ten seconds at most, from wherever he comes. Only an address that has too many logins waiting is asked to come again.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from actors.quotas.entities import network_of
from actors.runtime.environment import Environment

_FREE: Final = 5
"""Failed logins in a window, of an address or of a user, that slow nothing down."""
_WINDOW_S: Final = 600.0
_ADDRESS_S: Final = 60.0
_USER_S: Final = 10.0
"""The longest waits."""
_WAITING: Final = 16
"""Logins of one address at once."""
_KEPT: Final = 20_000
_NAME: Final = 256
"""Characters of a name that are looked at."""


class Tries:
    """Logins by address (of IPv6: by its /64 network) and by user. In memory, and bounded."""

    def __init__(self, environment: Environment) -> None:
        self._clock = environment.clock
        self._failed: deque[tuple[float, str, str]] = deque()
        self._by_network: Counter[str] = Counter()
        self._by_user: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    @property
    def kept(self) -> int:
        """The number of failed logins that are remembered."""
        return len(self._failed)

    def begins(self, address: str, user: str) -> float | None:
        """The seconds that a login has to wait; None if there are too many of its address, and it is not to be.

        It counts as failed from here on, so that many at once are not tried.
        """
        network, name = network_of(address), user[:_NAME]
        if self._waiting[network] >= _WAITING:
            return None
        self._forget()
        wait_s = max(_wait(self._by_network[network], _ADDRESS_S), _wait(self._by_user[name], _USER_S))
        self._failed.append((self._clock.monotonic(), network, name))
        self._count(network, name, 1)
        self._waiting[network] += 1
        return wait_s

    def ended(self, address: str, user: str, *, succeeded: bool) -> None:
        """A login is over. If it succeeded, what this user failed before from this address is forgotten."""
        network, name = network_of(address), user[:_NAME]
        _take(self._waiting, network, 1)
        if succeeded:
            kept = deque(each for each in self._failed if each[1:] != (network, name))
            self._count(network, name, len(kept) - len(self._failed))
            self._failed = kept

    def _forget(self) -> None:
        oldest = self._clock.monotonic() - _WINDOW_S
        while self._failed and (self._failed[0][0] < oldest or len(self._failed) >= _KEPT):
            _, network, name = self._failed.popleft()
            self._count(network, name, -1)

    def _count(self, network: str, name: str, more: int) -> None:
        _take(self._by_network, network, -more)
        _take(self._by_user, name, -more)


def _wait(failed: int, most_s: float) -> float:
    return 0.0 if failed < _FREE else min(float(1 << min(failed - _FREE, 10)), most_s)


def _take(counts: Counter[str], key: str, fewer: int) -> None:
    counts[key] -= fewer
    if counts[key] <= 0:
        del counts[key]
