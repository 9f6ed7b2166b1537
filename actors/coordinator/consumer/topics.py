"""The topics of the cluster, as the host of a shard hands them in; and the hash by which a group notices changes.

An image does not change. When topics have, the host hands in another one (`messages.NoteTopicsRequest`), and groups
that subscribe to what has changed look at it with their next heartbeat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct, pack
from typing import Protocol

from xxhash import xxh3_64_intdigest

_I32 = Struct("<i")
_I64 = Struct("<q")
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that exists."""

    topic_id: bytes
    """Sixteen bytes."""
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()
    """The racks of each partition's replicas, for each broker that has one; empty if no broker has."""
    leaders: tuple[str, ...] = field(default=(), compare=False)
    """The rack of each partition's leader, if assignors are to know; a topic is no other one when it changes."""


class TopicImage(Protocol):
    """All topics at one time."""

    @property
    def version(self) -> int:
        """The version of the cluster's metadata; that of a later image is not smaller, on whatever broker."""

    def names(self) -> Collection[str]:
        """The names of all topics."""

    def named(self, name: str) -> Topic | None:
        """The topic of this name, if there is one."""

    def by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this id, if there is one."""


class Topics:
    """An image made of a list."""

    __slots__ = ("_by_id", "_by_name", "version")

    def __init__(self, topics: Iterable[Topic] = (), version: int = 0) -> None:
        self.version = version
        self._by_name = {each.name: each for each in topics}
        self._by_id = {each.topic_id: each for each in self._by_name.values()}

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def named(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)


def existing(names: Iterable[str], image: TopicImage) -> list[Topic]:
    """Those of the topics that there are."""
    return [topic for name in names if (topic := image.named(name)) is not None]


def group_hash(topics: Iterable[Topic]) -> int:
    """The hash that a group keeps of its topics; 0 of none. Another one says that some topic has changed."""
    hashes = [topic_hash(each) for each in sorted(topics, key=lambda topic: _units(topic.name))]
    return _digest(b"".join(map(_I64.pack, hashes))) if hashes else 0


@lru_cache(maxsize=10_000)
def topic_hash(topic: Topic) -> int:
    """XXH3 of a topic's id, name, partitions and racks, with sign."""
    parts = [b"\0", *_words(topic.topic_id), _text(topic.name), _I32.pack(topic.partitions)]
    if not any(topic.racks):
        parts.append(pack(f"<{topic.partitions}i", *range(topic.partitions)))
        return _digest(b"".join(parts))
    for index, of_replicas in enumerate(topic.racks):
        parts.append(_I32.pack(index))
        parts += (_I32.pack(len(_units(rack)) // 2) + _text(rack) for rack in sorted(of_replicas, key=_units))
    return _digest(b"".join(parts))


def _words(topic_id: bytes) -> tuple[bytes, bytes]:
    return topic_id[:_WORD_BYTES][::-1], topic_id[_WORD_BYTES:][::-1]


def _units(text: str) -> bytes:
    """UTF-16, in whose order Java sorts text."""
    return text.encode("utf-16-be")


def _text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return data + _I32.pack(len(data) // 2)


def _digest(data: bytes) -> int:
    number: int = xxh3_64_intdigest(data)
    return number - (1 << 64) if number >> 63 else number
