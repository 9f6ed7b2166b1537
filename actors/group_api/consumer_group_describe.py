"""ConsumerGroupDescribe: from Kafka's message to the coordinator and back. Each shard is asked for its own groups."""

from __future__ import annotations

from collections.abc import Iterable

from actors.coordinator.consumer import messages as core
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from actors.wire.operations import GROUP_OPERATIONS, NOT_ASKED

API = ConsumerGroupDescribeRequest
VERSIONS = (0, 1)

_Group = ConsumerGroupDescribeResponse.DescribedGroup
_Member = ConsumerGroupDescribeResponse.Member
_Assignment = ConsumerGroupDescribeResponse.Assignment
_Partitions = ConsumerGroupDescribeResponse.TopicPartitions


def parse(
    header: RequestHeader, m: ConsumerGroupDescribeRequest, host: str, topics: Topics
) -> core.ConsumerGroupDescribeRequest:
    return core.ConsumerGroupDescribeRequest(tuple(m.group_ids))


def answer(
    m: ConsumerGroupDescribeRequest, r: core.ConsumerGroupDescribeResponse, version: int, topics: Topics
) -> ConsumerGroupDescribeResponse:
    operations = GROUP_OPERATIONS if m.include_authorized_operations else NOT_ASKED
    return ConsumerGroupDescribeResponse(groups=[_group(each, operations) for each in r.groups])


def _group(g: core.DescribedConsumerGroup, operations: int) -> _Group:
    return _Group(
        error_code=g.error_code,
        error_message=g.error_message,
        group_id=g.group_id,
        group_state=g.state,
        group_epoch=g.group_epoch,
        assignment_epoch=g.assignment_epoch,
        assignor_name=g.assignor,
        members=[_member(each) for each in g.members],
        authorized_operations=NOT_ASKED if g.error_code else operations,
    )


def _member(m: core.DescribedMember) -> _Member:
    return _Member(
        member_id=m.member_id,
        instance_id=m.instance_id,
        rack_id=m.rack_id,
        member_epoch=m.member_epoch,
        client_id=m.client_id,
        client_host=m.client_host,
        subscribed_topic_names=list(m.subscribed_topic_names),
        subscribed_topic_regex=m.subscribed_topic_regex,
        assignment=_assignment(m.assignment),
        target_assignment=_assignment(m.target),
        member_type=m.member_type,
    )


def _assignment(topics: Iterable[core.DescribedTopic]) -> _Assignment:
    return _Assignment(
        topic_partitions=[
            _Partitions(topic_id=each.topic_id, topic_name=each.name, partitions=list(each.partitions))
            for each in topics
        ]
    )
