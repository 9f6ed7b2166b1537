"""The methods of `Admin` for replicas, on the event loop: moves of partitions, elections of leaders, and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from actors.client.admin.brokers import Brokers, Outcomes, outcome_of_change
from actors.client.admin.types import LogDirDescription, PartitionReassignment, ReplicaSize
from actors.client.error_codes import error_for
from actors.client.net.leaders import by_topic
from actors.client.records import Node, TopicPartition
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import (
    AlterPartitionReassignmentsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

_PREFERRED = 0


class Replicas:
    """Moves replicas (KIP-455), elects leaders (KIP-460), tells sizes (KIP-113, 827). Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def move(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], deadline: int
    ) -> Outcomes[TopicPartition]:
        """Begin to move partitions to these brokers; None calls off a move. One outcome for each."""
        request = AlterPartitionReassignmentsRequest

        async def ask(tps: list[TopicPartition]) -> Outcomes[TopicPartition]:
            def partition(tp: TopicPartition) -> AlterPartitionReassignmentsRequest.ReassignablePartition:
                target = targets[tp]
                return request.ReassignablePartition(
                    partition_index=tp.partition, replicas=None if target is None else list(target)
                )

            topics = [request.ReassignableTopic(name=t, partitions=p) for t, p in by_topic(tps, partition).items()]
            response = await self._brokers.ask_controller(
                lambda timeout: request(timeout_ms=timeout, topics=topics), deadline
            )
            if response.error_code:
                raise error_for(response.error_code, "moving partitions", response.error_message)
            return {
                tp: outcome_of_change(p.error_code, f"moving {tp.topic}-{tp.partition}", p.error_message)
                for tp, p in _partitions(response.responses)
            }

        return await self._brokers.by_name(targets, ask, deadline)

    async def moves(self, deadline: int) -> dict[TopicPartition, PartitionReassignment]:
        """All partitions that are being moved to other brokers."""

        async def attempt() -> dict[TopicPartition, PartitionReassignment]:
            response = await self._brokers.ask_controller(
                lambda timeout: ListPartitionReassignmentsRequest(timeout_ms=timeout, topics=None), deadline
            )
            if response.error_code:
                raise error_for(response.error_code, "listing moves of partitions", response.error_message)
            return {
                tp: PartitionReassignment(tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas))
                for tp, p in _partitions(response.topics)
            }

        return await self._brokers.again(attempt, deadline)

    async def elect_preferred(self, partitions: Iterable[TopicPartition], deadline: int) -> Outcomes[TopicPartition]:
        """Have the first replica of each partition lead; no error if it leads already."""
        request = ElectLeadersRequest

        async def ask(tps: list[TopicPartition]) -> Outcomes[TopicPartition]:
            asked = by_topic(tps, lambda tp: tp.partition)
            topics = [request.TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in asked.items()]
            response = await self._brokers.ask_controller(
                lambda timeout: request(election_type=_PREFERRED, topic_partitions=topics, timeout_ms=timeout), deadline
            )
            if response.error_code:
                raise error_for(response.error_code, "electing preferred leaders")
            answered = {
                TopicPartition(t.topic, p.partition_id): None
                if p.error_code == Code.ELECTION_NOT_NEEDED
                else outcome_of_change(
                    p.error_code, f"electing a leader of {t.topic}-{p.partition_id}", p.error_message
                )
                for t in response.replica_election_results
                for p in t.partition_result
            }
            return dict.fromkeys(tps) | answered  # before version 1 of Kafka's, those that need none are left out

        return await self._brokers.by_name(partitions, ask, deadline)

    async def log_dirs(self, deadline: int) -> dict[int, tuple[LogDirDescription, ...]]:
        """The log directories of all brokers, by the broker's id."""

        async def ask(node: Node) -> tuple[int, tuple[LogDirDescription, ...]]:
            response = await self._brokers.network.ask(node, DescribeLogDirsRequest(topics=None))
            if response.error_code:
                raise error_for(response.error_code, f"describing the log directories of broker {node.id}")
            return node.id, tuple(_log_dir(node, each) for each in response.results)

        return dict(await self._brokers.everywhere(ask, deadline))


def _log_dir(node: Node, found: DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDirDescription:
    if found.error_code:
        raise error_for(found.error_code, f"describing {found.log_dir} of broker {node.id}")
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaSize(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in found.topics
        for each in topic.partitions
    }
    return LogDirDescription(found.log_dir, replicas, _known(found.total_bytes), _known(found.usable_bytes))


def _known(size_bytes: int) -> int | None:
    return size_bytes if size_bytes >= 0 else None


def _partitions(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """The partitions of an answer's topics, each with its name."""
    return ((TopicPartition(topic.name, each.partition_index), each) for topic in topics for each in topic.partitions)
