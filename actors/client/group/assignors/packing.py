"""Reading and writing the plain (non-flexible) encoding inside subscriptions and assignments."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from actors.client.records import TopicPartition


def pack_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def pack_nullable_bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def pack_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """An array of {topic, partition numbers}, both sorted."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [struct.pack(">i", len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += (pack_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)


class Reader:
    """Reads the fields of `data` from its front. Every method raises ValueError if the data ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._at = 0

    def remaining(self) -> int:
        return len(self._data) - self._at

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else self._take(size).decode()

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ValueError("a string is null")
        return text

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self._take(size)

    def count(self) -> int:
        """An array's length; a length the data cannot hold is refused before anyone allocates for it."""
        count = self.int32()
        if not 0 <= count <= self.remaining():
            raise ValueError(f"an array of {count} elements, but {self.remaining()} bytes are left")
        return count

    def partitions(self) -> list[TopicPartition]:
        found = []
        for _ in range(self.count()):
            topic = self.string()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.count())]
        return found

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError(f"{size} bytes wanted, {self.remaining()} left")
        data = self._data[self._at : end]
        self._at = end
        return data
