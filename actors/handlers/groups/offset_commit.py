"""OffsetCommit: between the wire and the coordinator. Partitions the metadata lacks are answered here (3, 100)."""

from __future__ import annotations

from actors.coordinator import messages as core
from actors.handlers.groups.topics import Topics
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader
from actors.wire.messages import OffsetCommitRequest, OffsetCommitResponse

API = OffsetCommitRequest
VERSIONS = (2, 10)

_UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNKNOWN_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = OffsetCommitResponse.OffsetCommitResponsePartition


def parse(header: RequestHeader, m: OffsetCommitRequest, host: str, topics: Topics) -> core.OffsetCommitRequest | None:
    """The part of a commit that the coordinator decides; None if no partition of it exists."""
    offsets: list[tuple[str, int, int, int, str | None, int]] = []
    by_id = header.api_version >= 10
    for topic in m.topics:
        name = topics.names.get(topic.topic_id, "") if by_id else topic.name
        count = topics.counts.get(name, 0)
        offsets += [
            (name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.committed_metadata, -1)
            for p in topic.partitions
            if 0 <= p.partition_index < count
        ]
    if not offsets and m.topics:
        return None
    return core.OffsetCommitRequest(
        m.group_id,
        m.generation_id_or_member_epoch,
        m.member_id,
        m.group_instance_id,
        offsets,
        header.api_version,
        m.retention_time_ms,
    )


def answer(
    m: OffsetCommitRequest, r: core.OffsetCommitResponse | None, version: int, topics: Topics
) -> OffsetCommitResponse:
    """One error a partition, in the request's order; `r` has those of the partitions that `parse` let through."""
    codes = iter(r.error_codes if r is not None else ())
    result = []
    for topic in m.topics:
        name = topics.names.get(topic.topic_id, "") if version >= 10 else topic.name
        count = topics.counts.get(name, 0)
        missing = _UNKNOWN_ID if version >= 10 and not name else _UNKNOWN
        result.append(
            _Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _Partition(
                        partition_index=p.partition_index,
                        error_code=next(codes) if 0 <= p.partition_index < count else missing,
                    )
                    for p in topic.partitions
                ],
            )
        )
    return OffsetCommitResponse(topics=result)
