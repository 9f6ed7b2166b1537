"""OffsetDelete: from Kafka's message to the coordinator and back. Unknown partitions are answered here (3)."""

from __future__ import annotations

from actors.coordinator.groups import messages as core
from actors.group_api.topics import Topics
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader
from actors.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse

API = OffsetDeleteRequest
VERSIONS = (0, 0)


def parse(header: RequestHeader, m: OffsetDeleteRequest, host: str, topics: Topics) -> core.OffsetDeleteRequest:
    return core.OffsetDeleteRequest(
        m.group_id,
        tuple(
            (t.name, p.partition_index)
            for t in m.topics
            for p in t.partitions
            if 0 <= p.partition_index < topics.counts.get(t.name, 0)
        ),
    )


def answer(m: OffsetDeleteRequest, r: core.OffsetDeleteResponse, version: int, topics: Topics) -> OffsetDeleteResponse:
    if r.error_code:
        return OffsetDeleteResponse(error_code=r.error_code)
    codes = {(topic, index): code for topic, index, code in r.partitions}
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.OffsetDeleteResponseTopic(
                name=t.name,
                partitions=[
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=p.partition_index,
                        error_code=codes.get((t.name, p.partition_index), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
                    )
                    for p in t.partitions
                ],
            )
            for t in m.topics
        ]
    )
