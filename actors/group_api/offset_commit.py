"""OffsetCommit: between the wire and the coordinator. Partitions the metadata lacks are answered here (3, 100).

Both ways the request stays what it is on the wire, columns (`wire/offset_columns.py`): nearly all commits are for
partitions that exist, and then a topic's columns go through as they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

from actors.coordinator.groups import messages as core
from actors.group_api.topics import Topics
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader
from actors.wire.offset_columns import OffsetCommitAnswer, OffsetCommitColumns, TopicColumns

API = OffsetCommitColumns
VERSIONS = (2, 10)

_UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNKNOWN_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
_WITH_TOPIC_ID_FROM = 10
_new = tuple.__new__  # takes half the time of a named tuple's own constructor


def parse(header: RequestHeader, m: OffsetCommitColumns, host: str, topics: Topics) -> core.OffsetCommitRequest | None:
    """The part of a commit that the coordinator decides; None if no partition of it exists."""
    version = header.api_version
    wanted = []
    for topic in m.topics:
        name, topic_id, _, partitions, metadata, offsets, _ = topic
        if version >= _WITH_TOPIC_ID_FROM:
            name = topics.names.get(topic_id, "")
        else:
            topic_id = topics.ids.get(name, b"")
        end = topics.ends.get(name, b"")
        if partitions and max(partitions) < end:
            wanted.append(_new(core.TopicOffsets, (name, core.Partitions(partitions), offsets, metadata, topic_id)))
        elif there := _those_that_exist(name, topic_id, topic, end):
            wanted.append(there)
    if not wanted and m.topics:
        return None
    return _new(core.OffsetCommitRequest, (*m.by, wanted, version, m.retention_time_ms))


def _those_that_exist(name: str, topic_id: bytes, topic: TopicColumns, end: bytes) -> core.TopicOffsets | None:
    exist = [partition < end for partition in topic.partitions]
    if not any(exist):
        return None
    metadata = None if topic.metadata is None else list(compress(topic.metadata, exist))
    return core.TopicOffsets(
        name,
        core.Partitions(list(compress(topic.partitions, exist))),
        list(compress(topic.offsets, exist)),
        metadata,
        topic_id,
    )


def body(m: OffsetCommitColumns, r: core.OffsetCommitResponse, version: int, topics: Topics) -> bytes:
    """The encoded answer; that of a request which is repeated is kept."""
    if len(r.error_codes) != m.partition_count or any(r.error_codes):
        return answer(m, r, version, topics).encode(version)
    if m.good_answer is None:
        m.good_answer = OffsetCommitAnswer(m, r.error_codes).encode(version)
    return m.good_answer


def answer(
    m: OffsetCommitColumns, r: core.OffsetCommitResponse | None, version: int, topics: Topics
) -> OffsetCommitAnswer:
    """One error a partition, in the request's order; `r` has those of the partitions that `parse` let through."""
    decided = r.error_codes if r is not None else []
    if len(decided) == m.partition_count:
        return OffsetCommitAnswer(m, decided)
    left = iter(decided)
    return OffsetCommitAnswer(m, [code for topic in m.topics for code in _codes(topic, left, version, topics)])


def _codes(topic: TopicColumns, decided: Iterator[int], version: int, topics: Topics) -> Iterator[int]:
    name = topics.names.get(topic.topic_id, "") if version >= _WITH_TOPIC_ID_FROM else topic.name
    end = topics.ends.get(name, b"")
    missing = _UNKNOWN_ID if version >= _WITH_TOPIC_ID_FROM and not name else _UNKNOWN
    return (next(decided) if partition < end else missing for partition in topic.partitions)
