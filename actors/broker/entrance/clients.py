"""The clients of a broker: how many may be connected, and how much they have not read yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from actors.broker.connections.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.entrance.address_limits import AddressLimits
from actors.links.unauthenticated import FailureLog
from actors.security.acl import is_loopback
from placement.metadata import Endpoint

ADMINISTRATORS_PLACES: Final = 16
"""Places above max.connections for clients of this machine: somebody can still look into it."""
_UNREAD_SECONDS = 0.005


class Clients:
    """The connections of one broker."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._loop = context.loop
        self._connections: dict[Connection, None] = {}  # in the order in which they came
        self._per_address: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._refused = FailureLog(context.loop.time)
        self._unread = 0
        self._unread_until = 0.0
        self.address_limits = AddressLimits(context)
        self.listening: tuple[Endpoint, ...] = ()
        """The endpoints at which the broker listens, once it does."""

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        """The present connections, as a copy: some may end meanwhile."""
        return iter(list(self._connections))

    def admit(self, connection: Connection) -> bool:
        """A client has connected. Returns True if the limits on connections allow it."""
        reached = self._limit_reached(connection)
        if reached is not None:
            self._refused.note(connection.peer, connection.listener, f"refusing a connection: {reached}")
            return False
        self._connections[connection] = None
        self._per_address[connection.peer] += 1
        self._per_listener[connection.listener] += 1
        return True

    def _limit_reached(self, connection: Connection) -> str | None:
        config, peer, listener = self._context.config, connection.peer, connection.listener
        more = ADMINISTRATORS_PLACES if is_loopback(peer) else 0
        most = config.integer("max.connections")
        if len(self._connections) >= most + more:
            return f"max.connections={most}"
        most = config.for_listener(listener).own("max.connections")
        if most is not None and self._per_listener[listener] >= most + more:
            return f"max.connections={most} of listener {listener}"
        most = self.address_limits.of(peer)
        if self._per_address[peer] >= most:
            return f"max.connections.per.ip={most}"
        return None

    def at(self, listener: str) -> int:
        """The number of clients connected at a listener."""
        return self._per_listener[listener]

    def remove(self, connection: Connection) -> None:
        """A client has gone. One that was refused was not counted."""
        if connection in self._connections:
            del self._connections[connection]
            _less(self._per_address, connection.peer)
            _less(self._per_listener, connection.listener)

    def response_bytes_waiting(self) -> int:
        """Bytes of answers that clients have not read yet, counted a moment ago."""
        now = self._loop.time()
        if now > self._unread_until:  # not at each call: a broker may have thousands of connections
            self._unread = sum(connection.write_buffer_size for connection in self._connections)
            self._unread_until = now + _UNREAD_SECONDS
        return self._unread


def _less(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
