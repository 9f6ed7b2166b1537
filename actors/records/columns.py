"""The fields of all records of payloads at once, by array arithmetic: no record becomes a Python object.

Only the lengths in front of the records are followed one by one, and not even these where successive records are
equally long. Then each field is read of all records at once. Arrays let go of the interpreter's lock, so that a thread
that reads a large batch holds up no other for long. For a few records `rows` is faster.

A varint of a length, an offset or a count has at most five bytes, one of a time at most ten (Kafka's ByteUtils).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from actors.records.batch import BatchHeader, Plain
from actors.records.errors import CorruptBatchError
from actors.records.rows import Row, header_end
from actors.records.summary import ATTRIBUTES_MAX, LONG_MAX, LONG_MIN, Summary, without_length

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

RECORD_BYTES_MIN: Final = 7
"""A record without key, value and headers: its length, its attributes, and five fields of a byte."""

_RUN_FIRST, _RUN_WORTH = 64, 16
_RUN_TRIED = 4096  # at first, when nothing is known of the lengths
_WALK_FIRST, _WALK_MOST = 64, 4096
_FEW_HEADERS = 64
_INT_BYTES, _LONG_BYTES = 5, 10
_SLICE = 1 << 16
# The signed numbers that bytes are, one each.
_128 = np.int64(128)
_OF_ONE_BYTE = (np.arange(256) >> 1) ^ -(np.arange(256) & 1)


@dataclass(frozen=True, slots=True)
class Columns:
    """The places of records' fields in a buffer, and the values of the short ones: a `rows.Row` of each, by column."""

    starts: Ints
    ends: Ints
    attributes: Bytes
    time_deltas: Ints
    offset_deltas: Ints
    bodies: Ints
    key_starts: Ints
    key_sizes: Ints
    value_starts: Ints
    value_sizes: Ints
    header_starts: Ints
    header_counts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def check_headers(self, data: Plain) -> None:
        """Raises CorruptBatchError unless the headers of each record fill it, and have names. Any bytes are a name."""
        left = self.header_counts
        open_ = np.flatnonzero(left)
        left, ends = left[open_], self.ends[open_]
        reader = _Fields(np.frombuffer(data, np.uint8), self.header_starts[open_])
        while len(left) >= _FEW_HEADERS:
            _, sizes = reader.span()
            if (sizes < 0).any():
                raise CorruptBatchError("a header has no name")
            reader.span()
            left = left - 1
            if ((reader.at > ends) | ((left == 0) & (reader.at != ends))).any():
                raise CorruptBatchError("the headers of a record do not fill it")
            more = np.flatnonzero(left)
            left, ends, reader.at = left[more], ends[more], reader.at[more]
        for at, count, end in zip(reader.at.tolist(), left.tolist(), ends.tolist(), strict=True):
            if header_end(data, at, count, end) != end:
                raise CorruptBatchError("the headers of a record do not fill it")

    def summary(self, first: int, untimed: int) -> Summary:
        """As `summary.summary_of`; the first of these records is the batch's record number `first`."""
        times = self.time_deltas
        if LONG_MIN <= untimed <= LONG_MAX:
            times = times[times != untimed]
        return Summary(
            in_order=bool((self.offset_deltas == np.arange(first, first + len(self))).all()),
            readable=bool((self.attributes <= ATTRIBUTES_MAX).all()),
            keyless=bool((self.key_sizes < 0).any()),
            earliest=int(times.min()) if len(times) else None,
            latest=int(times.max()) if len(times) else None,
            longest=without_length(int((self.ends - self.starts).max())),
        )

    def first_at_or_after(self, header: BatchHeader, timestamp_ms: int, low: int, high: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record at or after a time, with an offset in low..high-1."""
        offsets = header.base_offset + self.offset_deltas
        times = header.first_timestamp + self.time_deltas
        if header.is_log_append_time:
            times = np.full(len(self), header.max_timestamp)
        found = (times >= timestamp_ms) & (offsets >= low) & (offsets < high)
        if not found.any():
            return None
        at = int(found.argmax())
        return int(offsets[at]), int(times[at])


_FIELDS: Final = tuple(each.name for each in fields(Columns))


def record_starts(data: Plain, begin: int, end: int, count: int) -> Ints:
    """The positions of the lengths of the records between `begin` and `end`, which must fill that exactly."""
    try:
        return _record_starts(data, begin, end, count)
    except IndexError:
        raise _cut_off() from None


def _record_starts(data: Plain, begin: int, end: int, count: int) -> Ints:
    left = count
    if not 0 <= left <= (end - begin) // RECORD_BYTES_MIN:
        raise CorruptBatchError(f"{left} records in {end - begin} bytes")
    numbers = np.frombuffer(data, np.uint8)
    found: list[Ints] = []
    reach, walk = _RUN_TRIED, _WALK_FIRST
    while left:
        if left >= _RUN_WORTH:
            some, begin = _run(data, numbers, begin, end, min(left, reach))
            left -= len(some)
            found.append(some)
            if len(some) >= _RUN_WORTH:
                reach = len(some) * 16
                walk = _WALK_FIRST
                continue
        if left:
            # While lengths differ, runs are looked for less and less often.
            some, begin = _walk(data, begin, end, min(left, walk))
            left -= len(some)
            found.append(some)
            reach, walk = _RUN_FIRST, min(walk * 2, _WALK_MOST)
    if begin != end:
        raise CorruptBatchError(f"{count} records do not fill their batch: {end - begin} bytes are left")
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _run(data: Plain, numbers: Bytes, begin: int, end: int, most: int) -> tuple[Ints, int]:
    """The starts of the records from `begin` on that are as long as the first, and where these records end."""
    first = data[begin]
    if first < 128:
        size, wide = (first >> 1) + 1, False
    else:
        second = data[begin + 1]
        if second >= 128:
            return np.empty(0, np.int64), begin
        size, wide = ((first & 127 | second << 7) >> 1) + 2, True
    count = min(most, (end - begin) // size)
    if first & 1 or not count:
        return np.empty(0, np.int64), begin
    starts = np.arange(begin, begin + count * size, size, dtype=np.int64)
    same = numbers[starts] == first
    if wide:
        same &= numbers[starts + 1] == data[begin + 1]
    if not same.all():
        starts = starts[: int(same.argmin())]
    return starts, begin + len(starts) * size


def _walk(data: Plain, begin: int, end: int, count: int) -> tuple[Ints, int]:
    """The starts of the next `count` records, found one after the other, and where these records end."""
    starts: list[int] = []
    add = starts.append
    at = begin
    for _ in range(count):
        add(at)
        if at >= end:
            raise _cut_off()
        byte = data[at]
        if byte < 128:
            at += (byte >> 1) + 1
            continue
        second = data[at + 1]
        if second < 128:
            at += ((byte & 127 | second << 7) >> 1) + 2
            continue
        value, shift = byte & 127, 0
        while byte >= 128:
            at, shift = at + 1, shift + 7
            if shift > 28:
                raise CorruptBatchError("the length of a record has more than five bytes")
            byte = data[at]
            value |= (byte & 127) << shift
        at += (value >> 1) + 1
    if at > end:
        raise _cut_off()
    return np.array(starts, np.int64), at


def _cut_off() -> CorruptBatchError:
    return CorruptBatchError("a record is cut off")


def sliced(payload: Plain, count: int) -> Iterator[tuple[int, Columns]]:
    """The `count` records that fill a payload, so many at a time that their arrays stay in the processor's cache.

    Of each slice: the number of its first record, and the columns. Headers are not checked.
    """
    starts = record_starts(payload, 0, len(payload), count)
    for first in range(0, count, _SLICE):
        yield first, columns_at(payload, starts[first : first + _SLICE])


def rows(payload: Plain, count: int) -> Iterator[Row]:
    """`rows.read_rows`, for many records."""
    for _, columns in sliced(payload, count):
        columns.check_headers(payload)
        yield from map(Row._make, zip(*(getattr(columns, name).tolist() for name in _FIELDS), strict=True))


def columns_at(data: Plain, starts: Ints) -> Columns:
    """The fields of the records that begin at `starts`, checked but for what their headers hold."""
    reader = _Fields(np.frombuffer(data, np.uint8), starts)
    length = reader.varint(_INT_BYTES)
    ends = reader.at + length
    attributes = reader.byte()
    time_deltas, offset_deltas = reader.varint(_LONG_BYTES), reader.varint(_INT_BYTES)
    bodies = reader.at
    keys = reader.span()
    values = reader.span()
    counts = reader.varint(_INT_BYTES)
    left = ends - reader.at
    # A header has at least two bytes; without headers nothing may follow.
    if len(ends) and ((counts < 0) | (left < 2 * counts) | ((counts == 0) & (left != 0))).any():
        raise CorruptBatchError("the fields of a record do not fill it")
    return Columns(starts, ends, attributes, time_deltas, offset_deltas, bodies, *keys, *values, reader.at, counts)


class _Fields:
    """Reads the fields of all records at once, one field after the other; `at` is where the next one begins in each."""

    __slots__ = ("at", "data")

    def __init__(self, data: Bytes, at: Ints) -> None:
        self.data = data
        self.at = at

    def byte(self) -> Bytes:
        found = self._bytes(self.at)
        self.at = self.at + 1
        return found

    def varint(self, most_bytes: int) -> Ints:
        """Read a signed (zigzag) varint of up to `most_bytes` from each record."""
        first = self._bytes(self.at)
        two = first > 127
        if not two.any():
            self.at = self.at + 1
            return _OF_ONE_BYTE[first]
        # Behind the last byte the last is read again: then the field ends behind its record, which is noticed.
        second = self.data.take(self.at + 1, mode="clip") * two
        if second.max() > 127:
            return self._long_varint(first, most_bytes)
        self.at = self.at + 1 + two
        value = (first & 127) + second * _128
        return (value >> 1) ^ -(value & 1)

    def _long_varint(self, first: Bytes, most_bytes: int) -> Ints:
        at = self.at + 1
        longer = np.flatnonzero(first > 127)
        value = (first & 127).astype(np.int64)
        for number in range(1, most_bytes):
            byte = self._bytes(at[longer]).astype(np.int64)
            value[longer] |= (byte & 127) << 7 * number
            at[longer] += 1
            if number == _LONG_BYTES - 1 and (byte & 126).any():
                raise CorruptBatchError("a number in a record has more than 64 bits")
            longer = longer[(byte & 128) != 0]
            if not len(longer):
                self.at = at
                return (value >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)
        raise CorruptBatchError(f"a number in a record has more than {most_bytes} bytes")

    def span(self) -> tuple[Ints, Ints]:
        """Read a field of bytes with its length in front: where it begins in each record, and its size, -1 for null."""
        size = self.varint(_INT_BYTES)
        start = self.at
        if len(size) and (size.min() < -1 or size.max() > len(self.data)):
            raise CorruptBatchError("a key, a value or a header has an impossible length")
        self.at = start + np.maximum(size, 0)
        return start, size

    def _bytes(self, at: Ints) -> Bytes:
        try:
            return self.data[at]
        except IndexError:
            raise CorruptBatchError("a field lies outside its record") from None


IMPORTED: Final = True
"""The last line: until here, another thread may still be importing this."""
