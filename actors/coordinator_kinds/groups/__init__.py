"""The coordinator of groups: each partition of `__consumer_offsets` has a shard.

In a shard's process, `service` stands in front of the shard, `rebalances` reports rebalances to the broker, and
`record_codec` turns records of the log into state, and changes of the state into records. `actors.group_api` reads the
requests.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from actors.coordinator.group_types import group_shard, group_types
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator_kinds.groups import record_codec
from actors.coordinator_kinds.groups.consumer_settings import clamped, consumer_settings
from actors.coordinator_kinds.groups.service import GroupService
from actors.coordinator_kinds.kind import (
    CoordinatorKind,
    Hosted,
    RecordCodec,
    RelayedRequests,
    SleepRule,
    Surroundings,
)
from actors.group_api import error_answer
from actors.links.known_topics import RACK_AFFINITY, known_topics, topic_leaders
from actors.links.relay import PAYLOADS, Assignment
from actors.security.acl import ResourceType
from actors.wire.api_keys import ApiKey
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC

if TYPE_CHECKING:
    from actors.links.operations import CreateOffsetsTopic
    from actors.settings import BrokerConfig
    from placement.metadata import ClusterMetadata


def _creation() -> CreateOffsetsTopic:
    from actors.links.operations import CreateOffsetsTopic  # a shard's process asks no controller

    return CreateOffsetsTopic()


def _assignment(config: BrokerConfig, metadata: ClusterMetadata, version: int) -> bytes:
    known = known_topics(metadata, topic_leaders(metadata) if config[RACK_AFFINITY] else ())
    consumer = consumer_settings(config, metadata)
    made = Assignment(_settings(config), known.topics, consumer, known.version, known.racks, known.leaders)
    return PAYLOADS.encode(made, version)


def _settings(config: BrokerConfig) -> CoordinatorConfig:
    """The settings of a shard, from those of its broker."""
    keys = {"max_message_bytes": "message.max.bytes"}
    names = [field.name for field in fields(CoordinatorConfig)]
    return CoordinatorConfig(**{name: config.integer(keys.get(name, name.replace("_", "."))) for name in names})


def _host(assignment: bytes, around: Surroundings) -> Hosted:
    given = PAYLOADS.read(Assignment, assignment)
    shard = group_shard(given.config, around.new_id, group_types(given.consumer))
    return Hosted(shard, GroupService(shard, given, around), given.config.offsets_topic_compression_codec)


GROUPS: Final = CoordinatorKind(
    name="groups",
    key_type=0,
    resource=ResourceType.GROUP,
    topic=OFFSETS_TOPIC,
    partition_name="offsets partition",
    partitions_setting="offsets.topic.num.partitions",
    partition_of=partition_for_group,
    creation=_creation,
    assignment=_assignment,
    settings=consumer_settings,
    remarks=clamped,
    host=_host,
    codec=RecordCodec(record_codec.replay, record_codec.batch),
    # Not parked: a shard that loads lets heartbeats pass and sends members that sync back to join, as `error_answer`.
    requests=RelayedRequests(
        error_answer,
        never_parked=frozenset((ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP)),
        rouse_nobody=frozenset((ApiKey.LIST_GROUPS,)),
    ),
    sleep=SleepRule("coterie.shard.idle.ms", "offsets expire"),
)
