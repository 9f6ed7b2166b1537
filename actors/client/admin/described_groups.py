"""Answers of brokers about groups, as `Admin` tells them: DescribeGroups for classic ones, others for other types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from actors.client.admin.types import GroupDescription, MemberDescription
from actors.client.error_codes import error_for
from actors.client.errors import KafkaError
from actors.client.group.assignors.protocol import Assignment, Subscription
from actors.client.records import Node, TopicPartition
from actors.wire.errors import ErrorCode as Code

CONSUMER: Final = "consumer"
DEAD: Final = "Dead"
UNKNOWN: Final = "Unknown"
EMPTY: Final = "Empty"
_CLASSIC_MEMBER: Final = 0  # -1 where a broker does not say
_NO_SUCH_GROUP: Final = (Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION, Code.INVALID_GROUP_ID)
"""ConsumerGroupDescribe's answers about a group of another type, about any while it is not served, and about none."""

Described: TypeAlias = GroupDescription | KafkaError


def may_be_of_another_type(group: Described) -> bool:
    """True if it may be no classic group: there is none of that name, or a broker says a group's state and no more."""
    if not isinstance(group, GroupDescription):
        return False
    return group.state == DEAD or (group.state != EMPTY and not group.protocol_type)


def classic_group(group: Any, node: Node) -> Described:
    """A group in an answer to DescribeGroups. Before version 6 one that does not exist has no error."""
    if group.error_code == Code.GROUP_ID_NOT_FOUND:
        return GroupDescription(group.group_id, DEAD, "", "", (), node)
    if group.error_code:
        return error_for(group.error_code, f"describing group {group.group_id}", group.error_message)
    consumers = group.protocol_type == CONSUMER
    members = tuple(_classic_member(m, consumers=consumers) for m in group.members)
    return GroupDescription(group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, node)


def _classic_member(member: Any, *, consumers: bool) -> MemberDescription:
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    if consumers:
        # Other kinds of groups put other bytes there; what cannot be decoded is shown as raw bytes only.
        try:
            topics = Subscription.decode(member.member_metadata).topics if member.member_metadata else ()
            assignment = Assignment.decode(member.member_assignment).partitions if member.member_assignment else ()
        except ValueError:
            pass
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        topics,
        assignment,
        member.member_metadata,
        member.member_assignment,
    )


def consumer_group(group: Any, node: Node) -> Described | None:
    """A group in an answer to ConsumerGroupDescribe; None if there is no consumer group of that name."""
    if group.error_code in _NO_SUCH_GROUP:
        return None
    if group.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
        return GroupDescription(group.group_id, UNKNOWN, CONSUMER, "", (), node, type=CONSUMER, is_hidden=True)
    if group.error_code:
        return error_for(group.error_code, f"describing group {group.group_id}", group.error_message)
    return GroupDescription(
        group.group_id,
        group.group_state,
        CONSUMER,
        group.assignor_name,
        tuple(map(_consumer_member, group.members)),
        node,
        type=CONSUMER,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def refusal_of(group: GroupDescription) -> KafkaError | None:
    """The error of a group that the client may not see."""
    if not group.is_hidden:
        return None
    return error_for(Code.TOPIC_AUTHORIZATION_FAILED, f"describing group {group.group_id}")


def _consumer_member(member: Any) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(member.subscribed_topic_names),
        _partitions(member.assignment.topic_partitions),
        rack_id=member.rack_id,
        regex=member.subscribed_topic_regex or None,
        epoch=member.member_epoch,
        target=_partitions(member.target_assignment.topic_partitions),
        is_classic=member.member_type == _CLASSIC_MEMBER,
    )


def _partitions(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(each.topic_name, index) for each in topics for index in each.partitions))
