"""The network of a client: its background thread, connections and metadata. It knows nothing of groups.

Other threads may call `start`, `run`, `soon`, `holding` and `close`; everything else runs on the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import uvloop

from actors.client.errors import AuthenticationError, NoBrokersAvailable
from actors.client.net.access import Access
from actors.client.net.backoff import Backoff
from actors.client.net.connection import Connection, connect
from actors.client.net.exchange import Lost
from actors.client.net.freshness import NOBODY, Freshness, MetadataUser
from actors.client.net.loop_thread import LoopThread
from actors.client.net.nodes import least_loaded
from actors.client.net.outage import unreachable
from actors.client.net.peers import Connections, Denials, Dial, Means, Peer, again
from actors.client.net.retries import Retries
from actors.client.net.settings import NetworkSettings
from actors.client.records import Node
from actors.runtime.environment import REAL, Environment
from actors.wire.messages import ApiMessage, MetadataRequest, MetadataResponse

T = TypeVar("T")


class Dialler:
    """Connects as the settings say. Raises ConfigurationError if a file or a password is not there."""

    def __init__(self, settings: NetworkSettings, environment: Environment) -> None:
        self._settings = settings
        self._access = Access(settings.security, environment.chance)

    async def __call__(self, node: Node, on_lost: Lost) -> Connection:
        settings = self._settings
        return await connect(
            node.host, node.port, settings.client_id, on_lost, settings.connect_timeout_ms, self._access
        )


class Network:
    """Sends requests to nodes, and from `start` on keeps the metadata of topics fresh.

    It has the clock of its client. `loop` and `dial` are for tests: a loop that runs already, and other connections.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        *,
        environment: Environment = REAL,
        loop: asyncio.AbstractEventLoop | None = None,
        dial: Dial | None = None,
    ) -> None:
        self.settings = settings
        self.environment = environment
        self.now_ms: Callable[[], int] = environment.clock.monotonic_ms
        """Monotonic milliseconds, the clock of everything in a client."""
        dial = dial or Dialler(settings, environment)
        self.loop = loop or uvloop.new_event_loop()
        self._thread = LoopThread(self.loop, f"kafka-{settings.client_id}")
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, self.jitter)
        self._freshness = Freshness(settings, self._backoff, self.now_ms, self._ask_for_metadata, self.why)
        self.cluster = self._freshness.cluster
        self.outage = self._freshness.outage
        """Since when no broker has given us metadata, and why."""
        self._means = Means(
            settings,
            dial,
            self.now_ms,
            self.jitter,
            has_answer=lambda: bool(self.cluster.brokers),
            on_failure=self._freshness.refresh,
            denials=Denials(),
        )
        self._connections = Connections(self._means)
        self._all_connections = [self._connections]

    def jitter(self) -> float:
        """The factor that a pause is multiplied with, so that clients part ways."""
        return self.environment.chance.uniform(0.8, 1.2)

    def retries(self, deadline_ms: int) -> Retries:
        """The attempts at one thing, with the pauses of retry_backoff_ms, until `deadline_ms` (monotonic)."""
        return Retries(self._backoff, self.now_ms, deadline_ms)

    def own_connections(self, on_lost: Callable[[Node], None]) -> Connections:
        """Connections for requests that must not wait behind others. `on_lost` hears of each node that was lost."""
        made = Connections(self._means, on_lost)
        self._all_connections.append(made)
        return made

    # --- other threads --------------------------------------------------------------------------------------------

    def start(self, user: MetadataUser = NOBODY) -> None:
        """Start the thread, and keep metadata fresh for `user`. Connections are made when they are needed."""
        self._thread.start(self.keep_metadata(user))

    async def keep_metadata(self, user: MetadataUser) -> None:
        """The work of the thread, for a loop that runs already."""
        await self._freshness.keep(user)

    def run(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop; returns a future of its result."""
        return self._thread.run(work)

    def soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Have a function called on the loop. After `close` it is not called."""
        self._thread.soon(function, *args)

    def holding(self, topics: Iterable[str]) -> AbstractContextManager[None]:
        """Within the block, metadata is asked for these topics, too, so that somebody can wait for their leaders."""
        return self._freshness.holding(topics)

    def close(self, timeout_s: float = 5.0) -> None:
        """Close all connections and end the thread."""
        self._thread.close(self._close_connections, timeout_s)

    def _close_connections(self) -> None:
        for connections in self._all_connections:
            connections.close()

    # --- requests -------------------------------------------------------------------------------------------------

    async def ask(
        self,
        node: Node | None,
        request: ApiMessage,
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """The answer of `node` (None: the least-loaded one). `max_version` is as in `choose_version`.

        Raises KafkaConnectionError, KafkaTimeoutError, NoBrokersAvailable, AuthenticationError,
        UnsupportedVersionError.
        """
        return await self._connections.ask(
            self.least_loaded() if node is None else node,
            request,
            timeout_ms=timeout_ms,
            min_version=min_version,
            max_version=max_version,
        )

    async def _ask_for_metadata(self, request: MetadataRequest) -> MetadataResponse:
        answer: MetadataResponse = await self.ask(None, request)
        return answer

    async def connection(self, node: Node | None) -> Connection:
        """A usable connection to a node. Raises KafkaConnectionError, AuthenticationError.

        While the node is in its backoff, it raises at once.
        """
        peer = self._connections.to(self.least_loaded() if node is None else node)
        return await peer.connected()

    def least_loaded(self) -> Node:
        """The node to ask what any can answer. Raises NoBrokersAvailable, AuthenticationError."""
        known = [self._connections.to(node) for node in self.cluster.brokers.values()]
        bootstrap = [
            self._connections.to(Node(-1 - i, host, port)) for i, (host, port) in enumerate(self.settings.bootstrap)
        ]
        # All brokers may have come back under other addresses. So the bootstrap list is tried in turns with the known
        # addresses, and does not wait until all of these are in their backoff at once, which might never be.
        lost = all(peer.failures for peer in known)
        for peers in ([*known, *bootstrap],) if lost else (known, bootstrap):
            if (chosen := self._choose(peers)) is not None:
                return chosen
        for peer in (*known, *bootstrap):
            if peer.denied is not None:
                raise again(peer.denied)
        raise NoBrokersAvailable(unreachable(peer.trouble for peer in (*known, *bootstrap)))

    def _choose(self, peers: list[Peer]) -> Node | None:
        if not peers:
            return None
        chosen = least_loaded([peer.load() for peer in peers], self.environment.chance.randrange(len(peers)))
        return None if chosen is None else next(peer.node for peer in peers if peer.node.id == chosen)

    def why(self, error: Exception) -> str:
        """The reason why there is no metadata: the text of the error, or of earlier troubles of connections."""
        if isinstance(error, (AuthenticationError, NoBrokersAvailable)):
            return str(error)
        troubles = (peer.trouble for connections in self._all_connections for peer in connections)
        return unreachable(troubles) or str(error)

    def silence(self) -> str:
        """The reason why brokers do not answer, for the text of a timeout. Any thread may ask."""
        return self.outage.text(self.settings.bootstrap)

    # --- metadata -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Have metadata asked for soon."""
        self._freshness.refresh()

    async def refreshed(self) -> None:
        """Wait for an update that was asked for after this call."""
        await self._freshness.refreshed()
