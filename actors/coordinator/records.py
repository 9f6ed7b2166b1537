"""The records of `__consumer_offsets`: their typed form and Kafka's bytes for it, both ways.

Reads every version there has been of offset and classic group values (0 to 4); writes offset values as
version 3, or 1 when there is an explicit expiry, and group values as version 3. What a record does to the
state is in durable.py. Offset values stay bytes until they are read: writing them is the path that has to be short.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from actors import CoterieError
from actors.coordinator.messages import TopicPartition

NO_TIMESTAMP = -1
MAX_STRING_BYTES = 32_767

_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")
_PLAIN_OFFSET = Struct(">hqihq")
_TIMESTAMPS = Struct(">qq")
_PLAIN_BYTES = _PLAIN_OFFSET.size
_V1 = b"\x00\x01"
_V3 = b"\x00\x03"
_OFFSET_BYTES = 8

OFFSET_KEY_TYPES = (0, 1)
GROUP_KEY_TYPE = 2


class CorruptRecordError(CoterieError):
    """A record of a known type cannot be decoded."""


class Record(NamedTuple):
    """Bytes as the log keeps them; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class OffsetAndMetadata(NamedTuple):
    """An offset record's value, read."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the selected protocol only."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group as its record keeps it."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    members: tuple[MemberMetadata, ...] = ()


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

    def partitions(self) -> Iterator[TopicPartition]:
        """What it has offsets for."""
        return ((topic, partition) for topic, partitions, _ in self.topics for partition in partitions)


class OffsetsDeleted(NamedTuple):
    """One offset tombstone for each partition."""

    group_id: str
    partitions: list[TopicPartition]


class GroupPut(NamedTuple):
    group_id: str
    metadata: GroupMetadata


class GroupDeleted(NamedTuple):
    group_id: str


Change = OffsetsPut | OffsetsDeleted | GroupPut | GroupDeleted
"""What records say, in the order of the log."""


# -- writing


def _string(text: str) -> bytes:
    data = text.encode()
    return _I16.pack(len(data)) + data


def _nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


def _bytes(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def fits(*texts: str | None) -> bool:
    """Whether each text can stand in a record: a string has 32,767 bytes at most."""
    return all(len(text) * 4 <= MAX_STRING_BYTES or _fits(text) for text in texts if text is not None)


def _fits(text: str) -> bool:
    return len(text.encode()) <= MAX_STRING_BYTES


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """The key of an offset record without its last four bytes, the partition."""
    return b"\x00\x01" + _string(group_id) + _string(topic)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return offset_key_prefix(group_id, topic) + _I32.pack(partition)


def group_key(group_id: str) -> bytes:
    return b"\x00\x02" + _string(group_id)


def offset_value(
    offset: bytes, metadata: bytes, commit_timestamp_ms: int, expire_timestamp_ms: int = NO_TIMESTAMP
) -> bytes:
    """The value of an offset record; `offset` has the leader epoch with it, as in `TopicOffsets`."""
    text = _I16.pack(len(metadata)) + metadata
    if expire_timestamp_ms == NO_TIMESTAMP:
        return _V3 + offset + text + _I64.pack(commit_timestamp_ms)
    return _V1 + offset[:_OFFSET_BYTES] + text + _TIMESTAMPS.pack(commit_timestamp_ms, expire_timestamp_ms)


def plain_offset_values(offsets: Sequence[bytes], commit_timestamp_ms: int) -> Sequence[bytes]:
    """`offset_value` of each, with neither metadata nor an expiry."""
    end = b"\0\0" + _I64.pack(commit_timestamp_ms)
    joined = _V3 + (end + _V3).join(offsets) + end
    return _plain_values(len(offsets)).unpack(joined)  # faster than to put each together


@lru_cache(maxsize=256)
def _plain_values(count: int) -> Struct:
    return Struct(f"{_PLAIN_BYTES}s" * count)


def group_value(group: GroupMetadata) -> bytes:
    parts = [
        b"\x00\x03",
        _string(group.protocol_type),
        _I32.pack(group.generation_id),
        _nullable_string(group.protocol_name),
        _nullable_string(group.leader_id),
        _I64.pack(group.state_timestamp_ms),
        _I32.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _I32.pack(member.rebalance_timeout_ms),
            _I32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def encode(changes: Iterable[Change]) -> list[Record]:
    """The records that say `changes`, in order."""
    records: list[Record] = []
    for change in changes:
        match change:
            case OffsetsPut(group_id, topics):
                for topic, partitions, values in topics:
                    records += map(Record, [offset_key(group_id, topic, p) for p in partitions], values)
            case OffsetsDeleted(group_id, partitions):
                records += (Record(offset_key(group_id, t, p), None) for t, p in partitions)
            case GroupPut(group_id, metadata):
                records.append(Record(group_key(group_id), group_value(metadata)))
            case GroupDeleted(group_id):
                records.append(Record(group_key(group_id), None))
    return records


# -- reading


class _Reader:
    """Reads Kafka's primitives off `data`, in order. Raises CorruptRecordError when they are not there."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def _take(self, layout: Struct) -> int:
        try:
            (value,) = layout.unpack_from(self.data, self.position)
        except StructError:
            raise CorruptRecordError("a number is cut off") from None
        self.position += layout.size
        return int(value)

    def i16(self) -> int:
        return self._take(_I16)

    def i32(self) -> int:
        return self._take(_I32)

    def i64(self) -> int:
        return self._take(_I64)

    def varint(self) -> int:
        value = shift = 0
        while True:
            if self.position >= len(self.data) or shift > 28:
                raise CorruptRecordError("a varint is cut off or too long")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise CorruptRecordError("a field is longer than its record")
        data = self.data[self.position : end]
        self.position = end
        return data

    def nullable_string(self, flexible: bool) -> str | None:
        length = self.varint() - 1 if flexible else self.i16()
        if length == -1:
            return None
        try:
            return self.raw(length).decode()
        except UnicodeDecodeError:
            raise CorruptRecordError("a string is not UTF-8") from None

    def string(self, flexible: bool) -> str:
        text = self.nullable_string(flexible)
        if text is None:
            raise CorruptRecordError("a string is null that must not be")
        return text

    def bytes(self, flexible: bool) -> bytes:
        length = self.varint() - 1 if flexible else self.i32()
        return b"" if length == -1 else self.raw(length)

    def count(self, flexible: bool) -> int:
        count = self.varint() - 1 if flexible else self.i32()
        if not 0 <= count <= len(self.data):
            raise CorruptRecordError("an array has an impossible length")
        return count

    def tags(self, flexible: bool) -> None:
        if flexible:
            for _ in range(self.varint()):
                self.varint()
                self.raw(self.varint())


def record_type(key: bytes) -> int:
    return _Reader(key).i16()


def decode_offset_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition of a key of type 0 or 1."""
    reader = _Reader(key, 2)
    decoded = reader.string(False), reader.string(False), reader.i32()
    if reader.position != len(key):
        raise CorruptRecordError("an offset key is longer than its fields")
    return decoded


def decode_group_key(key: bytes) -> str:
    return _Reader(key, 2).string(False)


def check_offset_value(value: bytes) -> bytes:
    """The same bytes, if they are the value of an offset record. Raises CorruptRecordError."""
    if len(value) != _PLAIN_BYTES or value[:2] != _V3 or value[14:16] != b"\0\0":
        decode_offset_value(value)
    return value


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    if len(value) == _PLAIN_BYTES and value.startswith(_V3):  # nearly all there are
        _, offset, leader_epoch, length, timestamp = _PLAIN_OFFSET.unpack(value)
        if length == 0:
            return OffsetAndMetadata(offset, leader_epoch, "", timestamp)
    reader = _Reader(value)
    version = reader.i16()
    if not 0 <= version <= 4:
        raise CorruptRecordError(f"offset value of unknown version {version}")
    flexible = version >= 4
    offset = reader.i64()
    leader_epoch = reader.i32() if version >= 3 else -1
    metadata = reader.string(flexible)
    commit_timestamp_ms = reader.i64()
    expire_timestamp_ms = reader.i64() if version == 1 else NO_TIMESTAMP
    reader.tags(flexible)
    return OffsetAndMetadata(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)


def decode_group_value(value: bytes) -> GroupMetadata:
    reader = _Reader(value)
    version = reader.i16()
    if not 0 <= version <= 4:
        raise CorruptRecordError(f"group value of unknown version {version}")
    flexible = version >= 4
    protocol_type = reader.string(flexible)
    generation_id = reader.i32()
    protocol_name = reader.nullable_string(flexible)
    leader_id = reader.nullable_string(flexible)
    state_timestamp_ms = reader.i64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_decode_member(reader, version) for _ in range(reader.count(flexible)))
    reader.tags(flexible)
    return GroupMetadata(protocol_type, generation_id, protocol_name, leader_id, state_timestamp_ms, members)


def _decode_member(reader: _Reader, version: int) -> MemberMetadata:
    flexible = version >= 4
    member_id = reader.string(flexible)
    group_instance_id = reader.nullable_string(flexible) if version >= 3 else None
    client_id = reader.string(flexible)
    client_host = reader.string(flexible)
    rebalance_timeout_ms = reader.i32() if version >= 1 else -1
    session_timeout_ms = reader.i32()
    subscription = reader.bytes(flexible)
    assignment = reader.bytes(flexible)
    reader.tags(flexible)
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def decode(key: bytes, value: bytes | None) -> Change | None:
    """What one record says; None for a record type that is not ours."""
    kind = record_type(key)
    if kind in OFFSET_KEY_TYPES:
        group_id, topic, partition = decode_offset_key(key)
        if value is None:
            return OffsetsDeleted(group_id, [(topic, partition)])
        return OffsetsPut(group_id, [StoredOffsets(topic, [partition], [check_offset_value(value)])])
    if kind == GROUP_KEY_TYPE:
        group_id = decode_group_key(key)
        return GroupDeleted(group_id) if value is None else GroupPut(group_id, decode_group_value(value))
    return None


# -- what a consumer's metadata says


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription, or None when it cannot be read.

    Every version begins as version 0 does, so only that much is parsed.
    """
    reader = _Reader(subscription, 2)
    try:
        if record_type(subscription) < 0:
            return None
        return frozenset(reader.string(False) for _ in range(reader.count(False)))
    except CorruptRecordError:
        return None
