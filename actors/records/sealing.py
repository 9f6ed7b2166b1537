"""Record batches of columns, without a Python object per record: keys, values and times as Arrow and numpy arrays.

A record is a few varints around its key and value. The varints of all records are made as one array, and Arrow's
element-wise join puts the pieces side by side: its buffer holds the records as they go over the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.records import compression as codecs
from actors.records.batch import HEADER_BYTES, NO_TIMESTAMP, NONE, RECORD_OVERHEAD_BYTES, fresh_header, write_header
from actors.records.building import NO_HEADERS

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Records to send, column by column. Times in Unix ms; `extra`: encoded headers with their count, or None."""

    keys: Any
    values: Any
    timestamps: Ints
    extra: Any | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, order: Ints) -> Rows:
        indices = pa.array(order)
        extra = None if self.extra is None else self.extra.take(indices)
        return Rows(self.keys.take(indices), self.values.take(indices), self.timestamps[order], extra)

    def slice(self, start: int, count: int) -> Rows:
        extra = None if self.extra is None else self.extra.slice(start, count)
        times = self.timestamps[start : start + count]
        return Rows(self.keys.slice(start, count), self.values.slice(start, count), times, extra)

    def sizes(self) -> Ints:
        """The most bytes that each record can take, counted as `Producer.send` does."""
        size = _lengths(self.keys) + _lengths(self.values) + RECORD_OVERHEAD_BYTES
        return size if self.extra is None else size + _lengths(self.extra)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A finished record batch of one partition, without the id and sequence number of a producer."""

    partition: int
    data: bytearray
    count: int


def seal(rows: Rows, partitions: npt.NDArray[np.int32], limit_bytes: int, codec: int) -> list[Sealed]:
    """Make record batches of at most `limit_bytes` before compression; the rows of a partition stay in order.

    A record larger than that gets a batch of its own.
    """
    if not len(rows):
        return []
    if (partitions[1:] < partitions[:-1]).any():
        order = np.argsort(partitions, kind="stable")
        rows, partitions = rows.take(order), partitions[order]
    bounds = _cuts(rows.sizes(), partitions, limit_bytes - HEADER_BYTES)
    firsts, counts = bounds[:-1], np.diff(bounds)
    deltas = np.arange(len(rows), dtype=np.int64) - np.repeat(firsts, counts)
    times = rows.timestamps
    joined = _records(rows, deltas, times - np.repeat(times[firsts], counts))
    data = memoryview(joined.buffers()[2])
    ends = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset :]
    latest = np.maximum(np.maximum.reduceat(times, firsts), NO_TIMESTAMP)
    return [
        Sealed(
            int(partitions[first]),
            _batch(data[ends[first] : ends[first + count]], int(count), int(times[first]), int(last), codec),
            int(count),
        )
        for first, count, last in zip(firsts.tolist(), counts.tolist(), latest.tolist(), strict=True)
    ]


def _cuts(sizes: Ints, partitions: npt.NDArray[np.int32], limit: int) -> Ints:
    """The rows at which batches begin (a new partition, or the last one is full), and the end of the last batch."""
    total = np.cumsum(sizes)
    starts = np.flatnonzero(partitions[1:] != partitions[:-1]) + 1
    found = []
    for begin, end in zip([0, *starts.tolist()], [*starts.tolist(), len(sizes)], strict=True):
        while begin < end:
            found.append(begin)
            before = int(total[begin] - sizes[begin])
            begin = min(end, max(begin + 1, int(np.searchsorted(total, before + limit, side="right"))))
    return np.array([*found, len(sizes)], np.int64)


def _records(rows: Rows, offset_deltas: Ints, time_deltas: Ints) -> Any:
    """The bytes of each record, as one binary array."""
    key_sizes, value_sizes = _sizes(rows.keys), _sizes(rows.values)
    varints = [_zigzag(each) for each in (time_deltas, offset_deltas, key_sizes, value_sizes)]
    widths = [_widths(each) for each in varints]
    ends = np.ones(len(rows), np.int64) if rows.extra is None else _lengths(rows.extra)
    length = 1 + sum(widths) + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + ends
    zigzag = _zigzag(length)
    attributes = (np.zeros(len(rows), np.uint64), np.ones(len(rows), np.int64))
    before_key = _varints([(zigzag, _widths(zigzag)), attributes, *zip(varints[:3], widths[:3], strict=True)])
    before_value = _varints([(varints[3], widths[3])])
    end = pa.scalar(NO_HEADERS, pa.binary()) if rows.extra is None else rows.extra
    return pc.binary_join_element_wise(
        before_key,
        rows.keys,
        before_value,
        rows.values,
        end,
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement="",
    )


def _sizes(array: Any) -> Ints:
    """The lengths of a binary array's elements in bytes, -1 for null."""
    sizes = pc.binary_length(array).fill_null(-1)
    return sizes.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _lengths(array: Any) -> Ints:
    return np.maximum(_sizes(array), 0)


def _zigzag(values: Ints) -> npt.NDArray[np.uint64]:
    return (values << 1 ^ values >> 63).view(np.uint64)


def _widths(values: npt.NDArray[np.uint64]) -> Ints:
    """The number of bytes that each number takes as a varint."""
    widths = np.ones(len(values), np.int64)
    limit = 7
    largest = int(values.max()) if len(values) else 0
    while limit < 64 and largest >> limit:
        widths += values >= np.uint64(1 << limit)
        limit += 7
    return widths


def _varints(fields: list[tuple[npt.NDArray[np.uint64], Ints]]) -> Any:
    """The varints of each row's fields side by side, as one binary array."""
    columns, used = [], []
    for values, widths in fields:
        most = int(widths.max())
        for place in range(most):
            byte = (values >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(127)
            if place < most - 1:
                byte |= (widths > place + 1).astype(np.uint8) << np.uint8(7)
            columns.append(byte)
            used.append(None if place == 0 else widths > place)
    count = len(fields[0][0])
    total = sum(widths for _, widths in fields)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(total, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for byte, some in zip(columns, used, strict=True):
        if some is None:
            data[at] = byte
            at += 1
        else:
            data[at[some]] = byte[some]
            at += some
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _batch(records: memoryview, count: int, first_ms: int, last_ms: int, codec: int) -> bytearray:
    payload = records if codec == NONE else codecs.compress(codec, records)
    batch = bytearray(HEADER_BYTES + len(payload))
    batch[HEADER_BYTES:] = payload
    write_header(batch, fresh_header(codec, count, first_ms, last_ms, len(payload)))
    return batch
