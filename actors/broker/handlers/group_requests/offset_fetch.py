"""OffsetFetch of several groups (KIP-709), and of clients that may not describe every topic.

It is cut by groups, each of which is asked of its shard, without the topics that are denied. If all topics are meant,
those that the client may not see are taken out of the answer. A group that is named twice is answered once: else a
small request could have a huge answer.
"""

from __future__ import annotations

from typing import Any

from actors.broker.handlers.authorization import denied, would
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.group_requests.cutting import Cut, topic_codes, topic_name
from actors.broker.handlers.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC
from actors.coordinator_kinds.groups import GROUPS
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, OffsetFetchRequest, OffsetFetchResponse

GROUPS_FROM = 8
"""The version from which a request names several groups, and topics by them."""

_Group = OffsetFetchResponse.OffsetFetchResponseGroup


def handle(context: HandlerContext, request: Request) -> None:
    """Answer a request of several groups."""
    m: OffsetFetchRequest = request.message
    first = {group.group_id: group for group in reversed(m.groups)}
    m.groups = list(reversed(first.values()))
    forbidden = denied(context, request, DESCRIBE_GROUP, [group.group_id for group in m.groups])
    asked = [g.group_id if g.group_id in forbidden else _GroupOffsets(context, request, g) for g in m.groups]
    _cut(asked).ask(context, request)


def cut(context: HandlerContext, request: Request) -> Cut | None:
    """A request of one group, which the client may describe; None if its answer is that of the shard."""
    m: OffsetFetchRequest = request.message
    if request.version >= GROUPS_FROM:
        (group,) = m.groups
        offsets = _GroupOffsets(context, request, group)
        return _cut([offsets]) if offsets.differs else None
    offsets = _GroupOffsets(context, request, m)
    return Cut(offsets.parts, offsets.merged) if offsets.differs else None


def _cut(asked: list[_GroupOffsets | str]) -> Cut:
    """Some groups, of which those that are denied are given by their ids."""
    parts = [part for each in asked if not isinstance(each, str) for part in each.parts]

    def merge(answers: list[OffsetFetchResponse]) -> OffsetFetchResponse:
        left = iter(answers)
        groups = []
        for each in asked:
            if isinstance(each, str):
                groups.append(_Group(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            else:
                groups.append(each.merged([next(left).groups[0] for _ in each.parts]))
        return OffsetFetchResponse(groups=groups)

    return Cut(parts, merge)


class _GroupOffsets:
    """The part of a request that is about one group. `group` is the request itself before it could name several."""

    def __init__(self, context: HandlerContext, request: Request, group: Any) -> None:
        self._context = context
        self._request = request
        self._group_id: str = group.group_id
        self._topics: list[Any] | None = group.topics
        self._codes = topic_codes(context, request, DESCRIBE_TOPIC, group.topics or ())
        self._by_group = request.version >= GROUPS_FROM
        self.parts = self._parts(group)
        """The question to the group's shard; none if all topics are denied and no member is named."""

    def _parts(self, group: Any) -> list[tuple[int, ApiMessage]]:
        if any(self._codes) and self._topics is not None:
            group.topics = [topic for topic, code in zip(self._topics, self._codes, strict=True) if not code]
            if not group.topics and not self._names_member(group):
                return []
        question: ApiMessage = group
        if self._by_group:
            question = OffsetFetchRequest(groups=[group], require_stable=self._request.message.require_stable)
        return [(self._context.broker.partition_of(GROUPS, self._group_id), question)]

    def _names_member(self, group: Any) -> bool:
        """True if the shard is to judge the member that asks: that comes before topics, also if all are denied."""
        return self._by_group and (group.member_id is not None or group.member_epoch >= 0)

    @property
    def differs(self) -> bool:
        """True if the answer may be another one than that of the shard."""
        return self._topics is None or any(self._codes)

    def merged(self, answers: list[Any]) -> Any:
        """The answer for the group: the shard's, if it was asked, with the topics that are denied."""
        answer = answers[0] if answers else self._nothing()
        if self._topics is None:
            answer.topics = [topic for topic in answer.topics if self._may_see(topic)]
        elif not answer.error_code:
            denials = zip(self._topics, self._codes, strict=True)
            answer.topics += [self._denied(topic, code) for topic, code in denials if code]
        return answer

    def _nothing(self) -> Any:
        return _Group(group_id=self._group_id) if self._by_group else OffsetFetchResponse()

    def _may_see(self, topic: Any) -> bool:
        if not self._context.broker.authorizer.checks:
            return True
        name = topic_name(self._context, self._request, topic)
        return name is not None and would(self._context, self._request, DESCRIBE_TOPIC, name)

    def _denied(self, topic: Any, code: int) -> Any:
        make: Any = OffsetFetchResponse.OffsetFetchResponsePartition
        if self._by_group:
            make = OffsetFetchResponse.OffsetFetchResponsePartitions
        partitions = [
            make(partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code)
            for index in topic.partition_indexes
        ]
        if not self._by_group:
            return OffsetFetchResponse.OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
        made = OffsetFetchResponse.OffsetFetchResponseTopics
        return made(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
