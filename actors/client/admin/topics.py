"""The methods of `Admin` for topics, on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.client.admin.brokers import Brokers, Outcomes, outcome_of_change
from actors.client.admin.types import NewTopic, PartitionDescription, TopicDescription
from actors.client.error_codes import error_for
from actors.client.net.metadata import ClusterMetadata, metadata_request
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest


class Topics:
    """Creates, enlarges, deletes and describes topics. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def create(self, wanted: Mapping[str, NewTopic], validate_only: bool, deadline: int) -> Outcomes[str]:
        """Create topics; one outcome for each."""

        def make(names: list[str], timeout: int) -> CreateTopicsRequest:
            made = [_creatable(wanted[name]) for name in names]
            return CreateTopicsRequest(topics=made, timeout_ms=timeout, validate_only=validate_only)

        return await self._change(wanted, make, lambda response: response.topics, "creating topic", deadline)

    async def delete(self, topics: Iterable[str], deadline: int) -> Outcomes[str]:
        """Delete topics; one outcome for each."""

        def make(names: list[str], timeout: int) -> DeleteTopicsRequest:
            states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
            return DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=timeout)

        return await self._change(topics, make, lambda response: response.responses, "deleting topic", deadline)

    async def enlarge(self, counts: Mapping[str, int], validate_only: bool, deadline: int) -> Outcomes[str]:
        """Give topics more partitions; `counts` says how many in all. One outcome for each."""

        def make(names: list[str], timeout: int) -> CreatePartitionsRequest:
            topic = CreatePartitionsRequest.CreatePartitionsTopic
            made = [topic(name=name, count=counts[name], assignments=None) for name in names]
            return CreatePartitionsRequest(topics=made, timeout_ms=timeout, validate_only=validate_only)

        return await self._change(counts, make, lambda response: response.results, "adding partitions to", deadline)

    async def _change(
        self,
        topics: Iterable[str],
        make: Callable[[list[str], int], Any],
        results: Callable[[Any], Iterable[Any]],
        doing: str,
        deadline: int,
    ) -> Outcomes[str]:
        """Have the controller do what `make(names, timeout_ms)` asks for; `results` finds the topics in its answer."""

        async def ask(names: list[str]) -> Outcomes[str]:
            response = await self._brokers.ask_controller(lambda timeout: make(names, timeout), deadline)
            return {
                topic.name: outcome_of_change(
                    topic.error_code, f"{doing} {topic.name}", topic.error_message, topic.name
                )
                for topic in results(response)
            }

        return await self._brokers.by_name(topics, ask, deadline)

    async def describe(self, topics: list[str] | None, deadline: int) -> list[TopicDescription]:
        """Describe these topics, or all. Raises UnknownTopicOrPartitionError if one of them does not exist."""
        asked = None if topics is None else frozenset(topics)

        async def ask() -> ClusterMetadata:
            # Ask the broker that is asked for changes: it knows of those it has answered.
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
                raise error_for(code, f"describing topic {name}", topics=[name])
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
