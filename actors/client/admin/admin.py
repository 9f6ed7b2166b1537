"""`Admin`: topics, replicas, settings, records, groups and their offsets, on any Kafka. Names follow kafka-python's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actors.client.admin.core import AdminCore, final, outcome, raise_first
from actors.client.admin.groups import GroupAdmin
from actors.client.admin.replicas import ReplicaAdmin
from actors.client.admin.types import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from actors.client.consumer.positions import EARLIEST, LATEST
from actors.client.errors import KafkaError, LeaderNotAvailableError, error_for, is_retriable
from actors.client.net.leaders import by_leader, by_topic, list_offsets
from actors.client.net.metadata import ClusterMetadata, metadata_request
from actors.client.net.network import now_ms
from actors.client.records import Node, OffsetAndTimestamp, TopicPartition
from actors.wire.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

_SET, _DELETE = 0, 1
_DEFAULT_SOURCE = 5
Outcomes = dict[str, KafkaError | None]


class Admin(GroupAdmin, ReplicaAdmin, AdminCore):
    """`Admin(bootstrap_servers="localhost:9092")`; for several threads at once, and a context manager.

    What is retriable is tried again until `timeout_ms` (default_api_timeout_ms). Methods on several things raise the
    first error; with `raise_errors=False` they give one error or None for each instead.
    """

    def __init__(self, **settings: Any) -> None:
        AdminCore.__init__(self, settings)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- the cluster --------------------------------------------------------------------------------------------------

    def describe_cluster(self, timeout_ms: int | None = None) -> ClusterDescription:
        """Brokers, controller and cluster id."""

        async def work(deadline: int) -> ClusterDescription:
            found = await self._metadata((), deadline)
            return ClusterDescription(found.cluster_id, found.controller_id, tuple(found.brokers.values()))

        return self._run(work, timeout_ms)

    # --- topics -------------------------------------------------------------------------------------------------------

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> Outcomes:
        """Create topics; TopicAlreadyExistsError, InvalidTopicError and others for those that cannot be."""
        wanted = {topic.name: topic for topic in topics}

        async def ask(names: list[str], deadline: int) -> Outcomes:
            def make(timeout: int) -> CreateTopicsRequest:
                made = [_creatable(wanted[name]) for name in names]
                return CreateTopicsRequest(topics=made, timeout_ms=timeout, validate_only=validate_only)

            response = await self._ask_controller(make, deadline)
            return {t.name: outcome(t.error_code, f"creating topic {t.name}", t.error_message) for t in response.topics}

        return self._each(wanted, ask, timeout_ms, raise_errors)

    def delete_topics(
        self, topics: Iterable[str], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> Outcomes:
        """Delete topics with all their records."""

        async def ask(names: list[str], deadline: int) -> Outcomes:
            def make(timeout: int) -> DeleteTopicsRequest:
                states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
                return DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=timeout)

            response = await self._ask_controller(make, deadline)
            return {
                r.name: final(outcome(r.error_code, f"deleting topic {r.name}", r.error_message))
                for r in response.responses
            }

        return self._each(topics, ask, timeout_ms, raise_errors)

    def create_partitions(
        self,
        counts: Mapping[str, int],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> Outcomes:
        """Give topics more partitions; `counts` are the new totals."""

        async def ask(names: list[str], deadline: int) -> Outcomes:
            def make(timeout: int) -> CreatePartitionsRequest:
                topic = CreatePartitionsRequest.CreatePartitionsTopic
                made = [topic(name=name, count=counts[name], assignments=None) for name in names]
                return CreatePartitionsRequest(topics=made, timeout_ms=timeout, validate_only=validate_only)

            response = await self._ask_controller(make, deadline)
            return {
                r.name: final(outcome(r.error_code, f"adding partitions to {r.name}", r.error_message))
                for r in response.results
            }

        return self._each(counts, ask, timeout_ms, raise_errors)

    def _each(self, names: Iterable[str], ask: Any, timeout_ms: int | None, raise_errors: bool) -> Outcomes:
        async def work(deadline: int) -> Outcomes:
            return await self._by_name(names, lambda some: ask(some, deadline), deadline)

        results = self._run(work, timeout_ms)
        raise_first(results, wanted=raise_errors)
        return results

    def list_topics(self, timeout_ms: int | None = None) -> list[str]:
        """The names of all topics, internal ones included, sorted."""

        async def work(deadline: int) -> list[str]:
            return sorted((await self._metadata(None, deadline)).topics)

        return self._run(work, timeout_ms)

    def describe_topics(
        self, topics: Iterable[str] | None = None, timeout_ms: int | None = None
    ) -> list[TopicDescription]:
        """These topics, or all; raises UnknownTopicOrPartitionError if one does not exist."""
        names = None if topics is None else list(topics)
        asked = None if names is None else frozenset(names)

        async def ask(deadline: int) -> ClusterMetadata:
            # The broker that changes are asked of: what one of ours has answered, it knows.
            cluster = await self._metadata((), deadline)
            node = cluster.brokers.get(cluster.controller_id)
            found = ClusterMetadata()
            found.update(await self._network.ask(node, metadata_request(asked, create=False)), asked)
            return found

        async def work(deadline: int) -> list[TopicDescription]:
            found = await self._again(lambda: ask(deadline), deadline)
            described = []
            for name in sorted(found.topics) if names is None else names:
                info = found.topics.get(name)
                if info is None or info.error_code:
                    raise error_for(info.error_code if info else 3, f"describing topic {name}")
                partitions = tuple(
                    PartitionDescription(n, p.leader, p.leader_epoch, p.replicas, p.in_sync, p.error_code)
                    for n, p in sorted(info.partitions.items())
                )
                described.append(TopicDescription(name, info.id, info.is_internal, partitions))
            return described

        return self._run(work, timeout_ms)

    # --- records ------------------------------------------------------------------------------------------------------

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], isolation_level: int = 0, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Offsets by time: "earliest", "latest" or Unix milliseconds for each partition; None = no record so young."""
        special = {"earliest": EARLIEST, "latest": LATEST}
        times = {TopicPartition(*tp): special[at] if isinstance(at, str) else at for tp, at in wanted.items()}

        async def work(deadline: int) -> dict[TopicPartition, OffsetAndTimestamp | None]:
            with self._network.holding(tp.topic for tp in times):
                await self._know(times, deadline)
                left = max(1, deadline - now_ms())
                return await list_offsets(self._network, times, isolation=isolation_level, timeout_ms=left)

        return self._run(work, timeout_ms)

    async def _know(self, partitions: Iterable[TopicPartition], deadline: int) -> None:
        """Have the leaders of these partitions in the network's metadata."""
        found = await self._metadata({tp.topic for tp in partitions}, deadline)
        self._network.cluster.topics = self._network.cluster.topics | found.topics

    def delete_records(
        self, before: Mapping[TopicPartition, int], timeout_ms: int | None = None, raise_errors: bool = True
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete what lies before these offsets (-1 = everything so far); the new first offsets."""

        async def work(deadline: int) -> dict[TopicPartition, int | KafkaError]:
            results: dict[TopicPartition, int | KafkaError] = {}
            left, failures = dict(before), 0
            while left:
                await self._know(left, deadline)
                for node, tps in by_leader(self._network, left).items():
                    results |= await self._delete_records_at(node, {tp: left[tp] for tp in tps}, deadline)
                left = {tp: at for tp, at in left.items() if isinstance(e := results[tp], KafkaError) and e.retriable}
                failures += 1
                delay = self._backoff.delay_ms(failures)
                if now_ms() + delay >= deadline:
                    break
                await asyncio.sleep(delay / 1000 if left else 0)
            return results

        results = self._run(work, timeout_ms)
        raise_first(results, wanted=raise_errors)
        return results

    async def _delete_records_at(
        self, node: Node | None, before: Mapping[TopicPartition, int], deadline: int
    ) -> dict[TopicPartition, int | KafkaError]:
        def partition(tp: TopicPartition) -> DeleteRecordsRequest.DeleteRecordsPartition:
            return DeleteRecordsRequest.DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp])

        if node is None:
            return {tp: LeaderNotAvailableError(f"{tp.topic}-{tp.partition} has no leader") for tp in before}
        topic = DeleteRecordsRequest.DeleteRecordsTopic
        topics = [topic(name=name, partitions=parts) for name, parts in by_topic(before, partition).items()]
        timeout = max(1, deadline - now_ms())
        try:
            response = await self._network.ask(node, DeleteRecordsRequest(topics=topics, timeout_ms=timeout))
        except KafkaError as failure:
            return dict.fromkeys(before, failure)
        results: dict[TopicPartition, int | KafkaError] = {}
        for t in response.topics:
            for p in t.partitions:
                error = outcome(p.error_code, f"deleting records of {t.name}-{p.partition_index}")
                results[TopicPartition(t.name, p.partition_index)] = error or p.low_watermark
        return results

    # --- settings -----------------------------------------------------------------------------------------------------

    def describe_configs(
        self, resources: Iterable[ConfigResource], names: Sequence[str] | None = None, timeout_ms: int | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of topics, brokers or groups; `names` = only these."""
        wanted = list(resources)

        async def ask(node: Node | None, some: list[ConfigResource]) -> dict[ConfigResource, dict[str, ConfigEntry]]:
            resource = DescribeConfigsRequest.DescribeConfigsResource
            keys = None if names is None else list(names)
            request = DescribeConfigsRequest(
                resources=[
                    resource(resource_type=int(r.type), resource_name=r.name, configuration_keys=keys) for r in some
                ]
            )
            response = await self._network.ask(node, request)
            return {_resource(r): _entries(r) for r in response.results}

        async def work(deadline: int) -> dict[ConfigResource, dict[str, ConfigEntry]]:
            found: dict[ConfigResource, dict[str, ConfigEntry]] = {}
            for node, some in (await self._who_knows(wanted, deadline)).items():

                async def attempt(
                    node: Node | None = node, some: list[ConfigResource] = some
                ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
                    return await ask(node, some)

                found |= await self._again(attempt, deadline)
            return found

        return self._run(work, timeout_ms)

    async def _who_knows(
        self, resources: Iterable[ConfigResource], deadline: int
    ) -> dict[Node | None, list[ConfigResource]]:
        """A broker's own settings only that broker knows; everything else any broker does."""
        cluster = await self._metadata((), deadline)
        by_node: dict[Node | None, list[ConfigResource]] = {}
        for resource in resources:
            own = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name
            node = cluster.brokers.get(int(resource.name)) if own else None
            if own and node is None:
                raise KafkaError(f"there is no broker {resource.name}; there are {sorted(cluster.brokers)}")
            by_node.setdefault(node, []).append(resource)
        return by_node

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change some settings and leave the others; None sets one back to its default."""
        setting, part = IncrementalAlterConfigsRequest.AlterableConfig, IncrementalAlterConfigsRequest

        def make(some: list[ConfigResource]) -> IncrementalAlterConfigsRequest:
            resources = []
            for r in some:
                configs = [
                    setting(name=name, value=value, config_operation=_DELETE if value is None else _SET)
                    for name, value in changes[r].items()
                ]
                resources.append(
                    part.AlterConfigsResource(resource_type=int(r.type), resource_name=r.name, configs=configs)
                )
            return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)

        return self._alter(changes, make, timeout_ms, raise_errors)

    def alter_configs(
        self,
        settings: Mapping[ConfigResource, Mapping[str, str | None]],
        validate_only: bool = False,
        timeout_ms: int | None = None,
        raise_errors: bool = True,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replace all settings of each resource: what is not named goes back to its default."""
        part = AlterConfigsRequest

        def make(some: list[ConfigResource]) -> AlterConfigsRequest:
            resources = [
                part.AlterConfigsResource(
                    resource_type=int(r.type),
                    resource_name=r.name,
                    configs=[part.AlterableConfig(name=name, value=value) for name, value in settings[r].items()],
                )
                for r in some
            ]
            return AlterConfigsRequest(resources=resources, validate_only=validate_only)

        return self._alter(settings, make, timeout_ms, raise_errors)

    def _alter(
        self, changes: Mapping[ConfigResource, Any], make: Any, timeout_ms: int | None, raise_errors: bool
    ) -> dict[ConfigResource, KafkaError | None]:
        async def work(deadline: int) -> dict[ConfigResource, KafkaError | None]:
            results: dict[ConfigResource, KafkaError | None] = {}
            for node, some in (await self._who_knows(changes, deadline)).items():

                async def attempt(node: Node | None = node, some: list[ConfigResource] = some) -> Any:
                    response = await self._network.ask(node, make(some))
                    for r in response.responses:
                        if is_retriable(r.error_code):
                            raise error_for(r.error_code, f"changing settings of {r.resource_name}", r.error_message)
                    return response

                for r in (await self._again(attempt, deadline)).responses:
                    what = f"changing settings of {r.resource_name}"
                    results[_resource(r)] = outcome(r.error_code, what, r.error_message)
            return results

        results = self._run(work, timeout_ms)
        raise_first(results, wanted=raise_errors)
        return results


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


def _resource(answer: Any) -> ConfigResource:
    return ConfigResource(ConfigResourceType(answer.resource_type), answer.resource_name)


def _entries(answer: Any) -> dict[str, ConfigEntry]:
    if answer.error_code:
        raise error_for(answer.error_code, f"settings of {answer.resource_name}", answer.error_message)
    return {
        c.name: ConfigEntry(
            c.name, c.value, c.config_source, c.config_source == _DEFAULT_SOURCE, c.read_only, c.is_sensitive
        )
        for c in answer.configs
    }
