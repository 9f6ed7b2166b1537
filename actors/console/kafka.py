"""A Source over an Admin: what any Kafka tells of itself. It has no history, no processes and no causes.

Lags are asked for as the tools of Kafka do it, group by group. In a list this is done for so many groups alone as are
soon asked; the page of a group always has its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from actors.client import Admin
from actors.client.admin import lookups
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import ConfigResource, GroupDescription, MemberDescription, TopicDescription
from actors.client.errors import KafkaError, TopicAuthorizationError
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.console.source import SourceError
from actors.links.member_kinds import SIMPLE, kind_of_members
from actors.links.operations import Operation, Result
from actors.links.views import (
    BrokerView,
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GetTopic,
    GroupHistory,
    GroupRow,
    GroupRows,
    GroupView,
    ListGroupRows,
    ListTopicRows,
    MemberView,
    Overview,
    PartitionLag,
    PartitionView,
    TopicRow,
    TopicRows,
    TopicView,
)
from actors.runtime.environment import Clock
from actors.settings.secret import HIDDEN
from actors.wire.config_resources import ConfigResourceType
from placement.hashing import partition_for_group
from placement.metadata import OUR_TOPICS

R = TypeVar("R", bound=Result)
Committed = Mapping[TopicPartition, OffsetAndMetadata]

_LAGS: Final = 50
"""Groups whose lags a list has."""
_OWN: Final = 1  # DYNAMIC_TOPIC_CONFIG (KIP-226)
_OFFSETS_TOPIC: Final = "__consumer_offsets"


class KafkaSource:
    """Views of any Kafka, as the owner of an Admin may see it."""

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock

    async def view(self, operation: Operation[R]) -> R:
        """The view that is asked for. Raises SourceError."""
        try:
            return cast(R, await asyncio.to_thread(self._view, operation))
        except KafkaError as error:
            raise SourceError(str(error)) from error

    def _view(self, operation: Operation[Any]) -> Result:
        now = self._clock.wall_ms()
        match operation:
            case GetOverview():
                return self._overview(now)
            case ListGroupRows():
                return self._groups(now)
            case GetGroup(group_id=group_id):
                return self._group(group_id, now)
            case GetGroupHistory(group_id=group_id):
                return GroupHistory(group_id, (), ())
            case ListTopicRows():
                return self._topics(now)
            case GetTopic(name=name):
                return self._topic(name, now)
        raise SourceError(f"Kafka does not tell what {type(operation).__name__} asks for")

    # --- the cluster ------------------------------------------------------------------------------------------------

    def _overview(self, now: int) -> Overview:
        cluster = self._admin.describe_cluster()
        topics = self._admin.describe_topics()
        states = Counter(each.state or "Stable" for each in self._admin.list_consumer_groups())
        led = Counter(each.leader for topic in topics for each in topic.partitions)
        kept = Counter(broker for topic in topics for each in topic.partitions for broker in each.replicas)
        brokers = tuple(
            BrokerView(
                *(node.id, node.host, node.port, node.rack, "", 0, True, None, 0, led[node.id], kept[node.id]),
                *(None, None, None, 0.0, 0),
            )
            for node in sorted(cluster.brokers)
        )
        name = cluster.cluster_id or ""
        partitions = sum(len(topic.partitions) for topic in topics)
        figures = (len(topics), partitions, dict(states), None, None, None)
        return Overview(name, "Kafka", now, cluster.controller_id, 0, "", brokers, (), *figures)

    # --- groups -----------------------------------------------------------------------------------------------------

    def _groups(self, now: int) -> GroupRows:
        names = [each.group_id for each in self._admin.list_consumer_groups()]
        found = list(lookups.described_groups(self._admin, names).values())
        committed = {name: self._admin.list_consumer_group_offsets(name) for name in names[:_LAGS]}
        logs = lookups.logs(self._admin, {tp for offsets in committed.values() for tp in offsets})
        count = self._offsets_partitions()
        return GroupRows(now, tuple(_row(each, committed.get(each.group_id), logs, count) for each in found))

    def _offsets_partitions(self) -> int:
        found = lookups.existing_topics(self._admin, [_OFFSETS_TOPIC])
        return len(found[0].partitions) if found else 0

    def _group(self, group_id: str, now: int) -> GroupView:
        group = lookups.described_groups(self._admin, [group_id])[group_id]
        if group.state == "Dead":
            return GroupView(now, None)
        committed = self._admin.list_consumer_group_offsets(group_id)
        owners = {tp: member.member_id for member in group.members for tp in member.assignment}
        logs = lookups.logs(self._admin, {*committed, *owners})
        members = tuple(map(_member, group.members))
        partitions = tuple(
            _lag(tp, committed.get(tp), logs.get(tp), owners.get(tp)) for tp in sorted({*committed, *owners})
        )
        return GroupView(now, _row(group, committed, logs, self._offsets_partitions()), members, partitions)

    # --- topics -----------------------------------------------------------------------------------------------------

    def _topics(self, now: int) -> TopicRows:
        return TopicRows(now, tuple(topic_row(each, None) for each in self._admin.describe_topics()))

    def _topic(self, name: str, now: int) -> TopicView:
        found = lookups.existing_topics(self._admin, [name])
        if not found:
            return TopicView(now, None)
        (topic,) = found
        logs = lookups.logs(self._admin, [TopicPartition(name, each.partition) for each in topic.partitions])
        partitions = []
        for each in topic.partitions:
            start, end = _ends(logs.get(TopicPartition(name, each.partition)))
            partitions.append(
                PartitionView(each.partition, each.leader, each.replicas, each.isr, start, end, None, None)
            )
        return TopicView(now, topic_row(topic, logs), tuple(partitions), self._settings(name))

    def _settings(self, name: str) -> dict[str, str] | None:
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        try:
            found = self._admin.describe_configs([resource])[resource].values()
        except TopicAuthorizationError:  # whoever may see a topic need not see its settings
            return None
        return {each.name: HIDDEN if each.is_sensitive else each.value or "" for each in found if each.source == _OWN}


def _row(
    group: GroupDescription, committed: Committed | None, logs: Mapping[TopicPartition, Log], offsets_partitions: int
) -> GroupRow:
    known = [logs[tp].lag(at.offset) for tp, at in (committed or {}).items() if tp in logs]
    topics = sorted({tp.topic for tp in committed or ()} | {topic for each in group.members for topic in each.topics})
    lag = None if committed is None else sum(max(each, 0) for each in known)
    partition = partition_for_group(group.group_id, offsets_partitions) if offsets_partitions else -1
    kind = kind_of_members(group.group_id, group.members) if group.members or group.protocol_type else SIMPLE
    where = (group.coordinator.id, partition)
    members = len(group.members) if group.tells_members else None
    head = (group.group_id, group.state, group.protocol_type, kind, members, tuple(topics))
    epochs = group.epoch, group.assignment_epoch
    return GroupRow(*head, *where, lag, None, None, 0, None, (), group.type, *epochs)


def _member(member: MemberDescription) -> MemberView:
    return MemberView(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        _by_topic(member.assignment),
        epoch=member.epoch,
        to_give_back=_by_topic(member.to_give_back),
        to_come=_by_topic(member.to_come),
    )


def _lag(tp: TopicPartition, at: OffsetAndMetadata | None, log: Log | None, owner: str | None) -> PartitionLag:
    committed = None if at is None else at.offset
    lag = None if committed is None or log is None else max(log.lag(committed), 0)
    start, end = _ends(log)
    age = 0.0 if lag == 0 else None
    return PartitionLag(tp.topic, tp.partition, committed, start, end, lag, age, None, owner, at.metadata if at else "")


def _ends(log: Log | None) -> tuple[int | None, int | None]:
    return (None, None) if log is None else (log.earliest, log.latest)


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def topic_row(topic: TopicDescription, logs: Mapping[TopicPartition, Log] | None) -> TopicRow:
    """A topic in a list; `logs` are those of its partitions, if they were asked for."""
    replicas = max((len(each.replicas) for each in topic.partitions), default=0)
    behind = sum(len(each.isr) < len(each.replicas) for each in topic.partitions)
    records = None if logs is None else sum(log.latest - log.earliest for log in logs.values())
    is_internal = topic.is_internal or topic.name in OUR_TOPICS
    return TopicRow(topic.name, len(topic.partitions), replicas, None, records, behind, None, (), is_internal)
