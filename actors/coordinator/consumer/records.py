"""The records of consumer groups: what each says of a group, and how it is read.

A value of None is a tombstone. Types 9 to 15 belong to other types of group; 4 is read, and deleted, but not written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from actors.coordinator.consumer import encoding
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.values import Current, MemberMetadata, Partitions, Resolved, count_of
from actors.coordinator.groups.durable import GroupRecords
from actors.coordinator.records import Record, RecordType


@dataclass(frozen=True, slots=True)
class GroupRecord(ABC):
    """One record of a consumer group."""

    number: ClassVar[int]
    group_id: str

    @property
    def entity(self) -> str:
        return self.group_id

    @property
    @abstractmethod
    def is_tombstone(self) -> bool: ...

    def key_fields(self) -> tuple[str, ...]:
        """The fields of its key."""
        return (self.group_id,)

    @abstractmethod
    def value(self) -> bytes:
        """The bytes of its value, if it is no tombstone."""

    @abstractmethod
    def change(self, state: ConsumerState) -> None:
        """Do to a group that is there what it says."""

    @property
    def size(self) -> int:
        """The number of its partitions or names, which is about what it costs."""
        return 0

    def records(self) -> list[Record]:
        return [Record(encoding.key(self.number, *self.key_fields()), None if self.is_tombstone else self.value())]

    def apply(self, group: GroupRecords) -> None:
        """A tombstone of what is not there, or is another type's by now, says nothing."""
        state = group.persisted
        if not isinstance(state, ConsumerState):
            if self.is_tombstone:
                return
            state = group.persisted = ConsumerState()
        self.change(state)


@dataclass(frozen=True, slots=True)
class GroupEpoch(GroupRecord):
    """Type 3. Its tombstone ends the group, with whatever is left of it."""

    number = 3
    epoch: int | None = None
    metadata_hash: int = 0

    @property
    def is_tombstone(self) -> bool:
        return self.epoch is None

    def value(self) -> bytes:
        assert self.epoch is not None
        return encoding.epoch_value(self.epoch, self.metadata_hash)

    def change(self, state: ConsumerState) -> None:
        assert self.epoch is not None
        state.put_group_epoch(self.epoch, self.metadata_hash)

    def apply(self, group: GroupRecords) -> None:
        if not self.is_tombstone:
            GroupRecord.apply(self, group)
        elif isinstance(group.persisted, ConsumerState):
            group.end()


@dataclass(frozen=True, slots=True)
class LegacyTopics(GroupRecord):
    """Type 4, of brokers before 4.1: id, name and number of partitions of each topic."""

    number = 4
    topics: tuple[tuple[bytes, str, int], ...] | None = None

    @property
    def is_tombstone(self) -> bool:
        return self.topics is None

    def value(self) -> bytes:
        return encoding.topics_value(self.topics or ())

    def change(self, state: ConsumerState) -> None:
        state.has_legacy_topics = not self.is_tombstone


@dataclass(frozen=True, slots=True)
class MemberRecord(GroupRecord):
    """Type 5: what a member has said of itself. Its tombstone removes the member."""

    number = 5
    member_id: str
    metadata: MemberMetadata | None = None

    @property
    def size(self) -> int:
        return 0 if self.metadata is None else len(self.metadata.names)

    @property
    def is_tombstone(self) -> bool:
        return self.metadata is None

    def key_fields(self) -> tuple[str, ...]:
        return self.group_id, self.member_id

    def value(self) -> bytes:
        assert self.metadata is not None
        return encoding.member_value(self.metadata)

    def change(self, state: ConsumerState) -> None:
        state.put_metadata(self.member_id, self.metadata)


@dataclass(frozen=True, slots=True)
class AssignmentEpoch(GroupRecord):
    """Type 6: the group epoch that the targets are of, and when they were computed."""

    number = 6
    epoch: int | None = None
    timestamp_ms: int = 0

    @property
    def is_tombstone(self) -> bool:
        return self.epoch is None

    def value(self) -> bytes:
        assert self.epoch is not None
        return encoding.epoch_value(self.epoch, self.timestamp_ms)

    def change(self, state: ConsumerState) -> None:
        state.put_assignment_epoch(self.epoch, self.timestamp_ms)


@dataclass(frozen=True, slots=True)
class TargetAssignment(GroupRecord):
    """Type 7: the partitions that the assignor wants a member to have."""

    number = 7
    member_id: str
    target: Partitions | None = None

    @property
    def size(self) -> int:
        return 0 if self.target is None else count_of(self.target)

    @property
    def is_tombstone(self) -> bool:
        return self.target is None

    def key_fields(self) -> tuple[str, ...]:
        return self.group_id, self.member_id

    def value(self) -> bytes:
        return encoding.target_value(self.target or {})

    def change(self, state: ConsumerState) -> None:
        state.put_target(self.member_id, self.target)


@dataclass(frozen=True, slots=True)
class CurrentAssignment(GroupRecord):
    """Type 8: what a member holds, and its epochs."""

    number = 8
    member_id: str
    current: Current | None = None

    @property
    def size(self) -> int:
        return 0 if self.current is None else count_of(self.current.assigned) + count_of(self.current.pending)

    @property
    def is_tombstone(self) -> bool:
        return self.current is None

    def key_fields(self) -> tuple[str, ...]:
        return self.group_id, self.member_id

    def value(self) -> bytes:
        assert self.current is not None
        return encoding.current_value(self.current)

    def change(self, state: ConsumerState) -> None:
        state.put_current(self.member_id, self.current)


@dataclass(frozen=True, slots=True)
class ResolvedRegex(GroupRecord):
    """Type 16: the topics that a regular expression matches."""

    number = 16
    regex: str
    resolved: Resolved | None = None

    @property
    def is_tombstone(self) -> bool:
        return self.resolved is None

    def key_fields(self) -> tuple[str, ...]:
        return self.group_id, self.regex

    def value(self) -> bytes:
        assert self.resolved is not None
        return encoding.regex_value(self.resolved)

    def change(self, state: ConsumerState) -> None:
        state.put_resolved(self.regex, self.resolved)


def tombstones(group_id: str, state: ConsumerState) -> list[GroupRecord]:
    """The records that remove a group, with whatever is left of it."""
    return [
        *(CurrentAssignment(group_id, each) for each in state.current),
        *(TargetAssignment(group_id, each) for each in state.targets),
        AssignmentEpoch(group_id),
        *(MemberRecord(group_id, each) for each in state.metadata),
        *(ResolvedRegex(group_id, each) for each in state.resolved),
        LegacyTopics(group_id),
        GroupEpoch(group_id),
    ]


def _read_group_epoch(key: bytes, value: bytes | None) -> GroupEpoch:
    (group_id,) = encoding.read_key(key, 1)
    return GroupEpoch(group_id) if value is None else GroupEpoch(group_id, *encoding.read_epoch(value))


def _read_legacy(key: bytes, value: bytes | None) -> LegacyTopics:
    (group_id,) = encoding.read_key(key, 1)
    return LegacyTopics(group_id, None if value is None else encoding.read_topics(value))


def _read_member(key: bytes, value: bytes | None) -> MemberRecord:
    group_id, member_id = encoding.read_key(key, 2)
    return MemberRecord(group_id, member_id, None if value is None else encoding.read_member(value))


def _read_assignment_epoch(key: bytes, value: bytes | None) -> AssignmentEpoch:
    (group_id,) = encoding.read_key(key, 1)
    return AssignmentEpoch(group_id) if value is None else AssignmentEpoch(group_id, *encoding.read_epoch(value))


def _read_target(key: bytes, value: bytes | None) -> TargetAssignment:
    group_id, member_id = encoding.read_key(key, 2)
    return TargetAssignment(group_id, member_id, None if value is None else encoding.read_target(value))


def _read_current(key: bytes, value: bytes | None) -> CurrentAssignment:
    group_id, member_id = encoding.read_key(key, 2)
    return CurrentAssignment(group_id, member_id, None if value is None else encoding.read_current(value))


def _read_regex(key: bytes, value: bytes | None) -> ResolvedRegex:
    group_id, regex = encoding.read_key(key, 2)
    return ResolvedRegex(group_id, regex, None if value is None else encoding.read_regex(value))


CONSUMER_RECORDS = (
    # A group that ends takes all with it that was written before, and leaves its offsets without a group.
    RecordType(3, _read_group_epoch, tombstones_ordered=True),
    RecordType(4, _read_legacy),
    RecordType(5, _read_member, ordered_within=True),  # the newest to name an instance id has it
    RecordType(6, _read_assignment_epoch),
    RecordType(7, _read_target),
    RecordType(8, _read_current, ordered_within=True),  # the newest to name a partition owns it
    RecordType(16, _read_regex),
)
