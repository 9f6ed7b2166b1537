"""Decisions about topics, as functions of the cluster's metadata. Nothing is applied here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from actors.controller.decisions.configs import new_topic_configs
from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.controller.decisions.ids import NO_ID, unused_id
from actors.controller.decisions.state_partitions import check_not_paired
from actors.links.operations import (
    CreatedPartitions,
    CreatedTopic,
    CreatedTopics,
    CreateOffsetsTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeletedTopics,
    DeleteTopics,
    NewTopic,
    OffsetsTopicCreated,
    TopicOutcome,
)
from actors.settings import BrokerConfig, offsets_topic_configs
from actors.wire.errors import ErrorCode
from placement.assignment import NotEnoughBrokersError, assign_replicas
from placement.metadata import OFFSETS_TOPIC, ClusterMetadata, PartitionInfo, TopicInfo, topic_name_error
from placement.records import PartitionRecord, Record, RemoveTopicRecord, TopicRecord

MAX_NEW_PARTITIONS = 10_000  # in one call, so that a mistyped number does not fill the metadata of every broker


def create_topics(metadata: ClusterMetadata, config: BrokerConfig, asked: CreateTopics, new_id: NewId) -> Decision:
    """Create each topic, or refuse it."""
    created, records = _created_topics(metadata, config, asked, new_id)
    return CreatedTopics(tuple(created)), records


def _created_topics(
    metadata: ClusterMetadata, config: BrokerConfig, asked: CreateTopics, new_id: NewId
) -> tuple[list[CreatedTopic], list[Record]]:
    times = Counter(topic.name for topic in asked.topics)
    taken = _Names(metadata)
    results: list[CreatedTopic] = []
    records: list[Record] = []
    for topic in asked.topics:
        try:
            if times[topic.name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named more than once")
            taken.check(topic.name)
            made = _new_topic(metadata, config, topic, taken.partitions)
            taken.add(made)
            if taken.made_partitions > MAX_NEW_PARTITIONS:
                raise RefusedError(ErrorCode.POLICY_VIOLATION, _too_many(taken.made_partitions))
        except RefusedError as refusal:
            results.append(_created(topic.name, refusal=refusal))
            continue
        if not asked.validate_only:
            made = replace(made, id=unused_id(metadata, new_id))
            records.append(TopicRecord(made))
        results.append(_created(made.name, made))
    return results, records


class _Names:
    """The names of all topics, with those created earlier in the same call."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._exact = set(metadata.topics)
        self._alike = {_alike(name): name for name in metadata.topics}
        self.partitions = sum(len(topic.partitions) for topic in metadata.topics.values())
        self.made_partitions = 0

    def check(self, name: str) -> None:
        if wrong := topic_name_error(name):
            raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        if name in self._exact:
            raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        other = self._alike.get(_alike(name))
        if other is not None:
            raise RefusedError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} collides with {other!r}: '.' and '_' count as the same in metric names",
            )

    def add(self, topic: TopicInfo) -> None:
        self._exact.add(topic.name)
        self._alike[_alike(topic.name)] = topic.name
        self.partitions += len(topic.partitions)
        self.made_partitions += len(topic.partitions)


def _alike(name: str) -> str:
    return name.replace(".", "_")


def _new_topic(metadata: ClusterMetadata, config: BrokerConfig, topic: NewTopic, start: int) -> TopicInfo:
    configs = new_topic_configs(topic.name, topic.configs, metadata, config)
    if topic.name == OFFSETS_TOPIC:
        configs = {**offsets_topic_configs(config), **configs}
    partitions = _new_partitions(metadata, config, topic, start)
    return TopicInfo(topic.name, NO_ID, tuple(partitions), configs)


def _new_partitions(
    metadata: ClusterMetadata, config: BrokerConfig, topic: NewTopic, start: int
) -> list[PartitionInfo]:
    count, factor, given = topic.partitions, topic.factor, topic.assignments
    if given is not None:
        if count != -1 or factor != -1:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic.name!r} gives replica assignments: partitions and replication factor must be -1",
            )
        return _assigned(metadata, given)
    count = config.integer("num.partitions") if count == -1 else count
    factor = config.integer("default.replication.factor") if factor == -1 else factor
    if count < 1:
        raise RefusedError(ErrorCode.INVALID_PARTITIONS, f"number of partitions {count} must be at least 1")
    if count > MAX_NEW_PARTITIONS:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, _too_many(count))
    return _spread(metadata, count, factor, start)


def _spread(metadata: ClusterMetadata, count: int, factor: int, start: int) -> list[PartitionInfo]:
    """New partitions, spread over the brokers that are alive and stay.

    Brokers on drained nodes get replicas only if there are too few others: the partitions are served all the same.
    """
    alive = metadata.placeable()
    if len(alive) < factor:
        alive = [broker for broker in metadata.alive() if broker.id not in metadata.removals]
    if factor < 1:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {factor} must be at least 1")
    try:
        lines = assign_replicas([(broker.id, broker.rack) for broker in alive], count, factor, start)
    except NotEnoughBrokersError:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} is larger than the {len(alive)} broker(s) alive{_but_leaving(metadata)}",
        ) from None
    return [PartitionInfo(line[0], 0, line, line) for line in lines]


def _but_leaving(metadata: ClusterMetadata) -> str:
    leaving = ", ".join(map(str, sorted(metadata.removals)))
    return f" that stay: {leaving} is being removed" if leaving else ""


def _assigned(
    metadata: ClusterMetadata, given: Sequence[Sequence[int]], factor: int | None = None
) -> list[PartitionInfo]:
    """New partitions with the replicas the caller wants. `factor`: how many each must have; None: as the first one."""
    if not given:
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the replica assignment names no partition")
    factor = len(given[0]) if factor is None else factor
    made = []
    for replicas in given:
        if not replicas or len(set(replicas)) != len(replicas):
            raise _bad_assignment(replicas, "is empty or names a broker twice")
        if len(replicas) != factor:
            raise _bad_assignment(replicas, f"does not name {factor} replica(s), as the other partitions do")
        unknown = [broker for broker in replicas if broker not in metadata.brokers]
        if unknown:
            raise _bad_assignment(replicas, f"names unknown broker {unknown[0]}")
        leaving = [broker for broker in replicas if broker in metadata.removals]
        if leaving:
            raise _bad_assignment(replicas, f"names broker {leaving[0]}, which is being removed")
        drained = [broker for broker in replicas if broker in metadata.draining]
        if drained:
            raise _bad_assignment(replicas, f"names broker {drained[0]}, whose Ray node is drained")
        alive = tuple(broker for broker in replicas if metadata.brokers[broker].alive)
        if not alive:
            raise _bad_assignment(replicas, "names no broker that is alive")
        # Nothing has been written yet, so all replicas that are alive are in sync. The others join when they are back.
        made.append(PartitionInfo(alive[0], 0, tuple(replicas), alive))
    return made


def _bad_assignment(replicas: Sequence[int], why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replica assignment {list(replicas)} {why}")


def _too_many(count: int) -> str:
    return f"{count} new partitions in one call; at most {MAX_NEW_PARTITIONS} are made at once"


def _created(name: str, topic: TopicInfo | None = None, refusal: RefusedError | None = None) -> CreatedTopic:
    return CreatedTopic(
        name=name,
        error_code=int(refusal.code) if refusal else 0,
        error_message=str(refusal) if refusal else None,
        topic_id=topic.id if topic else NO_ID,
        partitions=len(topic.partitions) if topic else -1,
        factor=len(topic.partitions[0].replicas) if topic else -1,
    )


def create_offsets_topic(
    metadata: ClusterMetadata, config: BrokerConfig, asked: CreateOffsetsTopic, new_id: NewId
) -> Decision:
    """Create `__consumer_offsets` unless it exists. If too few brokers are alive: INVALID_REPLICATION_FACTOR."""
    if OFFSETS_TOPIC in metadata.topics:
        return OffsetsTopicCreated(0, None), []
    topic = NewTopic(
        OFFSETS_TOPIC,
        config.integer("offsets.topic.num.partitions"),
        config.integer("offsets.topic.replication.factor"),
    )
    (result,), records = _created_topics(metadata, config, CreateTopics((topic,)), new_id)
    message = result.error_message
    if result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
        message = f"offsets.topic.replication.factor: {message}"
    return OffsetsTopicCreated(result.error_code, message), records


def delete_topics(metadata: ClusterMetadata, config: BrokerConfig, asked: DeleteTopics, new_id: NewId) -> Decision:
    """Delete each topic, or refuse it."""
    results: list[DeletedTopic] = []
    records: list[Record] = []
    gone: set[str] = set()
    for doomed in asked.topics:
        name, topic_id = doomed.name, doomed.topic_id
        try:
            topic = _named(metadata, name, topic_id)
            _check_deletable(topic, config, gone)
            check_not_paired(metadata, topic)
        except RefusedError as refusal:
            known = metadata.names.get(topic_id) if topic_id else name
            results.append(_deleted(known, topic_id or NO_ID, refusal))
            continue
        gone.add(topic.name)
        records.append(RemoveTopicRecord(topic.name))
        results.append(_deleted(topic.name, topic.id))
    return DeletedTopics(tuple(results)), records


def _check_deletable(topic: TopicInfo, config: BrokerConfig, gone: set[str]) -> None:
    if not config.boolean("delete.topic.enable"):
        raise RefusedError(ErrorCode.TOPIC_DELETION_DISABLED, "topics cannot be deleted: delete.topic.enable=false")
    if topic.name == OFFSETS_TOPIC:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{OFFSETS_TOPIC} holds the progress of all groups: not deleted")
    if topic.name in gone:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named more than once")


def _named(metadata: ClusterMetadata, name: str | None, topic_id: bytes | None) -> TopicInfo:
    if (name is None) == (not topic_id or topic_id == NO_ID):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
    if name is not None:
        topic = metadata.topics.get(name)
        if topic is None:
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return topic
    assert topic_id is not None
    if topic_id not in metadata.names:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id.hex()}")
    return metadata.topics[metadata.names[topic_id]]


def _deleted(name: str | None, topic_id: bytes, refusal: RefusedError | None = None) -> DeletedTopic:
    return DeletedTopic(name, topic_id, int(refusal.code) if refusal else 0, str(refusal) if refusal else None)


def create_partitions(
    metadata: ClusterMetadata, config: BrokerConfig, asked: CreatePartitions, new_id: NewId
) -> Decision:
    """Give each topic more partitions, or refuse it."""
    times = Counter(topic.name for topic in asked.topics)
    results: list[TopicOutcome] = []
    records: list[Record] = []
    for grown in asked.topics:
        name = grown.name
        try:
            if times[name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, f"topic {name!r} is named more than once")
            topic = _named(metadata, name, None)
            added = _added_partitions(metadata, topic, grown.count, grown.assignments)
        except RefusedError as refusal:
            results.append(TopicOutcome(name, int(refusal.code), str(refusal)))
            continue
        results.append(TopicOutcome(name, 0, None))
        if not asked.validate_only:
            first = len(topic.partitions)
            records += [PartitionRecord(name, first + i, partition) for i, partition in enumerate(added)]
    return CreatedPartitions(tuple(results)), records


def _added_partitions(
    metadata: ClusterMetadata, topic: TopicInfo, count: int, given: Sequence[Sequence[int]] | None
) -> list[PartitionInfo]:
    present, factor = len(topic.partitions), len(topic.partitions[0].replicas)
    if topic.name == OFFSETS_TOPIC:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"{OFFSETS_TOPIC} keeps its {present} partitions: with another number groups would not find their offsets",
        )
    if count <= present:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS, f"topic {topic.name!r} has {present} partition(s): {count} is not more"
        )
    if count - present > MAX_NEW_PARTITIONS:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, _too_many(count - present))
    if given is None:
        return _spread(metadata, count - present, factor, present + topic.partitions[0].replicas[0])
    if len(given) != count - present:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(given)} replica assignment(s) for {count - present} new partition(s)",
        )
    return _assigned(metadata, given, factor)
