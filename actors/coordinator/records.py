"""Records of a coordinator's log, and the registry of their types.

A coordinator decides *changes*. A change says which records stand for it; a `RecordType` says what a record means, the
other way. Kafka's number of the type stands in the first two bytes of each key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from actors import CoterieError

TYPE_BYTES = 2


class CorruptRecordError(CoterieError):
    """A record of a known type cannot be decoded."""


class Record(NamedTuple):
    """Bytes as the log keeps them; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


Records = Iterable[tuple[bytes, bytes | None]]


class Change(Protocol):
    """A change of durable state, by one record or several."""

    @property
    def entity(self) -> str:
        """The id of what changes, for instance of a group."""

    def records(self) -> Iterable[Record]:
        """The records that say so, in order."""


def encode(changes: Iterable[Change]) -> list[Record]:
    """The records that say `changes`, in order."""
    return [record for change in changes for record in change.records()]


def record_type(key: bytes) -> int:
    """The number of the type of a record with this key. Raises CorruptRecordError."""
    if len(key) < TYPE_BYTES:
        raise CorruptRecordError("a record's key is cut off")
    return int.from_bytes(key[:TYPE_BYTES], "big", signed=True)


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of records, with its decoders.

    Loading keeps the last record of each key, so records of different keys lose their order. A type whose records
    count only in their place says so.
    """

    number: int
    decode: Callable[[bytes, bytes | None], Any]
    """The change that a key and its value say. Raises CorruptRecordError."""
    decode_run: Callable[[Sequence[bytes], Mapping[bytes, bytes | None]], Iterator[Any]] | None = None
    """The changes that several keys say, with their values by key, where that is faster than one by one."""
    ordered: bool = False
    """True if its records count only in their place among those of other keys."""
    tombstones_ordered: bool = False
    """True if its tombstones do."""
    ordered_within: bool = False
    """True if its records do among those of the type: of two that speak of the same, the later one counts."""

    @property
    def prefix(self) -> bytes:
        """The first bytes of its records' keys."""
        return self.number.to_bytes(TYPE_BYTES, "big")

    def changes(self, keys: Sequence[bytes], values: Mapping[bytes, bytes | None]) -> Iterator[Any]:
        """The changes that records of this type say, in the order of `keys`. Raises CorruptRecordError."""
        if self.decode_run is not None:
            yield from self.decode_run(keys, values)
        else:
            for key in keys:
                yield self.decode(key, values[key])


class RecordTypes:
    """The record types of one kind of coordinator. Raises ValueError if two have the same number."""

    def __init__(self, types: Iterable[RecordType]) -> None:
        self._types: dict[bytes, RecordType] = {}
        for each in types:
            if each.prefix in self._types:
                raise ValueError(f"two record types have the number {each.number}")
            self._types[each.prefix] = each
        self._ordered = frozenset(prefix for prefix, each in self._types.items() if each.ordered)
        self._ordered_tombstones = self._ordered | {
            prefix for prefix, each in self._types.items() if each.tombstones_ordered
        }

    def get(self, key: bytes) -> RecordType | None:
        """The type of a record with this key; None if it is none of ours. Raises CorruptRecordError."""
        found = self._types.get(key[:TYPE_BYTES])
        if found is None:
            record_type(key)
        return found

    def decode(self, key: bytes, value: bytes | None) -> Any:
        """The change that one record says; None if it is of no type of ours. Raises CorruptRecordError."""
        found = self.get(key)
        return None if found is None else found.decode(key, value)

    def need_order(self, values: Mapping[bytes, bytes | None]) -> bool:
        """True if one of these records, values by key, counts only in its place."""
        ordered, tombstones = self._ordered, self._ordered_tombstones
        return any(key[:TYPE_BYTES] in (ordered if value is not None else tombstones) for key, value in values.items())
