"""OffsetDelete of a client that may not read every topic: topics that are denied are answered here."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.group_requests.cutting import Cut, topic_codes
from actors.broker.handlers.rights import READ_TOPIC
from actors.coordinator_kinds.groups import GROUPS
from actors.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse


def cut(context: HandlerContext, request: Request) -> Cut | None:
    """The deletion without the topics that are denied; None if none is."""
    m: OffsetDeleteRequest = request.message
    asked = m.topics
    codes = topic_codes(context, request, READ_TOPIC, asked)
    if not any(codes):
        return None
    left = [topic for topic, code in zip(asked, codes, strict=True) if not code]
    partition = context.broker.partition_of(GROUPS, m.group_id)

    def merge(answers: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
        r = answers[0] if answers else OffsetDeleteResponse()
        if not r.error_code:
            decided = iter(r.topics)
            r.topics = [_undeleted(t, c) if c else next(decided) for t, c in zip(asked, codes, strict=True)]
        return r

    return Cut([(partition, OffsetDeleteRequest(group_id=m.group_id, topics=left))] if left else [], merge)


def _undeleted(
    topic: OffsetDeleteRequest.OffsetDeleteRequestTopic, code: int
) -> OffsetDeleteResponse.OffsetDeleteResponseTopic:
    make = OffsetDeleteResponse.OffsetDeleteResponsePartition
    return OffsetDeleteResponse.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[make(partition_index=p.partition_index, error_code=code) for p in topic.partitions],
    )
