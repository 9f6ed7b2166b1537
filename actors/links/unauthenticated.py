"""Connections of peers that have not proved who they are: how many, for how long, and how much is logged of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from actors.quotas.entities import network_of
from actors.runtime.logs import about

log = logging.getLogger(__name__)

_LINE_SECONDS: Final = 1.0
_ADDRESSES_MAX: Final = 1000


class UnauthenticatedConnection(Protocol):
    """A connection, from accept on."""

    peer: str

    def close(self, reason: str = "") -> None: ...


class FailureLog:
    """At most one line a second for each address (of IPv6: each /64 network) and listener, and how many were left out.

    Of more than a thousand of them in a second the rest goes unsaid.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._swept = -_LINE_SECONDS
        self.logged: dict[tuple[str, str], tuple[float, int]] = {}
        """By address and listener, the time of the last line and the number of lines left out since."""

    def note(self, peer: str, listener: str, text: str) -> None:
        """A connection has failed. The text has no secrets."""
        now, key = self._clock(), (network_of(peer), listener)
        last, left_out = self.logged.get(key, (-_LINE_SECONDS, 0))
        if now - last < _LINE_SECONDS:
            self.logged[key] = (last, left_out + 1)
            return
        if len(self.logged) >= _ADDRESSES_MAX and now - self._swept >= _LINE_SECONDS:
            self._swept = now
            self.logged = {each: at for each, at in self.logged.items() if now - at[0] < _LINE_SECONDS}
        if len(self.logged) < _ADDRESSES_MAX:
            self.logged[key] = (now, 0)
            more = f" (and {left_out} more that were not logged)" if left_out else ""
            log.warning("%s at %s: %s%s", peer or "?", listener, text, more, extra=about(peer=peer))


TOO_MANY: Final = "coterie.unauthenticated.connections.max={most}"
TOO_LATE: Final = "not authenticated within coterie.connection.setup.timeout.ms={milliseconds:.0f}"


class UnauthenticatedConnections:
    """The connections of one listener whose peers have not proved who they are.

    When there are too many, the oldest of the address (of IPv6, of the /64 network) that holds most of them is closed:
    one address cannot keep others out. One that takes too long is closed, whatever it sends. `too_many` and `too_late`
    are what is then logged.
    """

    def __init__(
        self,
        listener: str,
        most: int,
        setup_seconds: float,
        clock: Callable[[], float],
        failures: FailureLog,
        *,
        too_many: str = TOO_MANY,
        too_late: str = TOO_LATE,
    ) -> None:
        self._too_many = too_many.format(most=most)
        self._too_late = too_late.format(seconds=setup_seconds, milliseconds=setup_seconds * 1000)
        self._listener = listener
        self._most = most
        self._setup_seconds = setup_seconds
        self.clock = clock
        """Tells when they are overdue, in seconds."""
        self._failures = failures
        self._count = 0
        # By address and connection, the times of accept; the oldest first.
        self._by_address: dict[str, dict[UnauthenticatedConnection, float]] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, connection: UnauthenticatedConnection) -> None:
        """A connection was accepted. It may have been added before."""
        held = self._by_address.setdefault(network_of(connection.peer), {})
        if connection in held:
            return
        held[connection] = self.clock()
        self._count += 1
        if self._count > self._most:
            busiest = max(self._by_address.values(), key=len)
            self._close(next(iter(busiest)), self._too_many)

    def oldest(self, peer: str | None = None) -> UnauthenticatedConnection | None:
        """The oldest of an address (of IPv6, of its /64 network), or of the one that holds most."""
        held = self._by_address
        if peer is not None:
            return next(iter(held.get(network_of(peer), ())), None)
        busiest = max(held, key=lambda each: len(held[each]), default=None)
        return None if busiest is None else next(iter(held[busiest]))

    def remove(self, connection: UnauthenticatedConnection) -> None:
        """A peer has proved who it is, or has gone."""
        network = network_of(connection.peer)
        held = self._by_address.get(network, {})
        if held.pop(connection, None) is not None:
            self._count -= 1
            if not held:
                del self._by_address[network]

    def close_overdue(self) -> None:
        """Close those that were accepted too long ago."""
        latest = self.clock() - self._setup_seconds
        overdue = [
            connection
            for held in self._by_address.values()
            for connection, accepted in held.items()
            if accepted <= latest
        ]
        for connection in overdue:
            self._close(connection, self._too_late)

    def _close(self, connection: UnauthenticatedConnection, why: str) -> None:
        self.remove(connection)
        self._failures.note(connection.peer, self._listener, f"closed: {why}")
        connection.close()
