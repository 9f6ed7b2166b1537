"""Offset commits and offset records as rows, for tests: one row a partition instead of the product's columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from struct import pack, unpack
from typing import Any

from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.durable import DurableState
from actors.coordinator.groups.messages import OffsetCommitRequest, Partitions, TopicOffsets, TopicPartition
from actors.coordinator.groups.offset_records import (
    OffsetAndMetadata,
    OffsetsPut,
    StoredOffsets,
    decode_offset_value,
    offset_value,
)
from actors.coordinator.records import RecordTypes

CommitRow = tuple[str, int, int, int, str | None]
"""One partition of an OffsetCommit: topic, partition, offset, leader epoch, metadata."""


def commit_request(
    group_id: str | None,
    generation: int,
    member_id: str,
    instance: str | None,
    rows: Iterable[CommitRow],
    version: int = 9,
    retention: int = -1,
) -> OffsetCommitRequest:
    """An OffsetCommit of these rows. Those of a topic that follow one another are one topic of the request."""
    topics = []
    for topic, same in itertools.groupby(rows, key=lambda row: row[0]):
        _, partitions, offsets, epochs, texts = zip(*same, strict=True)
        columns = (
            Partitions([pack(">i", each) for each in partitions]),
            [pack(">qi", *each) for each in zip(offsets, epochs, strict=True)],
        )
        metadata = [(text or "").encode() for text in texts] if any(texts) else None
        topics.append(TopicOffsets(topic, *columns, metadata))
    return OffsetCommitRequest(group_id, generation, member_id, instance, topics, version, retention)


def commit_rows(request: OffsetCommitRequest) -> list[CommitRow]:
    """The rows that `commit_request` was given, with "" for null metadata."""
    rows: list[CommitRow] = []
    for topic, partitions, offsets, metadata, _ in request.topics:
        for partition, offset, text in zip(
            partitions.indexes, offsets, metadata or [b""] * len(partitions), strict=True
        ):
            rows.append((topic, *unpack(">i", partition), *unpack(">qi", offset), text.decode()))
    return rows


def value_bytes(value: OffsetAndMetadata) -> bytes:
    """The value of this offset's record."""
    offset, leader_epoch, metadata, *times_and_id = value
    return offset_value(pack(">qi", offset, leader_epoch), metadata.encode(), *times_and_id)


def offsets_put(group_id: str, *entries: tuple[TopicPartition, OffsetAndMetadata]) -> OffsetsPut:
    """The change that records of these offsets make, one after the other."""
    topics = [StoredOffsets(t, [p], [value_bytes(value)]) for (t, p), value in entries]
    return OffsetsPut(group_id, topics)


def naive_replay(records: Iterable[tuple[bytes, bytes | None]], types: RecordTypes = GROUP_RECORDS) -> DurableState:
    """The state of a log, replayed one record after the other: the yardstick for everything faster."""
    state = DurableState()
    for key, value in records:
        change = types.decode(key, value)
        if change is not None:
            state.replay(change)
    return state


def projection(state: DurableState) -> dict[str, Any]:
    """Durable state in a form that compares."""
    return {
        group_id: (group.persisted, {at: decode_offset_value(value) for at, value in group.offsets.items()})
        for group_id, group in state.items()
    }
