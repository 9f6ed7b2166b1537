"""The records of committed offsets, of types 0 and 1: their typed form and Kafka's bytes for it, both ways.

Reads every version there has been of their values (0 to 4); writes version 4, or 1 when there is an explicit expiry.
A value of version 4 has the id of the topic, if it was known: one that was deleted and made anew has another.
Values stay bytes until they are read: writing them is the path that has to be short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import NamedTuple

from actors.coordinator.groups.messages import TopicPartition, partition_numbers
from actors.coordinator.record_fields import I16, I32, I64, FieldReader, string, uvarint
from actors.coordinator.records import CorruptRecordError, Record, RecordType

NO_TIMESTAMP = -1
OFFSET_KEY_TYPES = (0, 1)

_PLAIN_OFFSET = Struct(">hqibq3s16s")
_TIMESTAMPS = Struct(">qq")
_PLAIN_BYTES = _PLAIN_OFFSET.size
_V1 = b"\x00\x01"
_V4 = b"\x00\x04"
_NO_TEXT = b"\x01"
_NO_TAGS = b"\x00"
_TOPIC_ID_TAG = 0
_TOPIC_ID_BYTES = 16
_TOPIC_ID_AHEAD = b"\x01\x00\x10"
"""One tagged field, its tag, and how long it is."""
_OFFSET_BYTES = 8
_PARTITION_BYTES = 4


class OffsetAndMetadata(NamedTuple):
    """An offset record's value, read."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes = b""
    """Of the topic that it was committed for; b"" if that is not known."""


class StoredOffsets(NamedTuple):
    """Offset records of one topic, as columns: an entry for each of them."""

    topic: str
    partitions: Sequence[int]
    values: Sequence[bytes]
    """As `offset_value` makes them, or as the log has them: `decode_offset_value` reads either."""


class OffsetsPut(NamedTuple):
    """An offset record for each entry of each topic. A topic may come twice; then what comes later counts."""

    group_id: str
    topics: list[StoredOffsets]

    @property
    def entity(self) -> str:
        return self.group_id

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions that it has offsets for."""
        return ((topic, partition) for topic, partitions, _ in self.topics for partition in partitions)

    def records(self) -> list[Record]:
        records: list[Record] = []
        for topic, partitions, values in self.topics:
            records += map(Record, [offset_key(self.group_id, topic, p) for p in partitions], values)
        return records


class OffsetsDeleted(NamedTuple):
    """One offset tombstone for each partition."""

    group_id: str
    partitions: list[TopicPartition]

    @property
    def entity(self) -> str:
        return self.group_id

    def records(self) -> list[Record]:
        return [Record(offset_key(self.group_id, topic, partition), None) for topic, partition in self.partitions]


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """The key of an offset record without its last four bytes, the partition."""
    return b"\x00\x01" + string(group_id) + string(topic)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return offset_key_prefix(group_id, topic) + I32.pack(partition)


def offset_value(
    offset: bytes,
    metadata: bytes,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = NO_TIMESTAMP,
    topic_id: bytes = b"",
) -> bytes:
    """The value of an offset record; `offset` has the leader epoch with it, as in `TopicOffsets`."""
    return offset_values([(offset, metadata)], commit_timestamp_ms, expire_timestamp_ms, topic_id)[0]


def offset_values(
    rows: Iterable[tuple[bytes, bytes]], commit_timestamp_ms: int, expire_timestamp_ms: int, topic_id: bytes
) -> list[bytes]:
    """`offset_value` of each offset and its metadata."""
    if expire_timestamp_ms == NO_TIMESTAMP:
        end = I64.pack(commit_timestamp_ms) + _tags(topic_id)
        return [_V4 + offset + _compact_length(len(text)) + text + end for offset, text in rows]
    end = _TIMESTAMPS.pack(commit_timestamp_ms, expire_timestamp_ms)
    return [_V1 + offset[:_OFFSET_BYTES] + I16.pack(len(text)) + text + end for offset, text in rows]


@lru_cache(maxsize=1024)
def _compact_length(size: int) -> bytes:
    return uvarint(size + 1)


def plain_offset_values(offsets: Sequence[bytes], commit_timestamp_ms: int, topic_id: bytes = b"") -> Sequence[bytes]:
    """`offset_value` of each, with neither metadata nor an expiry."""
    end = _NO_TEXT + I64.pack(commit_timestamp_ms) + _tags(topic_id)
    joined = _V4 + (end + _V4).join(offsets) + end
    return _equal_parts(len(offsets), len(joined)).unpack(joined)  # faster than to put each together


def _tags(topic_id: bytes) -> bytes:
    return _TOPIC_ID_AHEAD + topic_id if topic_id else _NO_TAGS


@lru_cache(maxsize=256)
def _equal_parts(count: int, size: int) -> Struct:
    return Struct(f"{size // count}s" * count)


def decode_offset_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition of a key of type 0 or 1."""
    reader = FieldReader(key, 2)
    decoded = reader.string(False), reader.string(False), reader.i32()
    if reader.position != len(key):
        raise CorruptRecordError("an offset key is longer than its fields")
    return decoded


def check_offset_value(value: bytes) -> bytes:
    """The same bytes, if they are the value of an offset record. Raises CorruptRecordError."""
    if not _is_plain(value):
        decode_offset_value(value)
    return value


def _is_plain(value: bytes) -> bool:
    """True if it is of version 4, without metadata and with a topic's id, as nearly all are."""
    return (
        len(value) == _PLAIN_BYTES and value[:2] == _V4 and value[14:15] == _NO_TEXT and value[23:26] == _TOPIC_ID_AHEAD
    )


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    if _is_plain(value):
        _, offset, leader_epoch, _, timestamp, _, topic_id = _PLAIN_OFFSET.unpack(value)
        return OffsetAndMetadata(offset, leader_epoch, "", timestamp, NO_TIMESTAMP, topic_id)
    reader = FieldReader(value)
    version = reader.i16()
    if not 0 <= version <= 4:
        raise CorruptRecordError(f"offset value of unknown version {version}")
    flexible = version >= 4
    offset = reader.i64()
    leader_epoch = reader.i32() if version >= 3 else -1
    metadata = reader.string(flexible)
    commit_timestamp_ms = reader.i64()
    expire_timestamp_ms = reader.i64() if version == 1 else NO_TIMESTAMP
    topic_id = reader.tagged().get(_TOPIC_ID_TAG, b"") if flexible else b""
    if len(topic_id) not in (0, _TOPIC_ID_BYTES):
        raise CorruptRecordError(f"a topic id has {len(topic_id)} bytes")
    return OffsetAndMetadata(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id)


def _decode(key: bytes, value: bytes | None) -> OffsetsPut | OffsetsDeleted:
    group_id, topic, partition = decode_offset_key(key)
    if value is None:
        return OffsetsDeleted(group_id, [(topic, partition)])
    return OffsetsPut(group_id, [StoredOffsets(topic, [partition], [check_offset_value(value)])])


def _decode_run(keys: Sequence[bytes], values: Mapping[bytes, bytes | None]) -> Iterator[OffsetsPut | OffsetsDeleted]:
    for _, run in groupby(keys, key=lambda key: key[:-_PARTITION_BYTES]):
        yield from _of_one_topic(list(run), values)


def _of_one_topic(keys: list[bytes], values: Mapping[bytes, bytes | None]) -> Iterator[OffsetsPut | OffsetsDeleted]:
    """The changes that the records of one topic of a group say. Their keys differ in the partition only."""
    group_id, topic, _ = decode_offset_key(keys[0])
    there = [(key[-_PARTITION_BYTES:], check_offset_value(value)) for key in keys if (value := values[key]) is not None]
    if there:
        partitions, its_values = zip(*there, strict=True)
        yield OffsetsPut(group_id, [StoredOffsets(topic, partition_numbers(partitions), its_values)])
    gone = [key[-_PARTITION_BYTES:] for key in keys if values[key] is None]
    if gone:
        yield OffsetsDeleted(group_id, [(topic, partition) for partition in partition_numbers(gone)])


OFFSET_RECORDS = (
    # The order of both matters where both say something of a partition. Nobody writes the older type any more.
    RecordType(0, _decode, _decode_run, ordered=True),
    RecordType(1, _decode, _decode_run),
)
