"""The user data of the sticky strategies: what a member owned, and in which generation."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from actors.client.group.assignors.packing import Reader, pack_partitions
from actors.client.records import TopicPartition


def pack_sticky(owned: Iterable[TopicPartition], generation: int) -> bytes:
    """Version 1 of sticky's user data: the partitions, then the generation."""
    return pack_partitions(owned) + struct.pack(">i", generation)


def unpack_sticky(data: bytes | None) -> tuple[list[TopicPartition], int]:
    """Partitions and generation (-1 in version 0, which has none). Data that cannot be read claim nothing."""
    if not data:
        return [], -1
    try:
        reader = Reader(data)
        owned = reader.partitions()
        return owned, reader.int32() if reader.remaining() >= 4 else -1
    except ValueError:
        # Another client's idea of user data must not stop the whole group.
        return [], -1


def pack_cooperative(generation: int) -> bytes:
    return struct.pack(">i", generation)


def unpack_cooperative(data: bytes | None) -> int:
    return int(struct.unpack_from(">i", data)[0]) if data and len(data) >= 4 else -1
