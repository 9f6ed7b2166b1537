"""The part of `Admin` that deals with replicas: moving partitions to other brokers, and who of them leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from actors.client.admin.core import AdminCore, final, outcome, raise_first
from actors.client.admin.types import PartitionReassignment
from actors.client.errors import KafkaError, error_for
from actors.client.net.leaders import by_topic
from actors.client.records import TopicPartition
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

_PREFERRED = 0
Outcomes = dict[TopicPartition, KafkaError | None]


class ReplicaAdmin(AdminCore):
    """Replicas of partitions that exist."""

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> Outcomes:
        """Begin to move partitions to these brokers, the preferred leader first (KIP-455).

        None calls off a move that is under way. Returns when the moves have begun:
        `list_partition_reassignments` tells which go on.
        """
        request = AlterPartitionReassignmentsRequest

        async def ask(tps: list[TopicPartition], deadline: int) -> Outcomes:
            def partition(tp: TopicPartition) -> AlterPartitionReassignmentsRequest.ReassignablePartition:
                target = reassignments[tp]
                return request.ReassignablePartition(
                    partition_index=tp.partition, replicas=None if target is None else list(target)
                )

            topics = [request.ReassignableTopic(name=t, partitions=p) for t, p in by_topic(tps, partition).items()]
            response = await self._ask_controller(lambda timeout: request(timeout_ms=timeout, topics=topics), deadline)
            if response.error_code:
                raise error_for(response.error_code, "moving partitions", response.error_message)
            return {
                TopicPartition(t.name, p.partition_index): final(
                    outcome(p.error_code, f"moving {t.name}-{p.partition_index}", p.error_message)
                )
                for t in response.responses
                for p in t.partitions
            }

        return self._each_partition(reassignments, ask, timeout_ms, raise_errors)

    def list_partition_reassignments(
        self, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """All partitions that are on their way to other brokers (KIP-455)."""

        async def attempt(deadline: int) -> dict[TopicPartition, PartitionReassignment]:
            response = await self._ask_controller(
                lambda timeout: ListPartitionReassignmentsRequest(timeout_ms=timeout, topics=None), deadline
            )
            if response.error_code:
                raise error_for(response.error_code, "listing moves of partitions", response.error_message)
            return {
                TopicPartition(t.name, p.partition_index): PartitionReassignment(
                    tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
                )
                for t in response.topics
                for p in t.partitions
            }

        return self._run(lambda deadline: self._again(lambda: attempt(deadline), deadline), timeout_ms)

    def elect_preferred_leaders(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> Outcomes:
        """Have the first replica of each of these partitions lead (KIP-460). No error where it does already."""
        request = ElectLeadersRequest

        async def ask(tps: list[TopicPartition], deadline: int) -> Outcomes:
            asked = by_topic(tps, lambda tp: tp.partition)
            topics = [request.TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in asked.items()]
            response = await self._ask_controller(
                lambda timeout: request(election_type=_PREFERRED, topic_partitions=topics, timeout_ms=timeout), deadline
            )
            if response.error_code:
                raise error_for(response.error_code, "electing preferred leaders")
            answered = {
                TopicPartition(t.topic, p.partition_id): None
                if p.error_code == Code.ELECTION_NOT_NEEDED
                else final(outcome(p.error_code, f"electing a leader of {t.topic}-{p.partition_id}", p.error_message))
                for t in response.replica_election_results
                for p in t.partition_result
            }
            return dict.fromkeys(tps) | answered  # before version 1 of Kafka's, those that need none are left out

        return self._each_partition(partitions, ask, timeout_ms, raise_errors)

    def _each_partition(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[list[TopicPartition], int], Awaitable[Outcomes]],
        timeout_ms: int | None,
        raise_errors: bool,
    ) -> Outcomes:
        wanted = list(partitions)

        async def work(deadline: int) -> Outcomes:
            return await self._by_name(wanted, lambda some: ask(some, deadline), deadline)

        results = self._run(work, timeout_ms) if wanted else {}
        raise_first(results, wanted=raise_errors)
        return results
