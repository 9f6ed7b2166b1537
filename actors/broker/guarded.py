"""The listeners of a broker at which not everybody is served at once: with TLS, with SASL, or with both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from actors import OutsideError
from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.spec import Door, StartError
from actors.broker.strangers import FailureLog, Strangers
from actors.broker.tls_doors import TlsDoor
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)


class GuardedDoors:
    """They share a log of failures. What they know of a connection begins at accept."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._failures = FailureLog(broker.loop.time)
        self._strangers: dict[str, Strangers] = {}  # by listener
        self._tls: dict[str, TlsDoor] = {}
        self._config = broker.config
        self._follower: asyncio.Task[None] | None = None
        self._trials: set[asyncio.Task[str | None]] = set()
        self._wanted = asyncio.Event()  # that files are looked at now

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

    # --- certificates (handlers.context.Certificates) ---

    def follow_files(self) -> None:
        """Take over certificates that change, from now on."""
        if self._tls:
            self._follower = self._broker.loop.create_task(self._follow())

    def tick(self) -> None:
        """The settings may have changed: files of other names are in force then."""
        if self._broker.config is not self._config:
            self._config = self._broker.config
            self._wanted.set()

    def read_again(self) -> None:
        """Take over what has changed in the files that the settings name."""
        self._wanted.set()

    def try_out(self, config: BrokerConfig, done: Callable[[str | None], None]) -> None:
        """`done` is called with why the files that these settings name cannot be used, or with None."""
        task = self._broker.loop.create_task(self._problem(config))
        task.add_done_callback(lambda task: done("the broker stops" if task.cancelled() else task.result()))
        self._trials.add(task)
        task.add_done_callback(self._trials.discard)

    async def _problem(self, config: BrokerConfig) -> str | None:
        for name, door in self._tls.items():
            given = config.for_listener(name)
            try:
                await self._broker.loop.run_in_executor(None, door.tls.replacement, given)
            except OutsideError as error:
                return f"listener {name}: {error}"
            except Exception as error:
                log.exception("trying the certificates of listener %s", name)
                return f"listener {name}: {type(error).__name__}"
        return None

    async def _follow(self) -> None:
        seconds = self._broker.config.integer("coterie.certificates.check.ms") / 1000
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), seconds or None)
            self._wanted.clear()
            for door in self._tls.values():
                try:
                    await door.tls.check()
                except Exception:  # one listener's trouble must not end it
                    log.exception("checking certificates")

    def close(self) -> None:
        """Follow no files any more."""
        for task in (self._follower, *self._trials):
            if task is not None:
                task.cancel()
