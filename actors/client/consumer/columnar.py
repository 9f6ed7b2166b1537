"""Decodes whole record batches to Arrow columns with array arithmetic: no record becomes a Python object.

Only the lengths in front of the records are followed one by one, and not even these where successive records are
equally long. Then the fields of all records are found at once, and keys and values are gathered out of the fetched
bytes. `decode` sees to checksums, transactions and positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.client.consumer.decode import Whole
from actors.client.errors import CorruptMessageError
from actors.log import compression as codecs
from actors.log.batch import HEADER_BYTES, BatchHeader
from actors.log.errors import CorruptBatchError, LogError

Ints = npt.NDArray[np.int64]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_RUN_FIRST, _RUN_WORTH = 64, 16
_RUN_TRIED = 4096  # at first, when nothing is known of the lengths
_WALK_FIRST, _WALK_MOST = 64, 4096
# The signed numbers that bytes are, one each.
_OF_ONE_BYTE = (np.arange(256) >> 1) ^ -(np.arange(256) & 1)
# So many bytes may be read beyond the last record, until its varint is found to be cut off.
_PADDING = bytes(16)
# Arrow's offsets have 32 bits.
_MOST_BYTES = 2**31 - 1 - len(_PADDING)


@dataclass(frozen=True, slots=True)
class ArrowColumns:
    """Records by column, in the order of the log. Times in ms; `timestamp_types`: 0 CreateTime, 1 LogAppendTime."""

    offsets: Ints
    timestamps: Ints
    timestamp_types: npt.NDArray[np.int32]
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None

    def __len__(self) -> int:
        return len(self.offsets)

    def since(self, offset: int) -> ArrowColumns:
        """The records from `offset` on, of batches of one partition."""
        first = int(np.searchsorted(self.offsets, offset))
        return ArrowColumns(
            self.offsets[first:],
            self.timestamps[first:],
            self.timestamp_types[first:],
            self.keys.slice(first),
            self.values.slice(first),
            None if self.headers is None else self.headers.slice(first),
        )


def read_columns(batches: Sequence[Whole], *, with_headers: bool = False) -> ArrowColumns:
    """All records of these batches. Raises CorruptMessageError if one of them cannot be decoded."""
    try:
        return _read(batches, with_headers)
    except (CorruptBatchError, LogError) as error:
        raise CorruptMessageError(str(error)) from error


def _read(batches: Sequence[Whole], with_headers: bool) -> ArrowColumns:
    payloads = [_payload(batch, header) for batch, header in batches]
    if sum(map(len, payloads)) > _MOST_BYTES:
        raise CorruptMessageError(f"{len(batches)} batches hold more than {_MOST_BYTES} bytes when decompressed")
    data = b"".join([*payloads, _PADDING])
    counts = np.fromiter((header.record_count for _, header in batches), np.int64, len(batches))
    starts, begin = [], 0
    for payload, (_, header) in zip(payloads, batches, strict=True):
        starts.append(_record_starts(data, begin, begin + len(payload), header))
        begin += len(payload)
    at = np.concatenate(starts) if starts else np.empty(0, np.int64)
    fields = _Fields(np.frombuffer(data, np.uint8), at)
    length = fields.varint()
    ends = fields.at + length
    fields.at = fields.at + 1  # the record's attributes, of which Kafka uses none
    time_deltas, offset_deltas = fields.varint(), fields.varint()
    keys = fields.span()
    values = fields.span()
    header_counts = fields.varint()
    header_starts = fields.at
    _check(header_counts, header_starts, ends)

    def each(values: list[int], kind: Any = np.int64) -> Any:
        return np.repeat(np.array(values, kind), counts)

    appended = [int(header.is_log_append_time) for _, header in batches]
    created = each([header.first_timestamp for _, header in batches]) + time_deltas
    stamped = each([header.max_timestamp for _, header in batches])
    types = each(appended, np.int32)
    buffer = pa.py_buffer(data)
    return ArrowColumns(
        each([header.base_offset for _, header in batches]) + offset_deltas,
        created if not any(appended) else np.where(types == 1, stamped, created),
        types,
        _gather(buffer, *keys),
        _gather(buffer, *values),
        _headers(data, header_counts, header_starts, ends) if with_headers else None,
    )


def _payload(batch: memoryview, header: BatchHeader) -> memoryview | bytes:
    payload = batch[HEADER_BYTES:]
    return payload if header.codec == codecs.NONE else codecs.decompress(header.codec, payload)


def _record_starts(data: bytes, begin: int, end: int, header: BatchHeader) -> Ints:
    """The positions of the records' lengths. Raises CorruptMessageError unless records fill the payload exactly."""
    left = header.record_count
    if not 0 <= left <= (end - begin) // 6:  # no record is shorter than six bytes and its length
        raise _corrupt(header, f"{left} records in {end - begin} bytes")
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
            some, begin = _walk(data, begin, end, min(left, walk), header)
            left -= len(some)
            found.append(some)
            reach, walk = _RUN_FIRST, min(walk * 2, _WALK_MOST)
    if begin != end:
        raise _corrupt(header, "the records do not fill it")
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _run(data: bytes, numbers: npt.NDArray[np.uint8], begin: int, end: int, most: int) -> tuple[Ints, int]:
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


def _walk(data: bytes, begin: int, end: int, count: int, header: BatchHeader) -> tuple[Ints, int]:
    """The starts of the next `count` records, found one after the other, and where these records end."""
    starts: list[int] = []
    add = starts.append
    at = begin
    for _ in range(count):
        add(at)
        if at >= end:
            raise _corrupt(header, "a record is cut off")
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
            byte = data[at]
            value |= (byte & 127) << shift
            if shift > 28:
                raise _corrupt(header, "a record's length is too long")
        at += (value >> 1) + 1
    if at > end:
        raise _corrupt(header, "a record is cut off")
    return np.array(starts, np.int64), at


def _corrupt(header: BatchHeader, what: str) -> CorruptMessageError:
    return CorruptMessageError(f"the batch at offset {header.base_offset} cannot be read: {what}")


class _Fields:
    """Reads the fields of all records at once, one field after the other; `at` is where the next one begins in each."""

    __slots__ = ("at", "data")

    def __init__(self, data: npt.NDArray[np.uint8], at: Ints) -> None:
        self.data = data
        self.at = at

    def varint(self) -> Ints:
        """Read a signed (zigzag) varint of up to ten bytes from each record."""
        first = self._bytes(self.at)
        at = self.at + 1
        longer = np.flatnonzero(first > 127)
        if not len(longer):
            self.at = at
            return _OF_ONE_BYTE[first]
        value = (first & 127).astype(np.int64)
        shift = 7
        while len(longer):
            if shift > 63:
                raise CorruptMessageError("a number in a record is longer than ten bytes")
            byte = self._bytes(at[longer]).astype(np.int64)
            value[longer] |= (byte & 127) << shift
            at[longer] += 1
            longer = longer[(byte & 128) != 0]
            shift += 7
        self.at = at
        return (value >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)

    def span(self) -> tuple[Ints, Ints]:
        """Read a field of bytes with its length in front: where it begins in each record, and its size, -1 for null."""
        size = self.varint()
        start = self.at
        if len(size) and (size.min() < -1 or size.max() > len(self.data)):
            raise CorruptMessageError("a key or value has an impossible length")
        self.at = start + np.maximum(size, 0)
        return start, size

    def _bytes(self, at: Ints) -> npt.NDArray[np.uint8]:
        try:
            return self.data[at]
        except IndexError as error:
            raise CorruptMessageError("a field lies outside its record") from error


def _check(header_counts: Ints, header_starts: Ints, ends: Ints) -> None:
    if not len(ends):
        return
    left = ends - header_starts
    # A header has at least two bytes; without headers nothing may follow.
    if (header_counts < 0).any() or (left < 2 * header_counts).any() or (left[header_counts == 0] != 0).any():
        raise CorruptMessageError("the fields of a record do not fill it")


def _gather(buffer: pa.Buffer, starts: Ints, sizes: Ints) -> pa.Array:
    """The bytes of each span as one Arrow array, null where the size is -1."""
    count = len(starts)
    nulls = sizes < 0
    if count == 0 or nulls.all():
        return pa.nulls(count, pa.binary())
    # In this array spans and the bytes between them take turns; `take` copies only the spans.
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.maximum(sizes, 0)
    bounds[-1] = bounds[-2]
    whole = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), buffer])
    indices = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=nulls if nulls.any() else None)
    return whole.take(indices)


def _headers(data: bytes, counts: Ints, starts: Ints, ends: Ints) -> pa.Array:
    """A list of headers for each record, null where it has none, as in Spark's Kafka source."""
    total = int(counts.sum())
    lists = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=lists[1:])
    keys: list[str] = []
    values: list[bytes | None] = []
    for index in np.flatnonzero(counts).tolist():
        at = int(starts[index])
        for _ in range(int(counts[index])):
            key, at = _bytes_at(data, at)
            value, at = _bytes_at(data, at)
            if key is None:
                raise CorruptMessageError("a header has no key")
            keys.append(key.decode("utf-8", "replace"))
            values.append(value)
        if at != ends[index]:
            raise CorruptMessageError("the headers of a record do not fill it")
    assert len(keys) == total
    pairs = pa.StructArray.from_arrays([pa.array(keys, pa.string()), pa.array(values, pa.binary())], ["key", "value"])
    mask = pa.array(counts == 0)
    return pa.ListArray.from_arrays(pa.array(lists), pairs, type=HEADERS, mask=mask)


def _bytes_at(data: bytes, at: int) -> tuple[bytes | None, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise CorruptMessageError("a header is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    size = (value >> 1) ^ -(value & 1)
    if size == -1:
        return None, at
    if size < 0 or at + size > len(data):
        raise CorruptMessageError("a header has an impossible length")
    return data[at : at + size], at + size
