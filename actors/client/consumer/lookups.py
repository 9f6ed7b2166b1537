"""A consumer's questions to brokers besides records: offsets, and topics. In the user's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from actors.client.consumer.user_thread import UserThread
from actors.client.errors import KafkaError, KafkaTimeoutError
from actors.client.group.driver import Driver
from actors.client.net.changes import Changes
from actors.client.net.leaders import list_offsets
from actors.client.net.metadata import ClusterMetadata, TopicInfo, metadata_request
from actors.client.net.network import Network
from actors.client.net.retries import NEVER_MS
from actors.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from actors.client.settings import ConsumerConfig

T = TypeVar("T")

_GRACE_MS = 1000  # the work's own timeout comes first: its message says what it was waiting for


class Lookups:
    """Asks on the event loop and waits for the answers. Times are in milliseconds."""

    def __init__(
        self, config: ConsumerConfig, network: Network, driver: Driver, thread: UserThread, changes: Changes
    ) -> None:
        self._config = config
        self._network = network
        self._driver = driver
        self._thread = thread
        self._changes = changes

    def result(self, work: Coroutine[Any, Any, T], timeout_ms: int) -> T:
        """Run a coroutine on the loop and return its result. Raises WakeupError, KafkaTimeoutError and its errors."""
        future = self._network.run(work)
        future.add_done_callback(lambda _: self._changes.tell())
        until_ms = self._network.now_ms() + timeout_ms + _GRACE_MS
        late = f"not finished within {timeout_ms} ms"
        return self._thread.result(future, until_ms, lambda: late + self._network.outage.because())

    def offsets(
        self, wanted: dict[TopicPartition, int], timeout_ms: int, isolation_level: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (or EARLIEST, LATEST), None where there is none.

        `isolation_level` is 0 (uncommitted) or 1 (committed); None = the consumer's own.
        """
        if isolation_level is None:
            isolation_level = int(self._config.reads_committed)

        async def ask() -> dict[TopicPartition, OffsetAndTimestamp | None]:
            with self._network.holding(tp.topic for tp in wanted):
                if any(self._network.cluster.partition(tp) is None for tp in wanted):
                    async with asyncio.timeout(timeout_ms / 1000):
                        await self._network.refreshed()
                return await list_offsets(self._network, wanted, isolation=isolation_level, timeout_ms=timeout_ms)

        return self._metadata(ask(), timeout_ms)

    def ends(
        self, partitions: list[TopicPartition], at: int, timeout_ms: int, isolation_level: int | None = None
    ) -> dict[TopicPartition, int]:
        """One end of each partition: EARLIEST or LATEST."""
        found = self.offsets(dict.fromkeys(partitions, at), timeout_ms, isolation_level)
        return {tp: offset.offset if offset else 0 for tp, offset in found.items()}

    def committed(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets."""
        return self.result(self._driver.committed(partitions, timeout_ms), timeout_ms)

    def ids(self, names: list[str], timeout_ms: int) -> dict[str, bytes]:
        """The ids of these topics by the newest metadata."""

        async def ask() -> dict[str, bytes]:
            with self._network.holding(names):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._network.refreshed()
            found = {name: self._network.cluster.topic_id(name) for name in names}
            return {name: topic_id for name, topic_id in found.items() if topic_id}

        return self._metadata(ask(), timeout_ms)

    def topics(self, names: list[str] | None, timeout_ms: int) -> dict[str, TopicInfo]:
        """The metadata of these topics, or of all."""

        async def ask() -> dict[str, TopicInfo]:
            wanted = None if names is None else frozenset(names)
            request = metadata_request(wanted, create=False)
            async with asyncio.timeout(timeout_ms / 1000):  # its error says more than that of the last attempt
                answer = await self._network.retries(NEVER_MS).until_done(lambda: self._network.ask(None, request))
            found = ClusterMetadata()
            found.update(answer, wanted)
            return found.topics

        return self._metadata(ask(), timeout_ms)

    def partitions(self, topic: str, timeout_ms: int) -> set[int] | None:
        """The partition numbers of a topic; None if there is no such topic."""
        info = self.topics([topic], timeout_ms).get(topic)
        return set(info.partitions) if info is not None and info.partitions else None

    def names(self, timeout_ms: int) -> set[str]:
        """All topics, without internal ones."""
        return {name for name, info in self.topics(None, timeout_ms).items() if not info.is_internal}

    def _metadata(self, work: Coroutine[Any, Any, T], timeout_ms: int) -> T:
        """As `result`, for work that ends by itself with a TimeoutError; the text says why brokers do not answer."""
        try:
            return self.result(work, timeout_ms)
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise KafkaTimeoutError(f"no metadata within {timeout_ms} ms: {self._network.silence()}") from None
