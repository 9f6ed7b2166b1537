"""OffsetCommit: between the wire and the coordinator. Partitions the metadata lacks are answered here (3, 100).

Versions 8 and 9, which nearly all commits have, also go a shorter way (`parse_compact`, `encode_compact`): from bytes
to the coordinator's tuples and back, without a message object. It takes half the time, and steps aside for anything
out of the ordinary.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from actors.coordinator import messages as core
from actors.group_api.topics import Topics
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


COMPACT_VERSIONS = (8, 9)
Layout: TypeAlias = list[tuple[bytes, list[int]]]
"""What an answer repeats of its request: each topic's name with its length, and the partitions' indexes."""

_OFFSET = struct.Struct(">iqi")  # partition index, committed offset, leader epoch
_OFFSET_BYTES = _OFFSET.size
_RESULT = struct.Struct(">ihb").pack  # partition index, error code, no tagged fields
_LONGEST = 127  # a length that takes one byte


def parse_compact(
    frame: bytes, position: int, version: int, topics: Topics
) -> tuple[core.OffsetCommitRequest, Layout] | None:
    """The request whose body begins at `position`; None sends the caller the long way.

    None for tagged fields, long strings, unknown partitions, topics without partitions and anything malformed.
    """
    try:
        return _parse_compact(frame, position, version, topics)
    except (IndexError, struct.error, UnicodeDecodeError):
        return None


def _parse_compact(
    frame: bytes, at: int, version: int, topics: Topics
) -> tuple[core.OffsetCommitRequest, Layout] | None:
    size = frame[at]
    group_id = frame[at + 1 : at + size].decode()
    at += size
    generation_id = int.from_bytes(frame[at : at + 4], "big", signed=True)
    member_size = frame[at + 4]
    at += 5
    member_id = frame[at : at + member_size - 1].decode()
    at += member_size - 1
    instance_size = frame[at]
    at += 1
    instance_id = None
    if instance_size:
        instance_id = frame[at : at + instance_size - 1].decode()
        at += instance_size - 1
    topic_count = frame[at]
    at += 1
    if not (size and member_size and topic_count) or max(size, member_size, instance_size, topic_count) > _LONGEST:
        return None
    unpack, offsets, layout = _OFFSET.unpack_from, [], []
    for _ in range(topic_count - 1):
        size = frame[at]
        raw = frame[at : at + size]
        name = raw[1:].decode()
        partition_count = frame[at + size]
        at += size + 1
        count = topics.counts.get(name)
        if count is None or not (size and partition_count) or size > _LONGEST or partition_count > _LONGEST:
            return None
        indexes = []
        for _ in range(partition_count - 1):
            index, offset, epoch = unpack(frame, at)
            at += _OFFSET_BYTES
            size = frame[at]
            at += 1
            if size > _LONGEST or not 0 <= index < count:
                return None
            metadata = None
            if size:
                metadata = frame[at : at + size - 1].decode() if size > 1 else ""
                at += size - 1
            if frame[at]:
                return None
            at += 1
            offsets.append((name, index, offset, epoch, metadata, -1))
            indexes.append(index)
        if frame[at]:
            return None
        at += 1
        layout.append((raw, indexes))
    if frame[at] or (layout and not offsets):
        return None
    return core.OffsetCommitRequest(group_id, generation_id, member_id, instance_id, offsets, version, -1), layout


def encode_compact(layout: Layout, error_codes: list[int]) -> bytes:
    """The answer's body: one error code a partition, in the request's order."""
    codes = iter(error_codes)
    out = [b"\0\0\0\0", (len(layout) + 1).to_bytes(1, "big")]
    for raw, indexes in layout:
        out += (raw, (len(indexes) + 1).to_bytes(1, "big"))
        out += [_RESULT(index, next(codes), 0) for index in indexes]
        out.append(b"\0")
    out.append(b"\0")
    return b"".join(out)
