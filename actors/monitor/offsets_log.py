"""The groups as `__consumer_offsets` describes them, read as Kafka's record format has it. No clock, no I/O.

One `OffsetsPartition` holds what the log of one offsets partition has said so far. Compaction changes nothing of that:
the last record of a key counts. Where a log was cut and written anew, it is read from its beginning (`follower`).

The type of a group knows how records describe it (`actors.coordinator.group_types`): a group of any type that has a
room is followed. Records of other types are counted and passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from sys import intern

from actors.coordinator.classic.records import CLASSIC
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.durable import GroupChange, Persisted, PersistedMember
from actors.coordinator.groups.offset_records import (
    OFFSET_KEY_TYPES,
    OffsetAndMetadata,
    decode_offset_key,
    decode_offset_value,
)
from actors.coordinator.records import CorruptRecordError, RecordTypes, record_type

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class FollowedGroup:
    """A group as the log has it. `persisted` is None for one that only commits. A dead group is not there at all."""

    group_id: str
    persisted: Persisted | None = None
    """The content of its type's records."""
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    commits: int = 0
    """The number of offsets it has committed since it was first seen, one for each partition."""

    @property
    def is_gone(self) -> bool:
        """True if the log has nothing of it any more."""
        return self.persisted is None and not self.offsets

    @property
    def group_type(self) -> str:
        """Kafka's name of its type. One that only commits is a classic one."""
        return CLASSIC if self.persisted is None else self.persisted.group_type

    @property
    def protocol_type(self) -> str:
        """As ListGroups shows it; empty if it has none."""
        return "" if self.persisted is None else self.persisted.protocol_type

    @property
    def state(self) -> str:
        """Its state as far as the log tells, by Kafka's names."""
        return "Empty" if self.persisted is None else self.persisted.persisted_state

    @property
    def members(self) -> Sequence[PersistedMember]:
        """Those that its records name."""
        return () if self.persisted is None else self.persisted.members

    def end(self) -> None:
        """Its tombstone was written. Offsets may be left."""
        self.persisted = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it has offsets of."""
        return tuple(sorted({topic for topic, _ in self.offsets}))


class OffsetsPartition:
    """The groups of one offsets partition. `position` is the offset to read from next."""

    def __init__(self, types: RecordTypes = GROUP_RECORDS) -> None:
        self._types = types
        self.position = 0
        self.epoch = -1
        """The leader epoch of the record before `position`, -1 if it is not known."""
        self.groups: dict[str, FollowedGroup] = {}
        self.unreadable = 0
        """The number of records that could not be decoded; they are passed over."""
        self.unknown = 0
        """The number of records of types that this build does not know; they are passed over."""

    def apply(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Take over records in their order. Of several with one key only the last is decoded."""
        pairs = [(key, value) for key, value in records if key is not None]
        times = Counter(key for key, value in pairs if value is not None)
        values = dict(pairs)
        if self._types.need_order(values):
            values = _by_last_place(pairs)
        for key, value in values.items():
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
        elif (change := self._types.decode(key, value)) is None:
            self.unknown += 1
        else:
            self._change(change)

    def _change(self, change: GroupChange) -> None:
        change.apply(self._group(change.group_id))
        self._drop_if_gone(change.group_id)

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


def _by_last_place(pairs: Iterable[tuple[bytes, bytes | None]]) -> dict[bytes, bytes | None]:
    """The last value of each key, in the order of those."""
    values: dict[bytes, bytes | None] = {}
    for key, value in pairs:
        values.pop(key, None)
        values[key] = value
    return values


class OffsetsLog:
    """All offsets partitions that were read so far, by number."""

    def __init__(self) -> None:
        self.partitions: dict[int, OffsetsPartition] = {}

    def __iter__(self) -> Iterator[tuple[int, FollowedGroup]]:
        """The groups, each with its offsets partition."""
        for number, partition in self.partitions.items():
            for group in partition.groups.values():
                yield number, group

    @property
    def unknown(self) -> int:
        """The number of records of types that this build does not know."""
        return sum(each.unknown for each in list(self.partitions.values()))

    def find(self, group_id: str) -> tuple[int, FollowedGroup] | None:
        """A group and its offsets partition."""
        for number, partition in self.partitions.items():
            if (group := partition.groups.get(group_id)) is not None:
                return number, group
        return None
