"""The background thread of a client: its event loop, connections and metadata. It knows nothing of groups.

Other threads may call `start`, `run`, `soon`, `holding` and `close`; everything else runs on the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import uvloop

from actors.client.errors import (
    AuthenticationError,
    HungUpError,
    KafkaConnectionError,
    KafkaError,
    NoBrokersAvailable,
    SecurityProtocolError,
)
from actors.client.net.access import Access
from actors.client.net.backoff import Backoff
from actors.client.net.connection import Connection
from actors.client.net.metadata import ClusterMetadata, metadata_request
from actors.client.net.nodes import NodeLoad, least_loaded
from actors.client.net.outage import Outage, unreachable
from actors.client.net.retries import Retries
from actors.client.net.settings import NetworkSettings
from actors.client.records import Node
from actors.runtime.environment import REAL, Environment
from actors.wire.messages import ApiMessage, MetadataResponse

log = logging.getLogger(__name__)
T = TypeVar("T")

_COORDINATOR_IDS = 2147483647


@dataclass(slots=True)
class _Peer:
    """A node and this client's connection to it. `denied`: it did not let us in, or we did not believe it.

    `trouble` is why there was no connection the last time, and `hang_ups` how often in a row it hung up on us.
    """

    node: Node
    connection: Connection | None = None
    connecting: asyncio.Task[Connection] | None = None
    failures: int = 0
    hang_ups: int = 0
    not_before_ms: int = 0
    last_attempt_ms: int = 0
    denied: AuthenticationError | None = None
    trouble: str = ""


@dataclass(slots=True)
class Network:
    """Sends requests to nodes, and keeps the metadata of topics fresh: of `wanted()`, and of those held (`holding`).

    It has the clock of its client.

    `on_metadata` is called after each update, and `on_denied` when no broker lets us in to ask for one. With
    `create_only_held` brokers may create topics only while some are held. `on_coordinator_lost` is called when the
    connection to a coordinator ends, even if nothing was in flight.
    """

    settings: NetworkSettings
    wanted: Callable[[], frozenset[str] | None] = frozenset
    create_only_held: bool = False
    on_metadata: Callable[[], None] = lambda: None
    on_coordinator_lost: Callable[[Node], None] = lambda node: None
    on_denied: Callable[[AuthenticationError], None] = lambda error: None
    cluster: ClusterMetadata = field(default_factory=ClusterMetadata)
    outage: Outage = field(default_factory=Outage)
    """Since when no broker has given us metadata, and why."""
    loop: asyncio.AbstractEventLoop = field(default_factory=uvloop.new_event_loop)
    environment: Environment = REAL
    now_ms: Callable[[], int] = field(init=False)
    """Monotonic milliseconds, the clock of everything in a client."""
    _peers: dict[int, _Peer] = field(default_factory=dict)
    _thread: threading.Thread | None = None
    _refresh: asyncio.Event = field(default_factory=asyncio.Event)
    _refreshed: list[asyncio.Future[None]] = field(default_factory=list)
    _held: dict[object, frozenset[str]] = field(default_factory=dict)
    _metadata_failures: int = 0
    _closed: bool = False
    _last_denial: str = ""
    _access: Access = field(init=False)

    def __post_init__(self) -> None:
        self.now_ms = self.environment.clock.monotonic_ms
        self._access = Access(self.settings.security, self.environment.chance)

    def jitter(self) -> float:
        """The factor that a pause is multiplied with, so that clients part ways."""
        return self.environment.chance.uniform(0.8, 1.2)

    def retries(self, deadline_ms: int) -> Retries:
        """The attempts at one thing, with the pauses of retry_backoff_ms, until `deadline_ms` (monotonic)."""
        backoff = Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, self.jitter)
        return Retries(backoff, self.now_ms, deadline_ms)

    # --- other threads --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread. Connections are made when they are needed."""
        self._thread = threading.Thread(target=self._main, name=f"kafka-{self.settings.client_id}", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop; returns a future of its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called on the loop. After `close` it is not called."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    @contextlib.contextmanager
    def holding(self, topics: Iterable[str]) -> Iterator[None]:
        """Within the block, metadata is asked for these topics, too, so that somebody can wait for their leaders."""
        mine = object()
        self._held[mine] = frozenset(topics)
        try:
            yield
        finally:
            del self._held[mine]

    def close(self, timeout_s: float = 5.0) -> None:
        """Close all connections and end the thread."""
        if self._closed or self._thread is None:
            return
        self._closed = True
        self.soon(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        keeper = self.loop.create_task(self._keep_metadata())
        try:
            self.loop.run_forever()
            keeper.cancel()
            # A task that is cancelled may start another: a producer's request that ends has the next one sent.
            while open_tasks := asyncio.all_tasks(self.loop):
                for task in open_tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.gather(*open_tasks, return_exceptions=True))
        finally:
            self.loop.close()

    def _stop(self) -> None:
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.connection.close()
        self.loop.stop()

    # --- requests -------------------------------------------------------------------------------------------------

    async def ask(
        self,
        node: Node | None,
        request: ApiMessage,
        *,
        coordinator: bool = False,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """The answer of `node` (None: the least-loaded one). With `coordinator` it has a connection of its own.

        `max_version` is as in `choose_version`. Raises KafkaConnectionError, KafkaTimeoutError, NoBrokersAvailable,
        UnsupportedVersionError.
        """
        connection = await self.connection(node, coordinator=coordinator)
        timeout_ms = timeout_ms or self.settings.request_timeout_ms
        return await connection.call(request, timeout_ms, min_version, max_version=max_version)

    async def connection(self, node: Node | None, *, coordinator: bool = False) -> Connection:
        """A usable connection to a node. Raises KafkaConnectionError, AuthenticationError.

        While the node is in its backoff, it raises at once.
        """
        peer = self._least_loaded() if node is None else self._peer(node, coordinator=coordinator)
        if peer.connection is not None and peer.connection.usable:
            return peer.connection
        if peer.connecting is None:
            stale = peer.connection if peer.connection is not None and peer.connection.stale else None
            if stale is None and self.now_ms() < peer.not_before_ms:
                if peer.denied is not None:
                    raise again(peer.denied)
                raise KafkaConnectionError(f"{peer.node.host}:{peer.node.port} cannot be reached just now")
            peer.last_attempt_ms = self.now_ms()
            work = self._connect(peer) if stale is None else self._renew(peer, stale)
            peer.connecting = self.loop.create_task(work)
        return await asyncio.shield(peer.connecting)

    async def _connect(self, peer: _Peer) -> Connection:
        settings = self.settings
        try:
            connection = await Connection.open(
                peer.node.host,
                peer.node.port,
                settings.client_id,
                lambda connection, error: self._lost(peer, connection, error),
                settings.connect_timeout_ms,
                self._access,
            )
            if not any(peer is known for known in self._peers.values()):
                # The broker has moved while this connected, and nobody else would close the connection.
                connection.close()
                raise KafkaConnectionError(f"{peer.node.host}:{peer.node.port} is not where the broker is any more")
            peer.connection = connection
            peer.failures, peer.trouble = 0, ""
            peer.denied = None
            return connection
        except KafkaError as error:
            self._failed(peer, error)
            raise
        finally:
            peer.connecting = None

    async def _renew(self, peer: _Peer, connection: Connection) -> Connection:
        """Log in again on a connection (KIP-368). If that fails, it is closed, and `_lost` has been told."""
        try:
            await connection.renew()
            return connection
        finally:
            peer.connecting = None

    def _speaks_otherwise(self, peer: _Peer, error: KafkaError) -> bool:
        """True if a broker has hung up so often that another security protocol is the reason, and not an accident."""
        peer.hang_ups = peer.hang_ups + 1 if isinstance(error, HungUpError) else 0
        most = self.settings.hang_ups_max
        return most is not None and peer.hang_ups >= most and not self.cluster.brokers

    def _failed(self, peer: _Peer, error: KafkaError) -> None:
        if self._speaks_otherwise(peer, error):
            error = SecurityProtocolError(str(error))
        peer.failures += 1
        at = f"{peer.node.host}:{peer.node.port}"
        peer.trouble = str(error) if at in str(error) else f"{at}: {error}"
        peer.denied = error if isinstance(error, AuthenticationError) else None
        if peer.denied is not None:
            peer.not_before_ms = self.now_ms() + self.settings.reconnect_backoff_max_ms
            # Whoever calls the client gets this error; a warning would say it twice.
            log.log(logging.INFO if self._last_denial != str(error) else logging.DEBUG, "%s", error)
            self._last_denial = str(error)
            return
        backoff = Backoff(self.settings.reconnect_backoff_ms, self.settings.reconnect_backoff_max_ms, self.jitter)
        peer.not_before_ms = self.now_ms() + backoff.delay_ms(peer.failures)
        self.refresh()

    def _lost(self, peer: _Peer, connection: Connection, error: KafkaError) -> None:
        if peer.connection is connection:
            peer.connection = None
            if not self._closed:
                log.debug("connection to %s:%d lost: %s", peer.node.host, peer.node.port, error)
                self._failed(peer, error)
                if self._peers.get(_COORDINATOR_IDS - peer.node.id) is peer:
                    self.on_coordinator_lost(peer.node)

    def _peer(self, node: Node, *, coordinator: bool) -> _Peer:
        key = _COORDINATOR_IDS - node.id if coordinator else node.id
        peer = self._peers.get(key)
        if peer is None or (peer.node.host, peer.node.port) != (node.host, node.port):
            if peer is not None and peer.connection is not None:
                peer.connection.close()
            peer = self._peers[key] = _Peer(node)
        return peer

    def drop_coordinator(self, node: Node) -> None:
        """Close the coordinator connection to `node`, so that what is in flight on it fails."""
        peer = self._peers.get(_COORDINATOR_IDS - node.id)
        if peer is not None and peer.connection is not None:
            peer.connection.close(KafkaConnectionError("this broker is not the coordinator any more"))

    def _least_loaded(self) -> _Peer:
        known = [self._peer(node, coordinator=False) for node in self.cluster.brokers.values()]
        bootstrap = [
            self._peer(Node(-1 - i, host, port), coordinator=False)
            for i, (host, port) in enumerate(self.settings.bootstrap)
        ]
        # All brokers may have come back under other addresses. So the bootstrap list is tried in turns with the known
        # addresses, and does not wait until all of these are in their backoff at once, which might never be.
        lost = all(peer.failures for peer in known)
        for peers in ([*known, *bootstrap],) if lost else (known, bootstrap):
            if peers:
                loads = [self._load(peer) for peer in peers]
                chosen = least_loaded(loads, self.environment.chance.randrange(len(peers)))
                if chosen is not None:
                    return next(peer for peer in peers if peer.node.id == chosen)
        for peer in (*known, *bootstrap):
            if peer.denied is not None:
                raise again(peer.denied)
        raise NoBrokersAvailable(unreachable(peer.trouble for peer in (*known, *bootstrap)))

    def why(self, error: Exception) -> str:
        """The reason why there is no metadata: the text of the error, or of earlier troubles of connections."""
        if isinstance(error, (AuthenticationError, NoBrokersAvailable)):
            return str(error)
        return unreachable(peer.trouble for peer in self._peers.values()) or str(error)

    def silence(self) -> str:
        """The reason why brokers do not answer, for the text of a timeout. Any thread may ask."""
        return self.outage.text(self.settings.bootstrap)

    def _load(self, peer: _Peer) -> NodeLoad:
        connection = peer.connection
        in_flight = connection.in_flight if connection else 0
        return NodeLoad(
            peer.node.id,
            ready=connection is not None and connection.usable and in_flight < self.settings.max_in_flight,
            connecting=peer.connecting is not None,
            connectable=(connection is None and self.now_ms() >= peer.not_before_ms)
            or (connection is not None and connection.stale),
            in_flight=in_flight,
            last_attempt_ms=peer.last_attempt_ms,
        )

    # --- metadata -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Have metadata asked for soon."""
        self._refresh.set()

    async def refreshed(self) -> None:
        """Wait for an update that was asked for after this call."""
        done: asyncio.Future[None] = self.loop.create_future()
        self._refreshed.append(done)
        self._refresh.set()
        await done

    async def _keep_metadata(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.metadata_max_age_ms / 1000):
                    await self._refresh.wait()
            self._refresh.clear()
            waiting, self._refreshed = self._refreshed, []
            self.outage.asked(self.now_ms())
            wanted = self.wanted()
            if wanted is not None:
                wanted = wanted.union(*self._held.values())
            create = self.settings.allow_auto_create_topics and (bool(self._held) or not self.create_only_held)
            try:
                request = metadata_request(wanted, create=create)
                response: MetadataResponse = await self.ask(None, request)
            except Exception as error:  # of a bug, too: without this task the client never learns of a new leader
                may_pass = isinstance(error, AuthenticationError) or (isinstance(error, KafkaError) and error.retriable)
                log.log(logging.DEBUG if may_pass else logging.WARNING, "metadata: %r", error)
                self.outage.failed(self.why(error))
                if isinstance(error, AuthenticationError):
                    self._denied(error, waiting)
                else:
                    self._refreshed += waiting
                self._metadata_failures += 1
                await self._metadata_pause()
                self._refresh.set()
                continue
            self.outage.over()
            try:
                self.cluster.update(response, wanted)
                self.on_metadata()
            except Exception:  # a bug: without this task nobody would hear of metadata again
                log.exception("metadata could not be taken over")
            for done in waiting:
                if not done.done():
                    done.set_result(None)
            if self.cluster.incomplete():
                self._metadata_failures += 1
                self.loop.call_later(self._metadata_delay(), self._refresh.set)
            else:
                self._metadata_failures = 0
            # One request at a time, and only a few a second, however often somebody asks.
            await asyncio.sleep(0.02)

    def _denied(self, error: AuthenticationError, waiting: list[asyncio.Future[None]]) -> None:
        """Nobody waits for metadata that we are not given. The task goes on, for credentials may come back."""
        for each in waiting:
            if not each.done():
                each.set_exception(again(error))
        self.on_denied(error)

    def _metadata_delay(self) -> float:
        backoff = Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, self.jitter)
        return backoff.delay_ms(self._metadata_failures) / 1000

    async def _metadata_pause(self) -> None:
        await asyncio.sleep(self._metadata_delay())


def again(error: AuthenticationError) -> AuthenticationError:
    """The same error once more: one that is raised in two places would gather both tracebacks."""
    return type(error)(str(error))
