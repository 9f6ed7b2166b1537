"""The durable state of a shard's groups: what its log says up to the high watermark, and nothing else.

Only `replay` changes it. Not here: parked requests and timers, which live groups have, and changes that have been
appended but not committed (coordinator/writer.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from actors.coordinator.groups.messages import TopicPartition
from actors.coordinator.groups.offset_records import OffsetsDeleted, OffsetsPut
from actors.coordinator.groups.offset_table import OffsetTable
from actors.coordinator.records import Change


class PersistedMember(Protocol):
    """A member, as far as the records of all types name it. A field that a type does not know is empty."""

    @property
    def member_id(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...


class Persisted(Protocol):
    """The content of one type's records of a group, besides its offsets. A value: it does not change.

    Those who read the log to show it (`actors.monitor`) know no more of a type than this, unless they say so.
    """

    @property
    def group_type(self) -> str:
        """Kafka's name of the type."""

    @property
    def protocol_type(self) -> str:
        """As ListGroups shows it; empty if it has none."""

    @property
    def persisted_state(self) -> str:
        """Kafka's name of its state, as far as records tell."""

    @property
    def members(self) -> Sequence[PersistedMember]: ...


class GroupRecords(Protocol):
    """The group that a change is applied to: its records, but for those of its offsets."""

    persisted: Persisted | None
    """The content of its type's records; None if there are none."""

    def end(self) -> None:
        """The group's tombstone was written."""


class GroupChange(Change, Protocol):
    """A change of a group by records of its type."""

    @property
    def group_id(self) -> str: ...

    def apply(self, group: GroupRecords) -> None:
        """Do what the records say. Whoever replays a log calls it, and nobody else."""


class PendingOffset(NamedTuple):
    """An offset written in a transaction that is still open."""

    position: int
    value: bytes | None
    """The record's. None once something later has been stored: committing it changes nothing."""


class DurableGroup:
    """A group's records and its offsets."""

    __slots__ = ("offsets", "orphaned", "pending", "persisted")

    def __init__(self) -> None:
        self.persisted: Persisted | None = None
        """The content of its type's records; None if there are none, as for a group that has offsets alone."""
        self.offsets = OffsetTable()
        self.orphaned: set[TopicPartition] | None = None
        """Offsets a group tombstone has left behind: by themselves they do not make a group. None if there are none."""
        self.pending: dict[int, dict[TopicPartition, PendingOffset]] = {}
        """Offsets of open transactions, by producer id."""

    @property
    def exists(self) -> bool:
        """A group exists by its record, or by an offset written since it was last deleted.

        Both can be told from the last record of each key and their order, so compaction changes nothing.
        """
        return self.persisted is not None or len(self.offsets) > len(self.orphaned or ()) or bool(self.pending)

    def end(self) -> None:
        """The group's tombstone was written. The offsets that are left are orphaned."""
        self.persisted = None
        self.orphaned = set(self.offsets) or None

    def topics(self) -> frozenset[str]:
        """The topics of its offsets, those of open transactions included."""
        pending = {topic for offsets in self.pending.values() for topic, _ in offsets}
        return self.offsets.topics() | pending

    def adopt(self, at: TopicPartition) -> None:
        """An offset has been written anew or deleted: no tombstone has left it behind any more."""
        if self.orphaned is not None:
            self.orphaned.discard(at)

    def is_unstable(self, at: TopicPartition) -> bool:
        """True if an open transaction has written an offset for this partition."""
        return any(at in offsets for offsets in self.pending.values())

    def supersede(self, at: TopicPartition, before: int) -> None:
        """An offset written at `before` is stored now: pending ones from earlier count no more, even if they commit."""
        for offsets in self.pending.values():
            pending = offsets.get(at)
            if pending is not None and pending.position < before:
                offsets[at] = PendingOffset(pending.position, None)


class DurableState:
    __slots__ = ("_groups", "_position")

    def __init__(self) -> None:
        self._groups: dict[str, DurableGroup] = {}
        self._position = 0
        """The number of records replayed, which tells the later of two offsets."""

    def get(self, group_id: str) -> DurableGroup | None:
        group = self._groups.get(group_id)
        return group if group is not None and group.exists else None

    def items(self) -> Iterator[tuple[str, DurableGroup]]:
        return ((group_id, group) for group_id, group in self._groups.items() if group.exists)

    def _group(self, group_id: str) -> DurableGroup:
        self._position += 1
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = DurableGroup()
        return group

    def _drop_if_nothing_is_left(self, group_id: str, group: DurableGroup) -> None:
        if group.persisted is None and not group.offsets and not group.pending:
            del self._groups[group_id]

    def replay(self, change: OffsetsPut | OffsetsDeleted | GroupChange) -> None:
        """Apply what records say. A record about something unknown is no error: compaction leaves gaps."""
        group = self._group(change.group_id)
        if isinstance(change, OffsetsPut):  # the one of them that has to be fast
            for stored in change.topics:
                group.offsets.put(stored)
            if group.orphaned or group.pending:
                for at in change.partitions():
                    group.adopt(at)
                    group.supersede(at, self._position)
            return
        if isinstance(change, OffsetsDeleted):
            self._delete(group, change.partitions)
        else:
            change.apply(group)
        self._drop_if_nothing_is_left(change.group_id, group)

    @staticmethod
    def _delete(group: DurableGroup, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            group.offsets.remove(at)
            group.adopt(at)
            for offsets in group.pending.values():
                offsets.pop(at, None)
        group.pending = {producer: offsets for producer, offsets in group.pending.items() if offsets}

    def replay_transactional(self, producer_id: int, change: OffsetsPut | OffsetsDeleted | GroupChange) -> None:
        """As `replay`, for a record of a transaction: an offset becomes pending."""
        if not isinstance(change, OffsetsPut):
            self.replay(change)
            return
        group = self._group(change.group_id)
        offsets = group.pending.setdefault(producer_id, {})
        for topic, partitions, values in change.topics:
            for partition, value in zip(partitions, values, strict=True):
                offsets[topic, partition] = PendingOffset(self._position, value)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Store the offsets the producer has pending, unless a later one was stored; or drop them if it aborted."""
        for group_id, group in list(self._groups.items()):
            for at, (position, value) in group.pending.pop(producer_id, {}).items():
                if committed and value is not None:
                    group.offsets.set(at, value)
                    group.adopt(at)
                    group.supersede(at, position)
            self._drop_if_nothing_is_left(group_id, group)
