"""The consumer protocol that clients embed in the classic one: what a member subscribes to, and what it is assigned.

A later version than known here is read as the last one that is; each version begins as the ones before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from actors.coordinator.consumer.topics import TopicImage
from actors.coordinator.record_fields import I16, I32, FieldReader, string
from actors.coordinator.records import CorruptRecordError

CONSUMERS: Final = "consumer"
"""The protocol type of classic groups whose members embed it."""

LAST: Final = 3
_OWNED_FROM, _GENERATION_FROM, _RACK_FROM = 1, 2, 3
_NULL = I32.pack(-1)

Named = Mapping[str, frozenset[int]]
"""Partitions by the names of their topics."""


class Subscription(NamedTuple):
    """A member's subscription, as it sends it when it joins."""

    version: int
    topics: frozenset[str]
    owned: Named = {}
    """The partitions that it has; none in version 0, and of members that give everything up before they join."""
    rack_id: str | None = None


class Assignment(NamedTuple):
    """A member's assignment, made by a leader."""

    partitions: Named = {}
    user_data: bytes = b""
    """The message of the leader's assignor to the member's."""


def read_subscription(data: bytes) -> Subscription:
    """Raises CorruptRecordError."""
    reader = FieldReader(data)
    version = _version(reader)
    topics = frozenset(reader.string(False) for _ in range(reader.count(False)))
    reader.bytes(False)
    owned = _read_partitions(reader) if version >= _OWNED_FROM else {}
    if version >= _GENERATION_FROM:
        reader.i32()
    rack_id = reader.nullable_string(False) if version >= _RACK_FROM else None
    return Subscription(version, topics, owned, rack_id)


def read_version(data: bytes) -> int:
    """The version of what a member says. Raises CorruptRecordError."""
    return _version(FieldReader(data))


def read_assignment(data: bytes) -> Assignment:
    """Raises CorruptRecordError. No bytes at all are an assignment of nothing, of a member that has just come."""
    if not data:
        return Assignment()
    reader = FieldReader(data)
    _version(reader)
    return Assignment(_read_partitions(reader), reader.bytes(False))


def assignment(version: int, partitions: Named) -> bytes:
    """The bytes of an assignment, without user data."""
    return I16.pack(version) + _partitions(partitions) + _NULL


def owning(subscription: bytes, partitions: Named) -> bytes:
    """A subscription that says the member owns these, and else what it said before. Raises CorruptRecordError."""
    reader = FieldReader(subscription)
    version = _version(reader)
    for _ in range(reader.count(False)):
        reader.string(False)
    reader.bytes(False)
    begin = reader.position
    if version >= _OWNED_FROM:
        _read_partitions(reader)
    else:
        reader.position = len(subscription)
    first = I16.pack(_OWNED_FROM) if version < _OWNED_FROM else subscription[: I16.size]
    return first + subscription[I16.size : begin] + _partitions(partitions) + subscription[reader.position :]


def _partitions(partitions: Named) -> bytes:
    topics = [
        string(name) + I32.pack(len(numbers)) + b"".join(map(I32.pack, sorted(numbers)))
        for name, numbers in sorted(partitions.items())
    ]
    return I32.pack(len(topics)) + b"".join(topics)


def held(subscription: bytes) -> bytes:
    """The partitions that a member says it owns, as an assignment. Raises CorruptRecordError."""
    said = read_subscription(subscription)
    return assignment(said.version, said.owned)


def _version(reader: FieldReader) -> int:
    version = reader.i16()
    if version < 0:
        raise CorruptRecordError(f"the embedded protocol has version {version}")
    return min(version, LAST)


def _read_partitions(reader: FieldReader) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for _ in range(reader.count(False)):
        name = reader.string(False)
        numbers = frozenset(reader.i32() for _ in range(reader.count(False)))
        if numbers:
            found[name] = found.get(name, frozenset()) | numbers
    return found


# -- names and ids


def by_id(partitions: Named, image: TopicImage) -> dict[bytes, frozenset[int]]:
    """The partitions by topic ids, of topics that exist."""
    topics = ((image.named(name), numbers) for name, numbers in partitions.items())
    return {topic.topic_id: numbers for topic, numbers in topics if topic is not None}


def by_name(partitions: Mapping[bytes, Iterable[int]], image: TopicImage) -> dict[str, frozenset[int]]:
    """The partitions by names, of topics that exist."""
    topics = ((image.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    return {topic.name: frozenset(numbers) for topic, numbers in topics if topic is not None}
