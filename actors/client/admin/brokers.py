"""The requests of an `Admin` to brokers: their choice, the number of requests, and repetition.

A deadline is a monotonic time in milliseconds (`Network.now_ms`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from actors.client.config import network_settings
from actors.client.error_codes import error_for
from actors.client.errors import (
    ClosedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from actors.client.net.metadata import ClusterMetadata, metadata_request
from actors.client.net.network import Network
from actors.client.records import Node
from actors.client.settings import ClientConfig
from actors.runtime.environment import Environment
from actors.wire.messages import FindCoordinatorRequest

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Outcomes = dict[K, KafkaError | None]
"""For each thing that was to be done: None, or the error because of which it was not."""
Answers = Mapping[str, Any]
_HANG_UPS_MAX: Final = 3


class Brokers:
    """The connections of an `Admin`. Retriable errors are retried until the deadline of the call."""

    def __init__(self, config: ClientConfig, environment: Environment) -> None:
        # Asking about a topic must not create it. Nobody waits for a broker that speaks another protocol.
        settings = replace(network_settings(config), allow_auto_create_topics=False, hang_ups_max=_HANG_UPS_MAX)
        self.network = Network(settings, environment=environment)
        self._timeout_ms: int = config.default_api_timeout_ms
        self._closed = False
        self.network.start()

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self.network.close()

    def run(self, work: Callable[[int], Coroutine[Any, Any, T]], timeout_ms: int | None) -> T:
        """From any thread: run `work(deadline)` on the loop and wait for it; None = default_api_timeout_ms."""
        if self._closed:
            raise ClosedError
        limit = self._timeout_ms if timeout_ms is None else timeout_ms

        async def limited() -> T:
            # Longer than the work's own deadline, because its error says what it was waiting for.
            async with asyncio.timeout((limit + 500) / 1000):
                return await work(self.network.now_ms() + limit)

        try:
            return self.network.run(limited()).result()
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            why = f": {self.network.silence()}" if not self.network.cluster.brokers else ""
            raise KafkaTimeoutError(f"not finished within {limit} ms{why}") from error

    async def again(self, attempt: Callable[[], Awaitable[T]], deadline: int) -> T:
        """The first result of `attempt` that is not a retriable error."""
        try:
            return await self.network.retries(deadline).until_done(attempt)
        except KafkaError as error:
            raise self._last(error) from None

    def _last(self, error: KafkaError) -> KafkaError:
        """The error to end with: if no broker has ever answered, one that names the setting and all addresses."""
        alone = isinstance(error, KafkaConnectionError) and not self.network.cluster.brokers
        return NoBrokersAvailable(self.network.why(error)) if alone else error

    # --- brokers ------------------------------------------------------------------------------------------------------

    async def metadata(self, topics: Iterable[str] | None, deadline: int) -> ClusterMetadata:
        """Fresh metadata; its brokers are remembered for choosing the least-loaded one."""
        names = None if topics is None else frozenset(topics)

        async def ask() -> ClusterMetadata:
            found = ClusterMetadata()
            found.update(await self.network.ask(None, metadata_request(names, create=False)), names)
            self.network.cluster.brokers = found.brokers
            self.network.cluster.controller_id = found.controller_id
            return found

        return await self.again(ask, deadline)

    async def ask_controller(self, make: Callable[[int], Any], deadline: int) -> Any:
        """The answer of the controller, or of any broker where the controller is not a broker."""
        cluster = await self.metadata((), deadline)
        node = cluster.brokers.get(cluster.controller_id)
        timeout = max(1, deadline - self.network.now_ms())
        return await self.network.ask(node, make(timeout), timeout_ms=timeout)

    async def by_name(
        self,
        names: Iterable[K],
        ask: Callable[[list[K]], Awaitable[Outcomes[K]]],
        deadline: int,
    ) -> Outcomes[K]:
        """Call `ask` for all names, and again for those with a retriable error. Returns one outcome for each name."""

        async def once(some: list[K]) -> Outcomes[K]:
            try:
                return await ask(some)
            except KafkaError as error:
                if not error.retriable:
                    raise
                return dict.fromkeys(some, error)

        return await self.network.retries(deadline).until_each_done(names, once)

    async def everywhere(self, ask: Callable[[Node], Awaitable[T]], deadline: int) -> list[T]:
        """The answers of all brokers; each is tried until the deadline."""
        cluster = await self.metadata((), deadline)
        if not cluster.brokers:
            raise NoBrokersAvailable

        def of(node: Node) -> Callable[[], Awaitable[T]]:
            return lambda: ask(node)

        return list(await asyncio.gather(*(self.again(of(node), deadline) for node in cluster.brokers.values())))

    # --- coordinators -------------------------------------------------------------------------------------------------

    async def _coordinators(self, groups: list[str]) -> dict[str, Node | KafkaError]:
        """The coordinator of each group, asked for in one request if the broker can do that (KIP-699)."""
        try:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
            response = await self.network.ask(None, request, min_version=4)
            return {answer.key: _node_of(answer, answer.key) for answer in response.coordinators}
        except UnsupportedVersionError:
            found: dict[str, Node | KafkaError] = {}
            for group in groups:
                request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
                response = await self.network.ask(None, request, max_version=3)
                found[group] = _node_of(response, group)
            return found

    async def at_coordinators(
        self,
        groups: Iterable[str],
        ask: Callable[[Node, list[str]], Awaitable[Mapping[str, T | KafkaError]]],
        deadline: int,
    ) -> dict[str, T | KafkaError]:
        """Ask each coordinator about its groups. Returns a result or an error for each group."""
        retries = self.network.retries(deadline)
        return await retries.until_each_done(groups, lambda left: self._one_round(left, ask))

    async def _one_round(
        self, groups: list[str], ask: Callable[[Node, list[str]], Awaitable[Mapping[str, T | KafkaError]]]
    ) -> dict[str, T | KafkaError]:
        try:
            nodes = await self._coordinators(groups)
        except KafkaError as error:
            return dict.fromkeys(groups, self._last(error))
        results: dict[str, T | KafkaError] = {}
        by_node: dict[Node, list[str]] = {}
        for group in groups:
            node = nodes.get(group) or KafkaError(f"nobody said who coordinates {group}")
            if isinstance(node, KafkaError):
                results[group] = node
            else:
                by_node.setdefault(node, []).append(group)
        answers = await asyncio.gather(*(ask(n, gs) for n, gs in by_node.items()), return_exceptions=True)
        for mine, answer in zip(by_node.values(), answers, strict=True):
            if isinstance(answer, KafkaError):
                results |= dict.fromkeys(mine, answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                results |= answer
        return results

    async def at_coordinator(self, group: str, ask: Callable[[Node], Awaitable[T]], deadline: int) -> T:
        """As `at_coordinators`, for one group. Returns its result or raises its error."""

        async def one(node: Node, groups: list[str]) -> dict[str, T | KafkaError]:
            return {groups[0]: await ask(node)}

        result = (await self.at_coordinators([group], one, deadline))[group]
        if isinstance(result, KafkaError):
            raise result
        return result


def _node_of(answer: Any, group: str) -> Node | KafkaError:
    if answer.error_code:
        return error_for(answer.error_code, f"looking up the coordinator of {group}", answer.error_message)
    return Node(answer.node_id, answer.host, answer.port)


def outcome(code: int, what: str, detail: str | None = None, topic: str | None = None) -> KafkaError | None:
    """The error for an error code, None for 0. `what` was being done; `detail` is the broker's own message."""
    return error_for(code, what, detail, [topic] if topic else ()) if code else None


def outcome_of_change(code: int, what: str, detail: str | None = None, topic: str | None = None) -> KafkaError | None:
    """As `outcome`. An unknown topic is not retriable: whoever changes one does not wait for it to appear."""
    error = outcome(code, what, detail, topic)
    if isinstance(error, UnknownTopicOrPartitionError):
        return UnknownTopicOrPartitionError(str(error), retriable=False)
    return error
