"""Checks each record of a produced batch, and works out the largest timestamp: a header's word for it counts nothing.

All records that a topic's settings refuse are named, so that a client can tell which they are (KIP-467). Bytes that are
no records are refused as a whole. Either way nothing of the batch is appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from actors.records.batch import NO_TIMESTAMP
from actors.records.columns import FEW, Columns, check_headers, sliced
from actors.records.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    CorruptBatchError,
    OverBoundsError,
    RefusedRecordsError,
)
from actors.records.rows import Row, read_rows

MAX_NAMED: Final = 10_000
"""How many bad records are named at most: a compressed batch can hold millions."""

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)


class Limits(NamedTuple):
    """Which records a topic takes. Times are ms of the epoch; -1, which is no time, is always taken."""

    keyed: bool
    """Whether each record must have a key, because the topic is compacted."""
    oldest: int
    latest: int
    headers: int
    """How many headers all records may have together."""
    record_bytes: int = LONG_MAX
    """How long a record may be, its length in front not counted."""


class _Summary(NamedTuple):
    """What is to be known of some successive records. Times are deltas; those of records without a time are left out.

    `earliest` and `latest` are None where no record has a time. `longest`: bytes of the longest record.
    """

    in_order: bool
    keyless: bool
    earliest: int | None
    latest: int | None
    longest: int


def largest_timestamp(payload: bytes, count: int, first_timestamp: int, limits: Limits) -> int:
    """The largest timestamp of the `count` records in this decompressed payload, -1 if none is larger.

    Raises CorruptBatchError if the bytes are not these records, with the offset deltas 0, 1, 2 and so on,
    OverBoundsError for too many headers, RefusedRecordsError for records that the topic does not take.
    """
    untimed = NO_TIMESTAMP - first_timestamp
    times: list[int] = []
    keyless = False
    for some in _summaries(payload, count, untimed, limits.headers):
        if not some.in_order:
            raise CorruptBatchError("the offset deltas of the records are not 0, 1, 2, ...")
        if some.longest > limits.record_bytes:
            raise CorruptBatchError(
                f"a record has {some.longest} bytes, max.decompressed.message.bytes is {limits.record_bytes}"
            )
        times += [first_timestamp + each for each in (some.earliest, some.latest) if each is not None]
        keyless = keyless or some.keyless
    earliest, latest = min(times, default=NO_TIMESTAMP), max(times, default=NO_TIMESTAMP)
    if earliest < LONG_MIN or latest > LONG_MAX:
        raise CorruptBatchError("a timestamp has more than 64 bits")
    if (limits.keyed and keyless) or (times and (earliest < limits.oldest or latest > limits.latest)):
        raise _refusal(payload, count, first_timestamp, limits)
    return max(latest, NO_TIMESTAMP)


def _summaries(payload: bytes, count: int, untimed: int, headers: int) -> Iterator[_Summary]:
    if count <= FEW:
        yield _summary_of_rows(list(read_rows(payload, count, headers)), untimed)
        return
    for first, data, columns in sliced(payload, count):
        headers -= int(columns.header_counts.sum())
        if headers < 0:
            raise OverBoundsError("the records have too many headers")
        check_headers(data, columns)
        yield _summary_of_columns(columns, first, untimed)


def _summary_of_rows(rows: Sequence[Row], untimed: int) -> _Summary:
    times = [row.time_delta for row in rows if row.time_delta != untimed]
    return _Summary(
        in_order=[row.offset_delta for row in rows] == list(range(len(rows))),
        keyless=any(row.key_size < 0 for row in rows),
        earliest=min(times, default=None),
        latest=max(times, default=None),
        longest=_without_length(max(row.end - row.start for row in rows)),
    )


def _summary_of_columns(columns: Columns, first: int, untimed: int) -> _Summary:
    times = columns.time_deltas
    if LONG_MIN <= untimed <= LONG_MAX:
        times = times[times != untimed]
    return _Summary(
        in_order=bool((columns.offset_deltas == np.arange(first, first + len(columns))).all()),
        keyless=bool((columns.key_sizes < 0).any()),
        earliest=int(times.min()) if len(times) else None,
        latest=int(times.max()) if len(times) else None,
        longest=_without_length(int((columns.ends - columns.starts).max())),
    )


def _without_length(record_bytes: int) -> int:
    """A record's bytes without the varint in front of them, if that is as short as it can be."""
    return next(record_bytes - width for width in range(1, 6) if record_bytes - width < 64 << 7 * (width - 1))


def _refusal(payload: bytes, count: int, first_timestamp: int, limits: Limits) -> RefusedRecordsError:
    found: list[tuple[int, int, str]] = []
    for index, (key_size, time_delta) in enumerate(_keys_and_times(payload, count)):
        timestamp = first_timestamp + time_delta
        if limits.keyed and key_size < 0:
            found.append((index, INVALID_RECORD, "a compacted topic takes no record without a key"))
        elif timestamp != NO_TIMESTAMP and not limits.oldest <= timestamp <= limits.latest:
            found.append((index, INVALID_TIMESTAMP, _out_of_range(timestamp, limits)))
        if len(found) == MAX_NAMED:
            break
    code = INVALID_TIMESTAMP if any(error[1] == INVALID_TIMESTAMP for error in found) else INVALID_RECORD
    return RefusedRecordsError(code, count, [(index, text) for index, _, text in found])


def _keys_and_times(payload: bytes, count: int) -> Iterator[tuple[int, int]]:
    for _, _, columns in sliced(payload, count):
        yield from zip(columns.key_sizes.tolist(), columns.time_deltas.tolist(), strict=True)


def _out_of_range(timestamp: int, limits: Limits) -> str:
    if timestamp < limits.oldest:
        return f"timestamp {timestamp} is before {limits.oldest}: message.timestamp.before.max.ms"
    return f"timestamp {timestamp} is after {limits.latest}: message.timestamp.after.max.ms"
