"""The methods of `Admin` for the records of partitions, on the event loop: their beginnings and ends, and deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from actors.client.admin.brokers import Brokers, outcome
from actors.client.errors import KafkaError, LeaderNotAvailableError
from actors.client.net.leaders import by_leader, by_topic, list_offsets
from actors.client.records import Node, OffsetAndTimestamp, TopicPartition
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import DeleteRecordsRequest

_COMPACT: Final = "its cleanup.policy is compact alone, and such a topic's records are not deleted by offset"
Deleted = dict[TopicPartition, int | KafkaError]
"""The new first offset of each partition, or the error because of which nothing was deleted there."""


class Records:
    """Asks the leaders of partitions. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int, deadline: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix ms, EARLIEST or LATEST); None where there is none."""
        network = self._brokers.network
        with network.holding(tp.topic for tp in times):
            await self._know(times, deadline)
            left = max(1, deadline - self._brokers.network.now_ms())
            return await list_offsets(network, times, isolation=isolation_level, timeout_ms=left)

    async def _know(self, partitions: Iterable[TopicPartition], deadline: int) -> None:
        """Fetch metadata until the leaders of these partitions are known."""
        found = await self._brokers.metadata({tp.topic for tp in partitions}, deadline)
        cluster = self._brokers.network.cluster
        cluster.topics = cluster.topics | found.topics

    async def delete(self, before: Mapping[TopicPartition, int], deadline: int) -> Deleted:
        """Delete the records before these offsets; -1: all that there are now."""

        async def once(left: list[TopicPartition]) -> Deleted:
            await self._know(left, deadline)
            results: Deleted = {}
            for node, tps in by_leader(self._brokers.network, left).items():
                results |= await self._delete_at(node, {tp: before[tp] for tp in tps}, deadline)
            return results

        return await self._brokers.network.retries(deadline).until_each_done(before, once)

    async def _delete_at(self, node: Node | None, before: Mapping[TopicPartition, int], deadline: int) -> Deleted:
        def partition(tp: TopicPartition) -> DeleteRecordsRequest.DeleteRecordsPartition:
            return DeleteRecordsRequest.DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp])

        if node is None:
            return {tp: LeaderNotAvailableError(f"{tp.topic}-{tp.partition} has no leader") for tp in before}
        topic = DeleteRecordsRequest.DeleteRecordsTopic
        topics = [topic(name=name, partitions=parts) for name, parts in by_topic(before, partition).items()]
        timeout = max(1, deadline - self._brokers.network.now_ms())
        try:
            response = await self._brokers.network.ask(node, DeleteRecordsRequest(topics=topics, timeout_ms=timeout))
        except KafkaError as failure:
            return dict.fromkeys(before, failure)
        results: Deleted = {}
        for t in response.topics:
            for p in t.partitions:
                what = f"deleting records of {t.name}-{p.partition_index}"
                detail = _COMPACT if p.error_code == Code.POLICY_VIOLATION else None  # the answer has no text
                error = outcome(p.error_code, what, detail, topic=t.name)
                results[TopicPartition(t.name, p.partition_index)] = error or p.low_watermark
        return results
