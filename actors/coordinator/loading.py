"""Builds a coordinator's durable state out of its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Generic, Protocol, TypeVar

from actors.coordinator.records import TYPE_BYTES, Records, RecordType, RecordTypes


class Durable(Protocol):
    """The content of a coordinator's log up to the high watermark. Only these methods change it."""

    def replay(self, change: Any) -> None:
        """Apply what records say. A record about something unknown is no error: compaction leaves gaps."""

    def replay_transactional(self, producer_id: int, change: Any) -> None:
        """As `replay`, for a record of a transaction that is still open."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """A producer's transaction has been committed, or aborted."""


State = TypeVar("State", bound=Durable)


class Loader(Generic[State]):
    """Brings `state` to what a log says: it keeps the last value of each raw key, and decodes those at the end.

    That is three times as fast as decoding every record. It gives the same state, because the order of records with
    different keys matters for few types only (`RecordTypes.need_order`). If one of these is there, what is left is
    decoded in the log's order. Types whose records have an order among themselves alone are decoded last, in that of
    the last record of each key. Transactions depend on order throughout; before one, all that was kept so far is
    decoded.
    """

    __slots__ = ("_positions", "_types", "_values", "records", "state", "unknown_records")

    def __init__(self, state: State, types: RecordTypes) -> None:
        self.state = state
        self._types = types
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
            change = self._types.decode(key, value)
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

    def _changes(self) -> Iterator[Any]:
        values, position = self._values, self._positions.__getitem__
        has_order = self._types.need_order(values)
        keys: Iterable[bytes] = sorted(values, key=position) if has_order else values
        late: dict[int, tuple[RecordType, list[bytes]]] = {}
        for _, run in groupby(keys, key=lambda key: key[:TYPE_BYTES]):
            of_one_type = list(run)
            found = self._types.get(of_one_type[0])
            if found is None:
                self.unknown_records += len(of_one_type)
            elif found.ordered_within and not has_order:
                late.setdefault(found.number, (found, []))[1].extend(of_one_type)
            else:
                yield from found.changes(of_one_type, values)
        for of_its_type, its_keys in late.values():
            yield from of_its_type.changes(sorted(its_keys, key=position), values)
