"""State partitions: partitions of internal topics that are led together with others (`placement.pairs`)."""

from __future__ import annotations

from actors.controller.decisions.configs import new_topic_configs
from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.controller.decisions.ids import unused_id
from actors.links.operations import CreateStatePartition, StatePartitionCreated
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import (
    NO_LEADER,
    ClusterMetadata,
    PartitionInfo,
    TopicInfo,
)
from placement.pairs import Pair
from placement.records import VERSIONED, PairRecord, PartitionRecord, Record, TopicRecord


def create_state_partition(
    metadata: ClusterMetadata, config: BrokerConfig, asked: CreateStatePartition, new_id: NewId
) -> Decision:
    """Pair a partition with a new one of an internal topic, unless that is done, or refuse it."""
    name = metadata.names.get(asked.topic_id, "")
    data = metadata.partition(name, asked.index)
    if metadata.level < VERSIONED:
        return _refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"metadata.version is {metadata.level}: state partitions come with level {VERSIONED}",
        )
    if data is None:
        return _refused(ErrorCode.UNKNOWN_TOPIC_ID, "there is no such partition")
    if any(topic == asked.state_topic for topic, _ in metadata.pairs.states_of(asked.topic_id, asked.index)):
        return StatePartitionCreated(0, None), []
    if data.leader == NO_LEADER:
        return _refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{asked.index} has no leader")
    if data.adding or data.removing:
        return _refused(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"{name}-{asked.index} is being reassigned")
    made = _beside(metadata, data)
    topic = metadata.topics.get(asked.state_topic)
    if topic is not None and asked.state_topic not in metadata.pairs.topics():
        return _refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"{asked.state_topic} is a user's topic: delete it")
    index = 0 if topic is None else len(topic.partitions)
    record: Record
    if topic is not None:
        record = PartitionRecord(topic.name, index, made)
    else:
        try:
            record = _new_topic(metadata, config, asked, made, new_id)
        except RefusedError as refusal:
            return _refused(refusal.code, str(refusal))
    pair = PairRecord(Pair(asked.topic_id, asked.index, asked.state_topic, index))
    return StatePartitionCreated(0, None), [record, pair]


def _beside(metadata: ClusterMetadata, data: PartitionInfo) -> PartitionInfo:
    """A new partition with the same replicas and leader. Its log is empty, so all that live have all of it."""
    alive = {broker.id for broker in metadata.alive()}
    isr = tuple(replica for replica in data.replicas if replica in alive or replica == data.leader)
    return PartitionInfo(data.leader, 0, data.replicas, isr)


def _new_topic(
    metadata: ClusterMetadata, config: BrokerConfig, asked: CreateStatePartition, made: PartitionInfo, new_id: NewId
) -> Record:
    configs = new_topic_configs(asked.state_topic, asked.configs, metadata, config)
    return TopicRecord(TopicInfo(asked.state_topic, unused_id(metadata, new_id), (made,), configs))


def _refused(code: ErrorCode, text: str) -> Decision:
    return StatePartitionCreated(int(code), text), []


def check_not_paired(metadata: ClusterMetadata, topic: TopicInfo) -> None:
    """Raise RefusedError if a topic holds the state of what lives beside other topics."""
    if any(topic_id in metadata.names for topic_id, _ in metadata.pairs.data_in(topic.name)):
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"{topic.name} holds what belongs to partitions of other topics: not deleted"
        )
