"""A group's committed offsets: the value of each partition's last record, as the log has it.

An offset is committed far more often than it is fetched, so it stays bytes until somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern

from actors.coordinator.groups.messages import TopicPartition
from actors.coordinator.groups.offset_records import StoredOffsets


class OffsetTable:
    """Values by topic and partition. It iterates over (topic, partition)."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, bytes]] = {}
        """None of these is empty."""

    def put(self, stored: StoredOffsets) -> None:
        topic, partitions, values = stored
        table = self._topics.get(topic)
        if table is None:
            table = self._topics[intern(topic)] = {}
        table.update(zip(partitions, values))  # noqa: B905, for `strict` costs as much as the rest

    def set(self, at: TopicPartition, value: bytes) -> None:
        self._topics.setdefault(at[0], {})[at[1]] = value

    def get(self, at: TopicPartition) -> bytes | None:
        topic, partition = at
        table = self._topics.get(topic)
        return table.get(partition) if table is not None else None

    def remove(self, at: TopicPartition) -> None:
        """Take a partition's offset out, if there is one."""
        topic, partition = at
        table = self._topics.get(topic)
        if table is not None:
            table.pop(partition, None)
            if not table:
                del self._topics[topic]

    def topics(self) -> frozenset[str]:
        return frozenset(self._topics)

    def items(self) -> Iterator[tuple[TopicPartition, bytes]]:
        for topic, table in self._topics.items():
            for partition, value in table.items():
                yield (topic, partition), value

    def __iter__(self) -> Iterator[TopicPartition]:
        return ((topic, partition) for topic, table in self._topics.items() for partition in table)

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))
