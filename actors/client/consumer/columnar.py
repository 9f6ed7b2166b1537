"""Decodes whole record batches to Arrow columns: no record becomes a Python object.

`records/columns.py` finds the fields; keys and values are gathered out of the fetched bytes. `decode` sees to
checksums, transactions and positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.client.consumer.decode import Whole, unreadable
from actors.client.records import TopicPartition
from actors.records.batch import BatchHeader
from actors.records.bounds import STORED, Bounds
from actors.records.columns import Columns, Ints, columns_at, record_starts
from actors.records.errors import CorruptBatchError, LogError
from actors.records.reading import payload_of
from actors.records.rows import read_headers

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""As in Spark's Kafka source. The names are text: see `name_as_text`."""

# Arrow's offsets have 32 bits.
_MOST_BYTES = 2**31 - 1


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
        return self._cut(int(np.searchsorted(self.offsets, offset)), len(self))

    def within(self, offset: int, until: int) -> ArrowColumns:
        """The records from `offset` on and before `until`, of batches of one partition."""
        places = np.flatnonzero((self.offsets >= offset) & (self.offsets < until))
        first = int(places[0]) if len(places) else 0
        return self._cut(first, first + len(places))  # offsets grow, so what is within is one slice

    def _cut(self, first: int, end: int) -> ArrowColumns:
        if end - first == len(self):
            return self
        return ArrowColumns(
            self.offsets[first:end],
            self.timestamps[first:end],
            self.timestamp_types[first:end],
            self.keys.slice(first, end - first),
            self.values.slice(first, end - first),
            None if self.headers is None else self.headers.slice(first, end - first),
        )


def read_columns(tp: TopicPartition, batches: Sequence[Whole], *, with_headers: bool = False) -> ArrowColumns:
    """All records of these batches. Raises CorruptMessageError if one of them cannot be decoded.

    Also if several hold more than `STORED.plain_bytes` together: then they can be read one by one.
    """
    payloads = _payloads(tp, batches)
    try:
        return _read(batches, payloads, with_headers)
    except LogError as error:
        raise unreadable(tp, batches[0][1].base_offset, error) from error


def _payloads(tp: TopicPartition, batches: Sequence[Whole]) -> list[bytes]:
    payloads: list[bytes] = []
    left = STORED.plain_bytes
    for batch, header in batches:
        try:
            payloads.append(payload_of(batch, header, Bounds(left, STORED.records)))
            left -= len(payloads[-1]) if header.codec else 0
        except LogError as error:
            raise unreadable(tp, header.base_offset, error) from error
    if sum(map(len, payloads)) > _MOST_BYTES:
        raise unreadable(tp, batches[0][1].base_offset, f"{len(batches)} batches of more than {_MOST_BYTES} bytes")
    return payloads


def _read(batches: Sequence[Whole], payloads: list[bytes], with_headers: bool) -> ArrowColumns:
    data = b"".join(payloads)
    counts = np.fromiter((header.record_count for _, header in batches), np.int64, len(batches))
    starts, begin = [], 0
    for payload, (_, header) in zip(payloads, batches, strict=True):
        starts.append(_starts(data, begin, begin + len(payload), header))
        begin += len(payload)
    read = columns_at(data, np.concatenate(starts) if starts else np.empty(0, np.int64))

    def each(values: list[int], kind: Any = np.int64) -> Any:
        return np.repeat(np.array(values, kind), counts)

    appended = [int(header.is_log_append_time) for _, header in batches]
    created = each([header.first_timestamp for _, header in batches]) + read.time_deltas
    stamped = each([header.max_timestamp for _, header in batches])
    types = each(appended, np.int32)
    buffer = pa.py_buffer(data)
    return ArrowColumns(
        each([header.base_offset for _, header in batches]) + read.offset_deltas,
        created if not any(appended) else np.where(types == 1, stamped, created),
        types,
        _gather(buffer, read.key_starts, read.key_sizes),
        _gather(buffer, read.value_starts, read.value_sizes),
        _headers(data, read) if with_headers else None,
    )


def _starts(data: bytes, begin: int, end: int, header: BatchHeader) -> Ints:
    try:
        return record_starts(data, begin, end, header.record_count)
    except CorruptBatchError as error:
        raise CorruptBatchError(f"the batch at offset {header.base_offset} cannot be read: {error}") from error


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


def name_as_text(name: str | bytes) -> str:
    """The name of a header as text, as Java's clients give it: what is not UTF-8 is U+FFFD."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


def _headers(data: bytes, read: Columns) -> pa.Array:
    """A list of headers for each record, null where it has none, as in Spark's Kafka source."""
    counts = read.header_counts
    lists = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=lists[1:])
    keys: list[str] = []
    values: list[bytes | None] = []
    read.check_headers(data)
    for index in np.flatnonzero(counts).tolist():
        for key, value in read_headers(data, int(read.header_starts[index]), int(counts[index])):
            keys.append(name_as_text(key))
            values.append(value)
    pairs = pa.StructArray.from_arrays([pa.array(keys, pa.string()), pa.array(values, pa.binary())], ["key", "value"])
    mask = pa.array(counts == 0)
    return pa.ListArray.from_arrays(pa.array(lists), pairs, type=HEADERS, mask=mask)
