"""The durable state of a shard: what its log says up to the high watermark, and nothing else.

Only `replay` changes it. Not here: who is parked, which timers run (group.py), and what has been appended
but not yet committed (writer.py).
"""

from collections.abc import Iterable, Iterator

from actors.coordinator.messages import TopicPartition
from actors.coordinator.records import (
    GROUP_KEY_TYPE,
    OFFSET_KEY_TYPES,
    Change,
    GroupDeleted,
    GroupMetadata,
    GroupPut,
    OffsetAndMetadata,
    OffsetsDeleted,
    OffsetsPut,
    decode,
    decode_offset_key,
    decode_offset_value,
    record_type,
)

Records = Iterable[tuple[bytes, bytes | None]]


class DurableGroup:
    """A group's last record and its offsets."""

    __slots__ = ("offsets", "orphaned", "persisted")

    def __init__(self) -> None:
        self.persisted: GroupMetadata | None = None
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.orphaned: set[TopicPartition] = set()
        """Offsets a group tombstone has left behind: by themselves they do not make a group."""

    @property
    def exists(self) -> bool:
        """A group exists by its record, or by an offset written since it was last deleted.

        Both can be told from the last record of each key and their order, so that compaction changes
        nothing (D-13).
        """
        return self.persisted is not None or len(self.offsets) > len(self.orphaned)


class DurableState:
    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, DurableGroup] = {}

    def get(self, group_id: str) -> DurableGroup | None:
        group = self._groups.get(group_id)
        return group if group is not None and group.exists else None

    def items(self) -> Iterator[tuple[str, DurableGroup]]:
        return ((group_id, group) for group_id, group in self._groups.items() if group.exists)

    def replay(self, change: Change) -> None:
        """Apply what records say. Records about things unknown are no error: compaction leaves gaps."""
        group = self._groups.get(change.group_id)
        if group is None:
            group = self._groups[change.group_id] = DurableGroup()
        match change:
            case OffsetsPut(_, entries):
                group.offsets.update(entries)
                if group.orphaned:
                    group.orphaned.difference_update(partition for partition, _ in entries)
            case OffsetsDeleted(_, partitions):
                for partition in partitions:
                    group.offsets.pop(partition, None)
                group.orphaned.difference_update(partitions)
            case GroupPut(_, metadata):
                group.persisted = metadata
            case GroupDeleted():
                group.persisted = None
                group.orphaned = set(group.offsets)
        if group.persisted is None and not group.offsets:
            del self._groups[change.group_id]


class Loader:
    """Builds a DurableState out of a log: last value per raw key first, then decodes what is left, once.

    That order of work is three times as fast as decoding every record, and it gives the same state,
    because across keys only one thing depends on order: an offset written before its group's tombstone
    does not bring the group back. (A second, legacy key type for offsets is the other reason to sort.)
    """

    __slots__ = ("_positions", "_values", "records", "unknown_records")

    def __init__(self) -> None:
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

    def finish(self) -> DurableState:
        """The state. Raises CorruptRecordError when a surviving record of a known type cannot be decoded."""
        state = DurableState()
        for change in self._changes():
            state.replay(change)
        return state

    def _changes(self) -> Iterator[Change]:
        values = self._values
        keys: Iterable[bytes] = values
        if any(self._needs_order(key, value) for key, value in values.items()):
            keys = sorted(values, key=self._positions.__getitem__)
        names: dict[bytes, tuple[str, str]] = {}
        for key in keys:
            value = values[key]
            kind = record_type(key)
            if kind in OFFSET_KEY_TYPES:
                name = names.get(key[:-4])
                if name is None:
                    group_id, topic, _ = decode_offset_key(key)
                    name = names[key[:-4]] = (group_id, topic)
                at = (name[1], int.from_bytes(key[-4:], "big", signed=True))
                if value is None:
                    yield OffsetsDeleted(name[0], [at])
                else:
                    yield OffsetsPut(name[0], [(at, decode_offset_value(value))])
            elif (change := decode(key, value)) is None:
                self.unknown_records += 1
            else:
                yield change

    @staticmethod
    def _needs_order(key: bytes, value: bytes | None) -> bool:
        kind = key[:2]
        return kind == b"\x00\x00" or (value is None and kind == GROUP_KEY_TYPE.to_bytes(2, "big"))
