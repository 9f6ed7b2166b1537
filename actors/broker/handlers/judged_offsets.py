"""OffsetCommit, OffsetFetch and OffsetDelete of clients that may not do it with every topic.

Topics that are denied are answered here; a request for the others is asked of the shard, and the answers are merged. A
topic that is given by its id is judged by its name. An id that this broker does not know is unknown: the shard, which
may know more a moment later, is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from actors.broker.handlers.authorization import denied, would
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.rights import DESCRIBE_TOPIC, READ_TOPIC, Right
from actors.coordinator_kinds.groups import GROUPS
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiMessage,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from actors.wire.offset_columns import OffsetCommitColumns

_IDS_FROM = 10
_GROUPS_FROM = 8

Group = OffsetFetchRequest.OffsetFetchRequestGroup
GroupAnswer = OffsetFetchResponse.OffsetFetchResponseGroup


def commit(context: HandlerContext, request: Request, frame: bytes) -> bool:
    """Whether this commit is answered here, now or later, because a topic of it is denied."""
    version, body = request.version, request.header.body_offset
    columns = OffsetCommitColumns.decode(frame, version, body)
    codes = _codes(context, request, READ_TOPIC, columns.topics)
    if not any(codes):
        return False
    m = request.message = OffsetCommitRequest.decode(frame, version, body)
    asked = m.topics
    m.topics = [topic for topic, code in zip(asked, codes, strict=True) if not code]

    def merge(r: OffsetCommitResponse) -> OffsetCommitResponse:
        decided = iter(r.topics)
        r.topics = [_uncommitted(t, c) if c else next(decided) for t, c in zip(asked, codes, strict=True)]
        return r

    _open(request)
    if m.topics:
        _ask(context, request, m.group_id, merge)
    else:
        request.reply(merge(OffsetCommitResponse()))
    return True


def fetch(context: HandlerContext, request: Request, frame: bytes) -> bool:
    """Whether this fetch of one group is answered here, now or later: a topic is denied, or all topics are meant."""
    m = request.message = OffsetFetchRequest.decode(frame, request.version, request.header.body_offset)
    if request.version >= _GROUPS_FROM:
        (group,) = m.groups
        judged = Judged(context, request, group)
        if not judged.differs:
            return False
        _open(request)
        judged.find(lambda answer: request.reply(OffsetFetchResponse(groups=[answer])))
        return True
    asked = m.topics
    codes = _codes(context, request, DESCRIBE_TOPIC, asked or ())
    if asked is not None and not any(codes):
        return False
    m.topics = None if asked is None else [topic for topic, code in zip(asked, codes, strict=True) if not code]

    def merge(r: OffsetFetchResponse) -> OffsetFetchResponse:
        if asked is None:
            r.topics = [topic for topic in r.topics if would(context, request, DESCRIBE_TOPIC, topic.name)]
        elif not r.error_code:
            make = OffsetFetchResponse.OffsetFetchResponsePartition
            r.topics += [
                OffsetFetchResponse.OffsetFetchResponseTopic(name=topic.name, partitions=_unfetched(make, topic, code))
                for topic, code in zip(asked, codes, strict=True)
                if code
            ]
        return r

    _open(request)
    if m.topics or m.topics is None:
        _ask(context, request, m.group_id, merge)
    else:
        request.reply(merge(OffsetFetchResponse()))
    return True


class Judged:
    """What a client asks of one group in an OffsetFetch from version 8 on. It may describe the group."""

    def __init__(self, context: HandlerContext, request: Request, group: Group) -> None:
        self._context = context
        self._request = request
        self._group = group
        self._topics = group.topics
        self._codes = _codes(context, request, DESCRIBE_TOPIC, group.topics or ())
        self.differs = group.topics is None or any(self._codes)
        """Whether the answer may be another one than that of the shard."""

    def find(self, done: Callable[[GroupAnswer], None]) -> None:
        """Ask the shard for what the client may see. `done` gets the answer for the group."""
        wanted = self._topics
        if wanted is not None:
            wanted = [topic for topic, code in zip(wanted, self._codes, strict=True) if not code]
            if not wanted and self._topics:
                done(self._merged(GroupAnswer(group_id=self._group.group_id)))
                return
        m = OffsetFetchRequest(
            groups=[Group(group_id=self._group.group_id, topics=wanted)],
            require_stable=self._request.message.require_stable,
        )
        partition = _partition(self._context, self._group.group_id)

        def answered(r: Any) -> None:
            done(self._merged(r.groups[0]))

        self._context.coordinators[GROUPS].ask(partition, m, self._request.version, answered)

    def _merged(self, answer: GroupAnswer) -> GroupAnswer:
        if self._topics is None:
            answer.topics = [topic for topic in answer.topics if self._may_see(topic)]
        elif not answer.error_code:
            answer.topics += [
                OffsetFetchResponse.OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=_unfetched(OffsetFetchResponse.OffsetFetchResponsePartitions, topic, code),
                )
                for topic, code in zip(self._topics, self._codes, strict=True)
                if code
            ]
        return answer

    def _may_see(self, topic: OffsetFetchResponse.OffsetFetchResponseTopics) -> bool:
        name = _name(self._context, topic, self._request.version)
        return name is not None and would(self._context, self._request, DESCRIBE_TOPIC, name)


def delete(context: HandlerContext, request: Request, frame: bytes) -> bool:
    """Whether this deletion of offsets is answered here, now or later, because a topic of it is denied."""
    m = request.message = OffsetDeleteRequest.decode(frame, request.version, request.header.body_offset)
    codes = _codes(context, request, READ_TOPIC, m.topics)
    if not any(codes):
        return False
    asked = m.topics
    m.topics = [topic for topic, code in zip(asked, codes, strict=True) if not code]

    def merge(r: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not r.error_code:
            decided = iter(r.topics)
            r.topics = [_undeleted(t, c) if c else next(decided) for t, c in zip(asked, codes, strict=True)]
        return r

    _open(request)
    if m.topics:
        _ask(context, request, m.group_id, merge)
    else:
        request.reply(merge(OffsetDeleteResponse()))
    return True


# --- what the three share ---


def _codes(context: HandlerContext, request: Request, right: Right, topics: Iterable[Any]) -> list[int]:
    """For each topic 0, or why it is not asked of the shard."""
    names = [_name(context, topic, request.version) for topic in topics]
    forbidden = denied(context, request, right, names)
    return [
        ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED if name in forbidden else 0
        for name in names
    ]


def _name(context: HandlerContext, topic: Any, version: int) -> str | None:
    name: str = topic.name
    return name if version < _IDS_FROM else context.broker.metadata.names.get(topic.topic_id)


def _open(request: Request) -> None:
    header = request.header
    request.slot = request.connection.slots.open(0, header.api_key, header.api_version, header.correlation_id)


def _ask(context: HandlerContext, request: Request, group: str, merge: Callable[[Any], ApiMessage]) -> None:
    partition = _partition(context, group)
    context.coordinators[GROUPS].ask(
        partition, request.message, request.version, lambda answer: request.reply(merge(answer))
    )


def _partition(context: HandlerContext, group: str) -> int:
    return context.broker.partition_of(GROUPS, group)


def _uncommitted(
    topic: OffsetCommitRequest.OffsetCommitRequestTopic, code: int
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    return OffsetCommitResponse.OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
            for p in topic.partitions
        ],
    )


def _unfetched(make: Callable[..., Any], topic: Any, code: int) -> list[Any]:
    return [
        make(partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code)
        for index in topic.partition_indexes
    ]


def _undeleted(
    topic: OffsetDeleteRequest.OffsetDeleteRequestTopic, code: int
) -> OffsetDeleteResponse.OffsetDeleteResponseTopic:
    return OffsetDeleteResponse.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=code)
            for p in topic.partitions
        ],
    )
