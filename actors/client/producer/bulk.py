"""From Arrow columns to finished record batches, without a Python object per record. Bytes only, no I/O.

A record is a few varints around its key and value. The varints of all records are made as one array, and Arrow's
element-wise join puts the pieces side by side: its buffer holds the records as they go over the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.client.errors import SerializationError
from actors.client.producer.values import encoded_headers
from actors.records import compression as codecs
from actors.records.batch import HEADER, HEADER_BYTES, LENGTH_BYTES, MAGIC, NO_TIMESTAMP, NONE, BatchHeader
from actors.wire.varints import uvarint

Ints = npt.NDArray[np.int64]

_CRC_FROM = 21
_CRC_AT = 17
_NO_HEADERS = b"\0"
_MOST_S = (2**63 - 1) // 1000
RECORD_OVERHEAD = 32
"""Bytes allowed for a record's varints: more than they ever take, if it has no headers."""


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
        size = _lengths(self.keys) + _lengths(self.values) + RECORD_OVERHEAD
        return size if self.extra is None else size + _lengths(self.extra)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A finished record batch of one partition, without the id and sequence number of a producer."""

    partition: int
    data: bytearray
    count: int


def rows_of(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """The rows of a batch with the columns key, value, headers and timestamp; only value is required.

    Keys and values are binary or string, headers a list of (key, value), timestamps a timestamp or Unix ms, by
    default `now_ms`. Raises SerializationError.
    """
    names = batch.schema.names
    if "value" not in names:
        raise SerializationError(f"there is no column 'value'; the columns are {', '.join(names)}")
    count = batch.num_rows
    keys = binary(batch.column("key"), "key") if "key" in names else pa.nulls(count, pa.binary())
    headers = batch.column("headers") if "headers" in names else None
    return Rows(
        keys,
        binary(batch.column("value"), "value"),
        _times(batch.column("timestamp"), now_ms) if "timestamp" in names else np.full(count, now_ms, np.int64),
        None if headers is None else _encoded_headers(headers),
    )


def binary(column: Any, name: str) -> Any:
    """A column as a binary array. Raises SerializationError if it is neither binary nor string."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    bytes_or_text = (
        pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_binary(kind)
    ) or pa.types.is_large_string(kind)
    if not (bytes_or_text or pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind)):
        raise SerializationError(f"column {name!r} is {column.type}, must be binary or string")
    if pa.types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _times(column: Any, now_ms: int) -> Ints:
    if pa.types.is_timestamp(column.type):
        column = _milliseconds(column)
    elif column.type != pa.int64():
        raise SerializationError(f"column 'timestamp' is {column.type}, must be a timestamp or int64 (Unix ms)")
    return column.fill_null(now_ms).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _milliseconds(column: Any) -> Any:
    """Timestamps of any unit as Unix ms, cut off. Raises SerializationError for seconds that have no room there."""
    if column.type.unit == "s":
        known = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        beyond = (known > _MOST_S) | (known < -_MOST_S)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise SerializationError(f"the time of row {row}, {known[row]} s, is too far from 1970 for milliseconds")
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def _encoded_headers(column: Any) -> Any | None:
    """The bytes of each record's headers, with their count in front; None if no record has any."""
    kind = column.type
    if pa.types.is_null(kind):
        return None
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)):
        raise SerializationError(f"column 'headers' is {kind}, must be a list of (key, value)")
    if not pa.types.is_map(kind) and not pc.any(pc.greater(pc.list_value_length(column), 0)).as_py():
        return None
    # Record by record: few records have headers, and where many do, the headers themselves cost more.
    return pa.array([_encode_headers(each) for each in column.to_pylist()], pa.binary())


def _encode_headers(headers: Any) -> bytes:
    if not headers:
        return _NO_HEADERS
    parts = [_varint(len(headers))]
    for name, value in encoded_headers([_pair(each) for each in headers])[0]:
        parts += (_varint(len(name)), name, _varint(-1) if value is None else _varint(len(value)), value or b"")
    return b"".join(parts)


def _pair(header: Any) -> Any:
    if not isinstance(header, dict):
        return header
    if not header.keys() >= {"key", "value"}:
        raise SerializationError(f"a header has the fields {', '.join(header)}, not key and value")
    return header["key"], header["value"]


def _varint(value: int) -> bytes:
    """A signed varint (zigzag), as records have them."""
    return uvarint((value << 1) ^ (value >> 63))


# --- making batches -------------------------------------------------------------------------------------------------


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
    end = pa.scalar(_NO_HEADERS, pa.binary()) if rows.extra is None else rows.extra
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
    """How many bytes each number takes as a varint."""
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
    header = BatchHeader(
        base_offset=0,
        length=len(batch) - LENGTH_BYTES,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        first_timestamp=first_ms,
        max_timestamp=last_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    HEADER.pack_into(batch, 0, *header)
    batch[_CRC_AT:_CRC_FROM] = crc32c.crc32c(memoryview(batch)[_CRC_FROM:]).to_bytes(4, "big")
    return batch
