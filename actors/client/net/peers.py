"""A client's connections to nodes: made when they are needed, and after a failure not before a backoff is over.

Runs on the event loop. A `Connections` has one connection to each node. Requests that must not wait behind others, as
those to a group's coordinator, go over connections of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from actors.client.errors import (
    AuthenticationError,
    HungUpError,
    KafkaConnectionError,
    KafkaError,
    SecurityProtocolError,
)
from actors.client.net.backoff import Backoff, Jitter
from actors.client.net.connection import NO_CONNECTION, Connection
from actors.client.net.exchange import Lost
from actors.client.net.nodes import NodeLoad
from actors.client.net.settings import NetworkSettings
from actors.client.records import Node
from actors.runtime.sharing import result_of
from actors.wire.messages import ApiMessage

log = logging.getLogger(__name__)

Dial = Callable[[Node, Lost], Awaitable[Connection]]
"""Connects to a node and logs in. Raises KafkaConnectionError, AuthenticationError."""


class Denials:
    """The log of refused logins. Whoever calls the client gets the error; a warning would say it twice."""

    def __init__(self) -> None:
        self._last = ""

    def note(self, error: AuthenticationError) -> None:
        """Log an error, and the same one again only for debugging."""
        log.log(logging.INFO if self._last != str(error) else logging.DEBUG, "%s", error)
        self._last = str(error)


@dataclass(frozen=True, slots=True)
class Means:
    """The means that all peers of a client share. `now_ms` is monotonic.

    `has_answer`: a broker has given metadata before. `on_failure` is called when a node could not be reached.
    """

    settings: NetworkSettings
    dial: Dial
    now_ms: Callable[[], int]
    jitter: Jitter
    has_answer: Callable[[], bool]
    on_failure: Callable[[], None]
    denials: Denials

    @property
    def backoff(self) -> Backoff:
        """The waits between attempts to reach a node."""
        return Backoff(self.settings.reconnect_backoff_ms, self.settings.reconnect_backoff_max_ms, self.jitter)


class Peer:
    """A node, this client's connection to it, and the time before which it is not tried again.

    `denied`: it did not let us in, or we did not believe it. `trouble` is why there was no connection the last time,
    and `failures` how often in a row there was none. `on_lost` is called when a connection that was there ends.
    """

    def __init__(self, node: Node, means: Means, on_lost: Callable[[Node], None]) -> None:
        self.node = node
        self.connection = NO_CONNECTION
        self.denied: AuthenticationError | None = None
        self.trouble = ""
        self.failures = 0
        self._means = means
        self._on_lost = on_lost
        self._connecting: asyncio.Task[Connection] | None = None
        self._hang_ups = 0
        self._not_before_ms = 0
        self._last_attempt_ms = 0
        self._is_retired = False

    async def connected(self) -> Connection:
        """A usable connection. Raises KafkaConnectionError, AuthenticationError: at once in its backoff."""
        if self.connection.is_usable:
            return self.connection
        if self._connecting is None:
            now_ms, is_stale = self._means.now_ms(), self.connection.is_stale
            if not is_stale and now_ms < self._not_before_ms:
                if self.denied is not None:
                    raise again(self.denied)
                raise KafkaConnectionError(f"{self.node.host}:{self.node.port} cannot be reached just now")
            self._last_attempt_ms = now_ms
            work = self._renew(self.connection) if is_stale else self.connect()
            self._connecting = asyncio.get_running_loop().create_task(work)
        return await result_of(self._connecting)

    def retire(self) -> None:
        """Close the connection: the broker is elsewhere now, or the client closes."""
        self._is_retired = True
        self.connection.close()

    async def connect(self) -> Connection:
        """One attempt to connect."""
        try:
            connection = await self._means.dial(self.node, self._lost)
            if self._is_retired:  # the broker has moved while this connected, and nobody else would close it
                connection.close()
                at = f"{self.node.host}:{self.node.port}"
                raise KafkaConnectionError(f"{at} is not where the broker is any more")
            self.connection = connection
            self.failures, self.trouble = 0, ""
            self.denied = None
            return connection
        except KafkaError as error:
            self._failed(error)
            raise
        finally:
            self._connecting = None

    async def _renew(self, connection: Connection) -> Connection:
        """Log in again on a connection (KIP-368). If that fails, it is closed, which `_lost` hears of."""
        try:
            await connection.renew()
            return connection
        finally:
            self._connecting = None

    def _lost(self, error: KafkaError) -> None:
        if self.connection is NO_CONNECTION:
            return  # it was not there yet: `connect` raises
        self.connection = NO_CONNECTION
        if not self._is_retired:
            log.debug("connection to %s:%d lost: %s", self.node.host, self.node.port, error)
            self._failed(error)
            self._on_lost(self.node)

    def _failed(self, error: KafkaError) -> None:
        if self._speaks_otherwise(error):
            error = SecurityProtocolError(str(error))
        self.failures += 1
        at = f"{self.node.host}:{self.node.port}"
        self.trouble = str(error) if at in str(error) else f"{at}: {error}"
        self.denied = error if isinstance(error, AuthenticationError) else None
        means = self._means
        if self.denied is not None:
            self._not_before_ms = means.now_ms() + means.settings.reconnect_backoff_max_ms
            means.denials.note(self.denied)
            return
        self._not_before_ms = means.now_ms() + means.backoff.delay_ms(self.failures)
        means.on_failure()

    def _speaks_otherwise(self, error: KafkaError) -> bool:
        """True if a broker has hung up so often that another security protocol is the reason, and not an accident."""
        self._hang_ups = self._hang_ups + 1 if isinstance(error, HungUpError) else 0
        most = self._means.settings.hang_ups_max
        return most is not None and self._hang_ups >= most and not self._means.has_answer()

    def load(self) -> NodeLoad:
        """The facts that the choice of a node needs."""
        connection = self.connection
        in_flight = connection.in_flight
        return NodeLoad(
            self.node.id,
            ready=in_flight < self._means.settings.max_in_flight and connection.is_usable,
            connecting=self._connecting is not None,
            connectable=connection.is_stale
            or (connection is NO_CONNECTION and self._means.now_ms() >= self._not_before_ms),
            in_flight=in_flight,
            last_attempt_ms=self._last_attempt_ms,
        )


class Connections:
    """One connection to each node that was asked. `on_lost` hears of a node whose connection has ended."""

    def __init__(self, means: Means, on_lost: Callable[[Node], None] = lambda node: None) -> None:
        self._means = means
        self._on_lost = on_lost
        self._peers: dict[int, Peer] = {}

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._peers.values())

    def to(self, node: Node) -> Peer:
        """The peer at a node. One that had another address before loses its connection."""
        peer = self._peers.get(node.id)
        if peer is None or (peer.node.host, peer.node.port) != (node.host, node.port):
            if peer is not None:
                peer.retire()
            peer = self._peers[node.id] = Peer(node, self._means, self._on_lost)
        return peer

    async def connection(self, node: Node) -> Connection:
        """A usable connection to a node. Raises as `Peer.connected`."""
        return await self.to(node).connected()

    async def ask(
        self,
        node: Node,
        request: ApiMessage,
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """The answer of a node. `max_version` is as in `choose_version`.

        Raises KafkaConnectionError, KafkaTimeoutError, AuthenticationError, UnsupportedVersionError.
        """
        peer = self.to(node)
        connection = peer.connection if peer.connection.is_usable else await peer.connected()
        timeout_ms = timeout_ms or self._means.settings.request_timeout_ms
        return await connection.call(request, timeout_ms, min_version, max_version=max_version)

    def drop(self, node: Node, why: str) -> None:
        """Close the connection to a node, so that what is in flight on it fails."""
        peer = self._peers.get(node.id)
        if peer is not None:
            peer.connection.close(KafkaConnectionError(why))

    def close(self) -> None:
        """Close all connections."""
        for peer in self._peers.values():
            peer.retire()


def again(error: AuthenticationError) -> AuthenticationError:
    """The same error once more: one that is raised in two places would gather both tracebacks."""
    return type(error)(str(error))
