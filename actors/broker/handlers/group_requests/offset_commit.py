"""OffsetCommit of a client that may not read every topic: topics that are denied are answered here."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.group_requests.cutting import Cut, topic_codes
from actors.broker.handlers.rights import READ_TOPIC
from actors.coordinator_kinds.groups import GROUPS
from actors.wire.messages import OffsetCommitResponse
from actors.wire.offset_columns import OffsetCommitColumns, TopicColumns, indexes


def cut(context: HandlerContext, request: Request) -> Cut | None:
    """The commit without the topics that are denied; None if none is."""
    m: OffsetCommitColumns = request.message
    asked = m.topics
    codes = topic_codes(context, request, READ_TOPIC, asked)
    if not any(codes):
        return None
    left = [topic for topic, code in zip(asked, codes, strict=True) if not code]
    partition = context.broker.partition_of(GROUPS, m.by.group_id)

    def merge(answers: list[OffsetCommitResponse]) -> OffsetCommitResponse:
        r = answers[0] if answers else OffsetCommitResponse()
        decided = iter(r.topics)
        r.topics = [_uncommitted(t, c) if c else next(decided) for t, c in zip(asked, codes, strict=True)]
        return r

    return Cut([(partition, m.request_for(left))] if left else [], merge)


def _uncommitted(topic: TopicColumns, code: int) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    make = OffsetCommitResponse.OffsetCommitResponsePartition
    return OffsetCommitResponse.OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[make(partition_index=index, error_code=code) for index in indexes(topic)],
    )
