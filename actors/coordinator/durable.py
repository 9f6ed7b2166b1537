"""The durable state of a shard: what its log says up to the high watermark, and nothing else.

Only `replay` changes it. Not here: who is parked, which timers run (group.py), and what has been appended
but not yet committed (writer.py).
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from actors.coordinator.messages import TopicPartition, partition_numbers
from actors.coordinator.offset_table import OffsetTable
from actors.coordinator.records import (
    GROUP_KEY_TYPE,
    OFFSET_KEY_TYPES,
    Change,
    GroupDeleted,
    GroupMetadata,
    GroupPut,
    OffsetsDeleted,
    OffsetsPut,
    StoredOffsets,
    check_offset_value,
    decode,
    decode_offset_key,
    record_type,
)

Records = Iterable[tuple[bytes, bytes | None]]


class PendingOffset(NamedTuple):
    """An offset written in a transaction that is still open."""

    position: int
    value: bytes | None
    """The record's. None once something later has been stored: committing it changes nothing."""


class DurableGroup:
    """A group's last record and its offsets."""

    __slots__ = ("offsets", "orphaned", "pending", "persisted")

    def __init__(self) -> None:
        self.persisted: GroupMetadata | None = None
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

    def topics(self) -> frozenset[str]:
        """The topics of its offsets, those of open transactions included."""
        pending = {topic for offsets in self.pending.values() for topic, _ in offsets}
        return self.offsets.topics() | pending

    def adopt(self, at: TopicPartition) -> None:
        """An offset has been written anew or deleted: no tombstone has left it behind any more."""
        if self.orphaned is not None:
            self.orphaned.discard(at)

    def is_unstable(self, at: TopicPartition) -> bool:
        """Whether an open transaction has written an offset for this partition."""
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

    def replay(self, change: Change) -> None:
        """Apply what records say. A record about something unknown is no error: compaction leaves gaps."""
        group = self._group(change.group_id)
        if type(change) is OffsetsPut:  # the one of them that has to be fast
            for stored in change.topics:
                group.offsets.put(stored)
            if group.orphaned or group.pending:
                for at in change.partitions():
                    group.adopt(at)
                    group.supersede(at, self._position)
            return
        match change:
            case OffsetsDeleted(_, partitions):
                self._delete(group, partitions)
            case GroupPut(_, metadata):
                group.persisted = metadata
            case GroupDeleted():
                group.persisted = None
                group.orphaned = set(group.offsets) or None
        self._drop_if_nothing_is_left(change.group_id, group)

    @staticmethod
    def _delete(group: DurableGroup, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            group.offsets.remove(at)
            group.adopt(at)
            for offsets in group.pending.values():
                offsets.pop(at, None)
        group.pending = {producer: offsets for producer, offsets in group.pending.items() if offsets}

    def replay_transactional(self, producer_id: int, change: Change) -> None:
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


class Loader:
    """Builds a DurableState out of a log: it keeps the last value of each raw key, and decodes those at the end.

    That is three times as fast as decoding every record. It gives the same state, because the order of records with
    different keys matters in two cases only: an offset written before its group's tombstone does not bring the group
    back, and offsets have a second, older type of key. For these, what is left is decoded in the log's order.
    Transactions depend on order throughout; before one, all that was kept so far is decoded.
    """

    __slots__ = ("_positions", "_values", "records", "state", "unknown_records")

    def __init__(self) -> None:
        self.state = DurableState()
        self._values: dict[bytes, bytes | None] = {}
        self._positions: dict[bytes, int] = {}
        self.records = 0
        self.unknown_records = 0

    def add(self, records: Records) -> None:
        """Take the next records of the log, in its order."""
        chunk = list(records)
        start = self.records
        self.records += len(chunk)
        self._values.update(chunk)
        self._positions.update(zip((key for key, _ in chunk), range(start, self.records), strict=True))

    def add_transactional(self, producer_id: int, records: Records) -> None:
        """As `add`, for records of a transaction. Raises CorruptRecordError."""
        self.finish()
        for key, value in records:
            self.records += 1
            change = decode(key, value)
            if change is None:
                self.unknown_records += 1
            else:
                self.state.replay_transactional(producer_id, change)

    def add_marker(self, producer_id: int, committed: bool) -> None:
        """The end of a producer's transaction. Raises CorruptRecordError."""
        self.finish()
        self.state.end_transaction(producer_id, committed)

    def finish(self) -> None:
        """Bring `state` up to date.

        Raises CorruptRecordError when a surviving record of a known type cannot be decoded.
        """
        for change in self._changes():
            self.state.replay(change)
        self._values.clear()
        self._positions.clear()

    def _changes(self) -> Iterator[Change]:
        values = self._values
        keys: Iterable[bytes] = values
        if any(self._needs_order(key, value) for key, value in values.items()):
            keys = sorted(values, key=self._positions.__getitem__)
        for _, run in groupby(keys, key=lambda key: key[:-4]):
            same_prefix = list(run)
            if record_type(same_prefix[0]) in OFFSET_KEY_TYPES:
                yield from self._offset_changes(same_prefix)
                continue
            for key in same_prefix:
                if (change := decode(key, values[key])) is None:
                    self.unknown_records += 1
                else:
                    yield change

    def _offset_changes(self, keys: list[bytes]) -> Iterator[Change]:
        """What the records of one topic of a group say. Their keys differ in the partition only."""
        group_id, topic, _ = decode_offset_key(keys[0])
        there = [(key[-4:], check_offset_value(value)) for key in keys if (value := self._values[key]) is not None]
        if there:
            partitions, values = zip(*there, strict=True)
            yield OffsetsPut(group_id, [StoredOffsets(topic, partition_numbers(partitions), values)])
        gone = [key[-4:] for key in keys if self._values[key] is None]
        if gone:
            yield OffsetsDeleted(group_id, [(topic, partition) for partition in partition_numbers(gone)])

    @staticmethod
    def _needs_order(key: bytes, value: bytes | None) -> bool:
        kind = key[:2]
        return kind == b"\x00\x00" or (value is None and kind == GROUP_KEY_TYPE.to_bytes(2, "big"))
