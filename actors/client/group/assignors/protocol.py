"""The bytes of the `consumer` embedded protocol: subscriptions and assignments. See `packing` for their pieces."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from actors.client.group.assignors.packing import Reader, pack_nullable_bytes, pack_partitions, pack_string
from actors.client.records import TopicPartition

HIGHEST_VERSION = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's message to the leader: the topics it wants, its partitions and their generation, and its rack.

    Version 1 added what it owns (KIP-429), version 2 the generation (KIP-792), version 3 the rack (KIP-881).
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None

    def encode(self, version: int = HIGHEST_VERSION) -> bytes:
        """The bytes of `version` (0 to 3); later versions only append fields. Raises ValueError for another one."""
        if not 0 <= version <= HIGHEST_VERSION:
            raise ValueError(f"the version of a subscription must be 0 to {HIGHEST_VERSION}, got {version}")
        topics = sorted(self.topics)
        parts = [struct.pack(">hi", version, len(topics)), *map(pack_string, topics)]
        parts.append(pack_nullable_bytes(self.user_data))
        if version >= 1:
            parts.append(pack_partitions(self.owned))
        if version >= 2:
            parts.append(struct.pack(">i", self.generation))
        if version >= 3:
            parts.append(struct.pack(">h", -1) if self.rack is None else pack_string(self.rack))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Subscription:
        """Read versions 0 to 3, and later ones as 3. Raises ValueError on anything malformed."""
        reader = Reader(data)
        version = _version(reader)
        topics = tuple(reader.string() for _ in range(reader.count()))
        user_data = reader.nullable_bytes()
        owned = tuple(reader.partitions()) if version >= 1 else ()
        generation = reader.int32() if version >= 2 else -1
        rack = reader.nullable_string() if version >= 3 else None
        return cls(topics, user_data, owned, generation, rack)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The leader's message to one member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition]) -> Assignment:
        return cls(tuple(sorted(partitions)))

    def encode(self, version: int = HIGHEST_VERSION) -> bytes:
        """The bytes of `version`; the layout is the same in 0 to 3."""
        body = pack_partitions(self.partitions) + pack_nullable_bytes(self.user_data)
        return struct.pack(">h", version) + body

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Read any version. Raises ValueError on anything malformed."""
        reader = Reader(data)
        _version(reader)
        return cls(tuple(reader.partitions()), reader.nullable_bytes())


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise ValueError(f"negative version {version} of the consumer protocol")
    return min(version, HIGHEST_VERSION)
