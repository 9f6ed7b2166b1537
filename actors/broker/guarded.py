"""The listeners of a broker at which not everybody is served at once: with TLS, with SASL, or with both."""

from __future__ import annotations

import asyncio

from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.spec import Door, StartError
from actors.broker.strangers import FailureLog, Strangers
from actors.broker.tls_doors import TlsDoor, follow


class GuardedDoors:
    """They share a log of failures. What they know of a connection begins at accept."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._failures = FailureLog(broker.loop.time)
        self._strangers: dict[str, Strangers] = {}  # by listener
        self._tls: dict[str, TlsDoor] = {}
        self._follower: asyncio.Task[None] | None = None

    def add(self, door: Door) -> None:
        """A listener will be opened. Raises StartError if it cannot be guarded."""
        if door.protocol.sasl:
            raise StartError(f"listener {door.listener} is {door.protocol}, which is not served yet")
        config, loop = self._broker.config.for_listener(door.listener), self._broker.loop
        strangers = self._strangers[door.listener] = Strangers(
            door.listener,
            config.integer("coterie.unauthenticated.connections.max"),
            config.integer("coterie.connection.setup.timeout.ms") / 1000,
            loop.time,
            self._failures,
        )
        if door.protocol.tls:
            self._tls[door.listener] = TlsDoor(door, self._broker, strangers, self._failures)

    def protocol_of(self, connection: Connection) -> asyncio.Protocol:
        """What a socket that was just accepted talks to."""
        door = self._tls.get(connection.listener)
        return connection if door is None else door.protocol_of(connection)

    def accepted(self, connection: Connection) -> None:
        """A client was accepted, by whatever listener."""
        strangers = self._strangers.get(connection.listener)
        if strangers is not None:
            strangers.add(connection)

    def gone(self, connection: Connection) -> None:
        """A client has gone."""
        strangers = self._strangers.get(connection.listener)
        if strangers is not None:
            strangers.remove(connection)

    def close_overdue(self) -> None:
        """Close connections that take too long to prove who they are."""
        for strangers in self._strangers.values():
            strangers.close_overdue()

    # --- certificates ---

    def follow_files(self) -> None:
        """Take over certificates that change, from now on."""
        seconds = self._broker.config.integer("coterie.certificates.check.ms") / 1000
        if self._tls and seconds:
            self._follower = self._broker.loop.create_task(follow(self._tls.values(), seconds))

    def close(self) -> None:
        """Follow no files any more."""
        if self._follower is not None:
            self._follower.cancel()
