"""The clients of a broker: how many may be connected, and how much they have not read yet."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from placement.metadata import Endpoint

log = logging.getLogger(__name__)

_UNREAD_SECONDS = 0.005


class Clients:
    """The connections of one broker."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._loop = context.loop
        self._connections: dict[Connection, None] = {}  # in the order in which they came
        self._per_address: Counter[str] = Counter()
        self._unread = 0
        self._unread_until = 0.0
        self.listening: tuple[Endpoint, ...] = ()
        """Where the broker listens, once it does."""

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        """The present connections, as a copy: some may end meanwhile."""
        return iter(list(self._connections))

    def admit(self, connection: Connection) -> bool:
        """A client has connected. Whether the limits on connections allow it."""
        taken = {
            "max.connections": len(self._connections),
            "max.connections.per.ip": self._per_address[connection.peer],
        }
        for setting, count in taken.items():
            if count >= self._context.config.integer(setting):
                log.warning("refusing a connection from %s: %s=%d", connection.peer, setting, count)
                return False
        self._connections[connection] = None
        self._per_address[connection.peer] += 1
        return True

    def remove(self, connection: Connection) -> None:
        """A client has gone. One that was refused was not counted."""
        if connection in self._connections:
            del self._connections[connection]
            self._per_address[connection.peer] -= 1
            if not self._per_address[connection.peer]:
                del self._per_address[connection.peer]

    def response_bytes_waiting(self) -> int:
        """Bytes of answers that clients have not read yet, counted a moment ago."""
        now = self._loop.time()
        if now > self._unread_until:  # not at each call: a broker may have thousands of connections
            self._unread = sum(connection.write_buffer_size for connection in self._connections)
            self._unread_until = now + _UNREAD_SECONDS
        return self._unread
