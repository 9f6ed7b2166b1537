"""Requests for partitions whose shard does not serve yet: kept in order, for a bounded time, up to a limit.

If a client asks while its group's process starts, it is better off with a late answer than with an error,
COORDINATOR_LOAD_IN_PROGRESS. Here is bookkeeping only: `readiness` knows whether a shard serves, `relaying` answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from actors.coordinator_kinds.kind import CoordinatorKind
from actors.wire.errors import ErrorCode


class Place(NamedTuple):
    """A partition of the topic of a kind of coordinator."""

    kind: CoordinatorKind
    partition: int


Settled = Callable[[ErrorCode], None]
"""Called once: with NONE when the shard serves and the request can go to it, else with the error to answer."""


@dataclass(slots=True)
class _Parked:
    deadline: float
    size: int
    settled: Settled


class Parking:
    """All parked requests of one broker, by their place and by a number that the caller gives."""

    def __init__(self, wait_s: float, max_requests: int, max_bytes: int) -> None:
        self._wait_s = wait_s
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._parked: dict[Place, dict[int, _Parked]] = {}  # the inner ones in order of arrival, so of deadlines
        self._requests = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._requests

    def places(self) -> list[Place]:
        """The places for which requests wait."""
        return list(self._parked)

    def park(self, place: Place, number: int, size: int, settled: Settled, now: float) -> bool:
        """Keep a request of `size` bytes; False if there is no room for it."""
        if self._wait_s <= 0 or self._requests >= self._max_requests or self._bytes + size > self._max_bytes:
            return False
        self._parked.setdefault(place, {})[number] = _Parked(now + self._wait_s, size, settled)
        self._requests += 1
        self._bytes += size
        return True

    def settle(self, place: Place, code: ErrorCode) -> None:
        """Call `settled` for all requests that wait for a place, in order of arrival."""
        waiting = self._parked.pop(place, {})
        for parked in waiting.values():  # first: what is settled may have others come
            self._release(parked)
        for parked in waiting.values():
            parked.settled(code)

    def expire(self, place: Place, now: float, code: ErrorCode) -> None:
        """Call `settled` with `code` for the place's requests that have waited for too long."""
        waiting = self._parked.get(place, {})
        late = [number for number, parked in waiting.items() if parked.deadline <= now]
        for parked in [self._take(place, number) for number in late]:
            parked.settled(code)

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop requests whose clients have gone. Unknown numbers are ignored."""
        if not self._parked:
            return
        for number in numbers:
            for place in [key for key, waiting in self._parked.items() if number in waiting]:
                self._take(place, number)

    def _take(self, place: Place, number: int) -> _Parked:
        waiting = self._parked[place]
        parked = waiting.pop(number)
        if not waiting:
            del self._parked[place]
        self._release(parked)
        return parked

    def _release(self, parked: _Parked) -> None:
        self._requests -= 1
        self._bytes -= parked.size
