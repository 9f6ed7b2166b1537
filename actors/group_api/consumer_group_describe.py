"""ConsumerGroupDescribe: from Kafka's message to the coordinator and back. Each shard is asked for its own groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from actors.coordinator.consumer import messages as core
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from actors.wire.operations import GROUP_OPERATIONS, NOT_ASKED
from actors.wire.varints import uvarint

API = ConsumerGroupDescribeRequest
VERSIONS = (0, 1)

_HEAD: Final = bytes(4)
"""The throttle time, with which an answer begins."""
_NO_TAGS: Final = b"\0"
_TAIL: Final = 5
"""The bytes of a group after its members, in all versions: the authorized operations and its tags."""

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


class Description:
    """The members that have been described so far of a long answer, encoded. It leaves whole, when all have been."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._members: dict[int, list[bytes]] = {}
        self._counts: Counter[int] = Counter()

    def add(self, piece: core.MembersDescribed) -> None:
        """Take over another piece."""
        for place, members in piece.members:
            self._members.setdefault(place, []).append(_encoded_members(members, self._version))
            self._counts[place] += len(members)

    def body(self, m: ConsumerGroupDescribeRequest, r: core.ConsumerGroupDescribeResponse) -> bytes:
        """The whole answer, when the last members have come with it."""
        self.add(core.MembersDescribed(None, tuple((place, g.members) for place, g in enumerate(r.groups))))
        bare = answer(m, replace(r, groups=tuple(replace(g, members=()) for g in r.groups)), self._version, Topics())
        groups: list[bytes] = []
        for place, group in enumerate(bare.groups):
            whole = encoded_group(group, self._version)
            if group.error_code:  # the shard was unloaded meanwhile
                groups.append(whole)
                continue
            head, count = whole[: -_TAIL - 1], uvarint(self._counts[place] + 1)
            groups.append(b"".join([head, count, *self._members[place], whole[-_TAIL:]]))
        return body_of(groups)


def body_of(groups: Sequence[bytes]) -> bytes:
    """A whole answer of groups that are encoded already."""
    return b"".join([_HEAD, uvarint(len(groups) + 1), *groups, _NO_TAGS])


def encoded_group(group: _Group, version: int) -> bytes:
    """A group as it stands in an answer: behind the head and the length of the list, and before the tags."""
    return ConsumerGroupDescribeResponse(groups=[group]).encode(version)[len(_HEAD) + 1 : -len(_NO_TAGS)]


def _encoded_members(members: Sequence[core.DescribedMember], version: int) -> bytes:
    """Members as they stand in a group: after the length of their list, and before what a group ends with."""
    before = len(encoded_group(_Group(), version)) - _TAIL - 1
    whole = encoded_group(_Group(members=[_member(each) for each in members]), version)
    return whole[before + len(uvarint(len(members) + 1)) : -_TAIL]


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
