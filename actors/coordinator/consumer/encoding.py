"""The bytes of a consumer group's records, both ways: keys and values as Kafka 4.4 writes them.

Keys are plain, values flexible: each struct ends with its tagged fields, and those that are not known are passed over.
A tagged field that has its default is not written. The default of the two nullable ones is not null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import pack
from typing import Any

from actors.coordinator.consumer.values import (
    ClassicMetadata,
    Current,
    Held,
    MemberMetadata,
    MemberState,
    Partitions,
    Resolved,
)
from actors.coordinator.record_fields import I16, I32, I64, FieldReader, string, uvarint
from actors.coordinator.records import CorruptRecordError

_VERSION_0 = I16.pack(0)
_NO_TAGS = b"\0"
_NULL = b"\0"
_ID_BYTES = 16
_KNOWN_STATES = {int(state): state for state in MemberState}


# -- pieces


def _bytes(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def _string(text: str) -> bytes:
    return _bytes(text.encode())


def _nullable(text: str | None) -> bytes:
    return _NULL if text is None else _string(text)


def _array(items: Iterable[bytes]) -> bytes:
    made = list(items)
    return uvarint(len(made) + 1) + b"".join(made)


def _strings(texts: Iterable[str]) -> bytes:
    return _array(map(_string, sorted(texts)))


def _numbers(numbers: Sequence[int]) -> bytes:
    return uvarint(len(numbers) + 1) + pack(f">{len(numbers)}i", *numbers)


def _tag_0(data: bytes) -> bytes:
    """A section of tagged fields that has the first one."""
    return b"\1\0" + uvarint(len(data)) + data


def _open(value: bytes) -> FieldReader:
    reader = FieldReader(value)
    version = reader.i16()
    if version != 0:
        raise CorruptRecordError(f"a value of unknown version {version}")
    return reader


def _list(reader: FieldReader, read: Callable[[FieldReader], Any]) -> list[Any]:
    return [read(reader) for _ in range(reader.count(True))]


def _read_string(reader: FieldReader) -> str:
    return reader.string(True)


# -- keys


def key(number: int, *texts: str) -> bytes:
    """The key of a record of this type: the group's id, and what else there is."""
    return I16.pack(number) + b"".join(map(string, texts))


def read_key(data: bytes, fields: int) -> tuple[str, ...]:
    """The fields of a key. Raises CorruptRecordError."""
    reader = FieldReader(data, I16.size)
    return tuple(reader.string(False) for _ in range(fields))


# -- epochs of the group


def epoch_value(epoch: int, tagged: int) -> bytes:
    """The value of record 3, whose tag is the metadata's hash, or of record 6, whose tag is a timestamp."""
    tags = _tag_0(I64.pack(tagged)) if tagged else _NO_TAGS
    return _VERSION_0 + I32.pack(epoch) + tags


def read_epoch(value: bytes) -> tuple[int, int]:
    """The epoch, and the tagged number; 0 if that is not there."""
    reader = _open(value)
    epoch = reader.i32()
    tag = reader.tagged().get(0)
    return epoch, 0 if tag is None else FieldReader(tag).i64()


# -- the topics as brokers before 4.1 kept them


def topics_value(topics: Iterable[tuple[bytes, str, int]]) -> bytes:
    """The value of record 4: id, name and number of partitions, without racks."""
    each = [topic_id + _string(name) + I32.pack(count) + b"\1" + _NO_TAGS for topic_id, name, count in topics]
    return _VERSION_0 + _array(each) + _NO_TAGS


def read_topics(value: bytes) -> tuple[tuple[bytes, str, int], ...]:
    """Id, name and number of partitions of each topic. Racks are passed over."""
    reader = _open(value)
    topics = tuple(_list(reader, _read_topic))
    reader.tagged()
    return topics


def _read_topic(reader: FieldReader) -> tuple[bytes, str, int]:
    topic = reader.raw(_ID_BYTES), reader.string(True), reader.i32()
    _list(reader, _pass_racks)
    reader.tagged()
    return topic


def _pass_racks(reader: FieldReader) -> None:
    reader.i32()
    _list(reader, _read_string)
    reader.tagged()


# -- members


def member_value(member: MemberMetadata) -> bytes:
    """The value of record 5. The instance id comes before the rack."""
    return b"".join(
        (
            _VERSION_0,
            _nullable(member.instance_id),
            _nullable(member.rack_id),
            _string(member.client_id),
            _string(member.client_host),
            _strings(member.names),
            _string(member.regex),
            I32.pack(member.rebalance_timeout_ms),
            _nullable(member.assignor),
            _tag_0(_NULL if member.classic is None else _classic(member.classic)),
        )
    )


def _classic(classic: ClassicMetadata) -> bytes:
    protocols = [_string(name) + _bytes(metadata) + _NO_TAGS for name, metadata in classic.protocols]
    return b"\1" + I32.pack(classic.session_timeout_ms) + _array(protocols) + _NO_TAGS


def read_member(value: bytes) -> MemberMetadata:
    """The content of a record 5. A regex of null is as good as none."""
    reader = _open(value)
    instance_id, rack_id = reader.nullable_string(True), reader.nullable_string(True)
    client_id, client_host = reader.string(True), reader.string(True)
    names = frozenset(_list(reader, _read_string))
    regex = reader.nullable_string(True) or ""
    rebalance_timeout_ms = reader.i32()
    assignor = reader.nullable_string(True)
    classic = _read_classic(reader.tagged().get(0))
    return MemberMetadata(
        client_id, client_host, instance_id, rack_id, names, regex, rebalance_timeout_ms, assignor, classic
    )


def _read_classic(tag: bytes | None) -> ClassicMetadata | None:
    """Without the tag Kafka reads a classic member that has nothing; nobody is one, so it is read as none here."""
    if tag is None or not FieldReader(tag).varint():
        return None
    reader = FieldReader(tag, 1)
    classic = ClassicMetadata(reader.i32(), tuple(_list(reader, _read_protocol)))
    return None if classic == ClassicMetadata() else classic


def _read_protocol(reader: FieldReader) -> tuple[str, bytes]:
    protocol = reader.string(True), reader.bytes(True)
    reader.tagged()
    return protocol


# -- targets, and what members hold


def target_value(target: Partitions) -> bytes:
    """The value of record 7."""
    topics = [topic_id + _numbers(sorted(partitions)) + _NO_TAGS for topic_id, partitions in sorted(target.items())]
    return _VERSION_0 + _array(topics) + _NO_TAGS


def read_target(value: bytes) -> dict[bytes, frozenset[int]]:
    """The content of a record 7."""
    reader = _open(value)
    target = {topic_id: frozenset(numbers) for topic_id, numbers, _ in _list(reader, _read_partitions)}
    reader.tagged()
    return target


def _read_partitions(reader: FieldReader) -> tuple[bytes, list[int], dict[int, bytes]]:
    return reader.raw(_ID_BYTES), _list(reader, FieldReader.i32), reader.tagged()


def current_value(current: Current) -> bytes:
    """The value of record 8."""
    return b"".join(
        (
            _VERSION_0,
            I32.pack(current.epoch),
            I32.pack(current.previous_epoch),
            bytes((current.state,)),
            _held(current.assigned),
            _held(current.pending),
            _NO_TAGS,
        )
    )


def _held(held: Held) -> bytes:
    return _array(topic_id + _held_topic(partitions) for topic_id, partitions in sorted(held.items()))


def _held_topic(partitions: Mapping[int, int]) -> bytes:
    ordered = sorted(partitions)
    return _numbers(ordered) + _tag_0(_numbers([partitions[each] for each in ordered]))


def read_current(value: bytes) -> Current:
    """The content of a record 8."""
    reader = _open(value)
    epoch, previous_epoch = reader.i32(), reader.i32()
    state = _KNOWN_STATES.get(reader.raw(1)[0], MemberState.UNKNOWN)
    assigned, pending = _read_held(reader, epoch), _read_held(reader, epoch)
    reader.tagged()
    return Current(epoch, previous_epoch, state, assigned, pending)


def _read_held(reader: FieldReader, epoch: int) -> dict[bytes, dict[int, int]]:
    held = {}
    for topic_id, numbers, tags in _list(reader, _read_partitions):
        epochs = _read_epochs(tags.get(0))
        if len(epochs) != len(numbers):
            epochs = [max(epoch, 0)] * len(numbers)
        held[topic_id] = dict(zip(numbers, epochs, strict=True))
    return held


def _read_epochs(tag: bytes | None) -> list[int]:
    if tag is None or not FieldReader(tag).varint():
        return []
    return _list(FieldReader(tag), FieldReader.i32)


# -- regular expressions


def regex_value(resolved: Resolved) -> bytes:
    """The value of record 16."""
    numbers = I64.pack(resolved.version) + I64.pack(resolved.timestamp_ms)
    return _VERSION_0 + _strings(resolved.topics) + numbers + _NO_TAGS


def read_regex(value: bytes) -> Resolved:
    """The content of a record 16."""
    reader = _open(value)
    resolved = Resolved(frozenset(_list(reader, _read_string)), reader.i64(), reader.i64())
    reader.tagged()
    return resolved
