"""What `__consumer_offsets` says of groups, read as Kafka's record format has it. No clock, no I/O.

One `OffsetsPartition` holds what the log of one offsets partition has said so far. Compaction changes nothing of that:
the last record of a key counts. Where a log was cut and written anew, it is read from its beginning (`follower`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from sys import intern

from actors.coordinator.classic.records import GROUP_KEY_TYPE, GroupMetadata, decode_group_key, decode_group_value
from actors.coordinator.groups.offset_records import (
    OFFSET_KEY_TYPES,
    OffsetAndMetadata,
    decode_offset_key,
    decode_offset_value,
)
from actors.coordinator.records import CorruptRecordError, record_type

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class FollowedGroup:
    """A group as the log has it. `metadata` is None for one that only commits. A dead group is not there at all."""

    group_id: str
    metadata: GroupMetadata | None = None
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    commits: int = 0
    """How many offsets it has committed since it was first seen, one for each partition."""

    @property
    def is_gone(self) -> bool:
        """Whether the log has nothing of it any more."""
        return self.metadata is None and not self.offsets

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it has offsets of."""
        return tuple(sorted({topic for topic, _ in self.offsets}))


class OffsetsPartition:
    """The groups of one offsets partition. `position` is the offset to read from next."""

    def __init__(self) -> None:
        self.position = 0
        self.epoch = -1
        """The leader epoch of the record before `position`, -1 if it is not known."""
        self.groups: dict[str, FollowedGroup] = {}
        self.unreadable = 0
        """How many records could not be decoded; they are passed over."""

    def apply(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Take over records in their order. Of several with one key only the last is decoded."""
        pairs = [(key, value) for key, value in records if key is not None]
        times = Counter(key for key, value in pairs if value is not None)
        for key, value in dict(pairs).items():
            try:
                self._apply(key, value, times[key])
            except CorruptRecordError:
                self.unreadable += 1

    def _apply(self, key: bytes, value: bytes | None, times: int) -> None:
        kind = record_type(key)
        if kind in OFFSET_KEY_TYPES:
            group_id, topic, partition = decode_offset_key(key)
            if value is None:
                self._forget_offset(group_id, (topic, partition))
                return
            committed = decode_offset_value(value)
            group = self._group(group_id)
            group.offsets[intern(topic), partition] = committed
            group.commits += times
        elif kind == GROUP_KEY_TYPE:
            group_id = decode_group_key(key)
            metadata = None if value is None else decode_group_value(value)
            if metadata is not None or group_id in self.groups:
                self._group(group_id).metadata = metadata
                self._drop_if_gone(group_id)

    def _group(self, group_id: str) -> FollowedGroup:
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = FollowedGroup(group_id)
        return found

    def _forget_offset(self, group_id: str, tp: TopicPartition) -> None:
        if (group := self.groups.get(group_id)) is not None:
            group.offsets.pop(tp, None)
            self._drop_if_gone(group_id)

    def _drop_if_gone(self, group_id: str) -> None:
        if self.groups[group_id].is_gone:
            del self.groups[group_id]


class OffsetsLog:
    """All offsets partitions that were read so far, by number."""

    def __init__(self) -> None:
        self.partitions: dict[int, OffsetsPartition] = {}

    def __iter__(self) -> Iterator[tuple[int, FollowedGroup]]:
        """The groups, each with its offsets partition."""
        for number, partition in self.partitions.items():
            for group in partition.groups.values():
                yield number, group

    def find(self, group_id: str) -> tuple[int, FollowedGroup] | None:
        """A group and its offsets partition."""
        for number, partition in self.partitions.items():
            if (group := partition.groups.get(group_id)) is not None:
                return number, group
        return None
