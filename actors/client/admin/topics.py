"""What `Admin` does to topics, on the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.client.admin.brokers import Brokers, Outcomes, final, outcome
from actors.client.admin.types import NewTopic, PartitionDescription, TopicDescription
from actors.client.error_codes import error_for
from actors.client.net.metadata import ClusterMetadata, metadata_request
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest


class Topics:
    """Topics and how many partitions they have. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def create(self, wanted: Mapping[str, NewTopic], validate_only: bool, deadline: int) -> Outcomes[str]:
        """One outcome for each."""

        async def ask(names: list[str]) -> Outcomes[str]:
            def make(timeout: int) -> CreateTopicsRequest:
                made = [_creatable(wanted[name]) for name in names]
                return CreateTopicsRequest(topics=made, timeout_ms=timeout, validate_only=validate_only)

            response = await self._brokers.ask_controller(make, deadline)
            return {t.name: outcome(t.error_code, f"creating topic {t.name}", t.error_message) for t in response.topics}

        return await self._brokers.by_name(wanted, ask, deadline)

    async def delete(self, topics: Iterable[str], deadline: int) -> Outcomes[str]:
        """One outcome for each."""

        async def ask(names: list[str]) -> Outcomes[str]:
            def make(timeout: int) -> DeleteTopicsRequest:
                states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
                return DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=timeout)

            response = await self._brokers.ask_controller(make, deadline)
            return {
                r.name: final(outcome(r.error_code, f"deleting topic {r.name}", r.error_message))
                for r in response.responses
            }

        return await self._brokers.by_name(topics, ask, deadline)

    async def enlarge(self, counts: Mapping[str, int], validate_only: bool, deadline: int) -> Outcomes[str]:
        """Have so many partitions in all; one outcome for each."""

        async def ask(names: list[str]) -> Outcomes[str]:
            def make(timeout: int) -> CreatePartitionsRequest:
                topic = CreatePartitionsRequest.CreatePartitionsTopic
                made = [topic(name=name, count=counts[name], assignments=None) for name in names]
                return CreatePartitionsRequest(topics=made, timeout_ms=timeout, validate_only=validate_only)

            response = await self._brokers.ask_controller(make, deadline)
            return {
                r.name: final(outcome(r.error_code, f"adding partitions to {r.name}", r.error_message))
                for r in response.results
            }

        return await self._brokers.by_name(counts, ask, deadline)

    async def describe(self, topics: list[str] | None, deadline: int) -> list[TopicDescription]:
        """These, or all. Raises UnknownTopicOrPartitionError if one does not exist."""
        asked = None if topics is None else frozenset(topics)

        async def ask() -> ClusterMetadata:
            # The broker that changes are asked of: what one of ours has answered, it knows.
            cluster = await self._brokers.metadata((), deadline)
            node = cluster.brokers.get(cluster.controller_id)
            found = ClusterMetadata()
            found.update(await self._brokers.network.ask(node, metadata_request(asked, create=False)), asked)
            return found

        found = await self._brokers.again(ask, deadline)
        described = []
        for name in sorted(found.topics) if topics is None else topics:
            info = found.topics.get(name)
            if info is None or info.error_code:
                code = info.error_code if info else Code.UNKNOWN_TOPIC_OR_PARTITION
                raise error_for(code, f"describing topic {name}")
            partitions = tuple(
                PartitionDescription(n, p.leader, p.leader_epoch, p.replicas, p.in_sync, p.error_code)
                for n, p in sorted(info.partitions.items())
            )
            described.append(TopicDescription(name, info.id, info.is_internal, partitions))
        return described


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    part = CreateTopicsRequest
    placed = bool(topic.replica_assignments)
    return part.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if placed else topic.num_partitions,
        replication_factor=-1 if placed else topic.replication_factor,
        assignments=[
            part.CreatableReplicaAssignment(partition_index=n, broker_ids=list(ids))
            for n, ids in sorted(topic.replica_assignments.items())
        ],
        configs=[part.CreatableTopicConfig(name=name, value=value) for name, value in topic.topic_configs.items()],
    )
