"""OffsetFetch: from Kafka's message to the coordinator and back.

From version 8 on a request may name several groups. The broker cuts it, so that a shard gets one group at a time, and
merges the answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from actors.coordinator.groups import messages as core
from actors.group_api.topics import Topics
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader
from actors.wire.messages import OffsetFetchRequest, OffsetFetchResponse

API = OffsetFetchRequest
VERSIONS = (1, 10)

_MEMBER_FROM = 9
"""The version from which a request names the member of a consumer group that asks."""

_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = OffsetFetchResponse.OffsetFetchResponseTopics
_GroupPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = OffsetFetchResponse.OffsetFetchResponsePartition
P = TypeVar("P", _Partition, _GroupPartition)


def parse(header: RequestHeader, m: OffsetFetchRequest, host: str, topics: Topics) -> core.OffsetFetchRequest:
    member_id, member_epoch = None, -1
    if header.api_version >= 8:
        group = m.groups[0]
        wanted = group.topics
        group_id = group.group_id
        if header.api_version >= _MEMBER_FROM:
            member_id, member_epoch = group.member_id, group.member_epoch
    else:
        wanted = m.topics  # type: ignore[assignment]
        group_id = m.group_id
    partitions = None
    topic_ids: dict[str, bytes] = {}
    if wanted is not None:
        by_id = header.api_version >= 10
        if by_id:
            topic_ids = {topics.names[t.topic_id]: t.topic_id for t in wanted if t.topic_id in topics.names}
        partitions = tuple(
            (topics.names.get(t.topic_id, "") if by_id else t.name, index)
            for t in wanted
            for index in t.partition_indexes
            if not by_id or t.topic_id in topics.names
        )
    return core.OffsetFetchRequest(group_id, partitions, m.require_stable, member_id, member_epoch, topic_ids)


def answer(m: OffsetFetchRequest, r: core.OffsetFetchResponse, version: int, topics: Topics) -> OffsetFetchResponse:
    found: dict[str, list[core.FetchedOffset]] = {}
    for offset in r.offsets:
        found.setdefault(offset.topic, []).append(offset)
    if version >= 8:
        return OffsetFetchResponse(groups=[_group(m.groups[0], r, found, version, topics)])
    if version < 2 and r.error_code and m.topics:
        # This version has no field for an error of the group: each partition repeats it.
        found = {
            t.name: [core.FetchedOffset(t.name, index, error_code=r.error_code) for index in t.partition_indexes]
            for t in m.topics
        }
    return OffsetFetchResponse(
        error_code=r.error_code,
        topics=[
            _Topic(
                name=name,
                partitions=_partitions(_Partition, offsets),
            )
            for name, offsets in found.items()
        ],
    )


def _group(
    asked: OffsetFetchRequest.OffsetFetchRequestGroup,
    r: core.OffsetFetchResponse,
    found: dict[str, list[core.FetchedOffset]],
    version: int,
    topics: Topics,
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    rows = [
        _GroupTopic(
            name=name,
            topic_id=topics.ids.get(name, bytes(16)),
            partitions=_partitions(_GroupPartition, offsets),
        )
        for name, offsets in found.items()
        if version < 10 or name in topics.ids
    ]
    if version >= 10 and not r.error_code:
        rows += [
            _GroupTopic(
                topic_id=t.topic_id,
                partitions=[
                    _GroupPartition(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=int(ErrorCode.UNKNOWN_TOPIC_ID),
                    )
                    for index in t.partition_indexes
                ],
            )
            for t in asked.topics or ()
            if t.topic_id not in topics.names
        ]
    return _Group(group_id=asked.group_id, error_code=r.error_code, topics=rows)


def _partitions(make: type[P], offsets: Iterable[core.FetchedOffset]) -> list[P]:
    return [
        make(
            partition_index=o.partition,
            committed_offset=o.offset,
            committed_leader_epoch=o.leader_epoch,
            metadata=o.metadata,
            error_code=o.error_code,
        )
        for o in offsets
    ]
