"""The fields of the records of a payload, one record after the other. For many records `columns` is faster.

Strict: each record must fill its length, and all of them the payload. A length, an offset or a count is a varint of at
most five bytes, a time one of at most ten (Kafka's ByteUtils). The bytes of a header's name may be any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from actors.records.batch import Plain
from actors.records.bounds import RECORDS_MAX
from actors.records.errors import CorruptBatchError, OverBoundsError

_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10
_HALF: Final = 1 << 63
_LONG_MASK: Final = (1 << 64) - 1


class Row(NamedTuple):
    """The places of one record's fields in its payload. The time is a delta in ms; sizes are -1 for null.

    `start` is where its length begins; `body` where key, value and headers do, which go up to `end`. Kafka uses none of
    the `attributes`.
    """

    start: int
    end: int
    attributes: int
    time_delta: int
    offset_delta: int
    body: int
    key_start: int
    key_size: int
    value_start: int
    value_size: int
    header_start: int
    header_count: int


def read_rows(data: Plain, count: int, headers: int | None = RECORDS_MAX) -> Iterator[Row]:
    """The `count` records that fill `data`. `headers`: how many these may have together; None if nobody looks at them.

    Raises CorruptBatchError or OverBoundsError, after the records before the bad one.
    """
    at, size = 0, len(data)
    for _ in range(count):
        try:
            row = read_row(data, at, headers)
        except IndexError:
            raise CorruptBatchError("a record is cut off") from None
        if headers is not None:
            headers -= row.header_count
        at = row.end
        if at > size:
            raise CorruptBatchError("a record is cut off")
        yield row
    if at != size:
        raise CorruptBatchError(f"{count} records do not fill their batch: {size - at} bytes are left")


def read_row(data: Plain, start: int, headers: int | None) -> Row:
    """The record that begins at `start`. Raises CorruptBatchError, OverBoundsError; IndexError if it is cut off."""
    length, at = varint(data, start, _INT_BYTES)
    end = at + length
    attributes = data[at]
    time_delta, at = varint(data, at + 1, _LONG_BYTES)
    offset_delta, body = varint(data, at, _INT_BYTES)
    key_size, key_start = varint(data, body, _INT_BYTES)
    value_size, value_start = varint(data, key_start + max(key_size, 0), _INT_BYTES)
    count, header_start = varint(data, value_start + max(value_size, 0), _INT_BYTES)
    if key_size < -1 or value_size < -1:
        raise CorruptBatchError("a key or a value has an impossible length")
    if headers is not None and count > headers:
        raise OverBoundsError("the records have too many headers")
    if count < 0 or end - header_start < 2 * count or (count == 0 and end != header_start):
        raise CorruptBatchError("the fields of a record do not fill it")
    if headers is not None and header_end(data, header_start, count, end) != end:
        raise CorruptBatchError("the fields of a record do not fill it")
    return Row(
        start,
        end,
        attributes,
        time_delta,
        offset_delta,
        body,
        key_start,
        key_size,
        value_start,
        value_size,
        header_start,
        count,
    )


def varint(data: Plain, at: int, most_bytes: int) -> tuple[int, int]:
    """A signed (zigzag) varint and where it ends. Raises CorruptBatchError if it is too long, IndexError at the end."""
    byte = data[at]
    if byte < 128:
        return byte >> 1 ^ -(byte & 1), at + 1
    value, shift = byte & 127, 7
    for next_at in range(at + 1, at + most_bytes):
        byte = data[next_at]
        value |= (byte & 127) << shift
        if byte < 128:
            if value > _LONG_MASK:
                raise CorruptBatchError("a number in a record has more than 64 bits")
            return value >> 1 ^ -(value & 1), next_at + 1
        shift += 7
    raise CorruptBatchError(f"a number in a record has more than {most_bytes} bytes")


def header_end(data: Plain, at: int, count: int, end: int) -> int:
    """The end of the `count` headers that begin at `at`, in a record that ends at `end`. Raises CorruptBatchError."""
    try:
        for _ in range(count):
            size, at = varint(data, at, _INT_BYTES)
            if size < 0:
                raise CorruptBatchError("a header has no name")
            size, at = varint(data, at + size, _INT_BYTES)
            if size < -1:
                raise CorruptBatchError("a header has an impossible length")
            at += max(size, 0)
            if at > end:
                raise CorruptBatchError("a header lies outside its record")
    except IndexError:
        raise CorruptBatchError("a header lies outside its record") from None
    return at


def read_headers(data: bytes, at: int, count: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Names and values of the `count` headers that begin at `at`, which were checked before."""
    for _ in range(count):
        size, at = varint(data, at, _INT_BYTES)
        name = data[at : at + size]
        size, at = varint(data, at + size, _INT_BYTES)
        yield name, None if size < 0 else data[at : at + size]
        at += max(size, 0)


def name_of(name: bytes) -> str | bytes:
    """The name of a header as text if it is UTF-8, else as it is."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name


def of_64_bits(time: int) -> int:
    """A time as Kafka and the compiled reader add it up: too large a number wraps around."""
    return (time + _HALF) % (2 * _HALF) - _HALF
