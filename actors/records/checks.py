"""Checks each record of a produced batch, and works out the largest timestamp: a header's word for it counts nothing.

All records that a topic's settings refuse are named, so that a client can tell which they are (KIP-467). Bytes that are
no records are refused as a whole. Either way nothing of the batch is appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from actors.records.batch import NO_TIMESTAMP, Plain
from actors.records.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    CorruptBatchError,
    OverBoundsError,
    RefusedRecordsError,
)
from actors.records.rows import read_rows
from actors.records.runs import summary_of_runs
from actors.records.scan import FEW, is_imported, rows_of, sliced
from actors.records.summary import ATTRIBUTES_MAX, LONG_MAX, LONG_MIN, Summary, summary_of

MAX_NAMED: Final = 100
"""The most bad records that are named of one batch: a small batch can hold millions."""
_NAMED_AT_ONCE: Final = 500
"""Of so many records the refused ones are found in half a millisecond."""


class Limits(NamedTuple):
    """A topic's limits for records. Times are ms of the epoch; -1, which is no time, is always taken."""

    keyed: bool
    """True if each record must have a key, because the topic is compacted."""
    oldest: int
    latest: int
    headers: int
    """The most headers that all records may have together."""
    record_bytes: int = LONG_MAX
    """The greatest length of a record, its length field not counted."""
    at_once: bool = False
    """True if there is no time, neither to import NumPy nor to name the records that are refused."""


def largest_timestamp(payload: Plain, count: int, first_timestamp: int, limits: Limits) -> int:
    """The largest timestamp of the `count` records in this decompressed payload, -1 if none is larger.

    Raises CorruptBatchError if the bytes are not these records, with the offset deltas 0, 1, 2 and so on,
    OverBoundsError for too many headers or for what takes long and was to be done at once, RefusedRecordsError for
    records that the topic does not take.
    """
    untimed = NO_TIMESTAMP - first_timestamp
    times: list[int] = []
    keyless = False
    for some in _summaries(payload, count, untimed, limits):
        if not some.in_order:
            raise CorruptBatchError("the offset deltas of the records are not 0, 1, 2, ...")
        if not some.readable:
            raise CorruptBatchError(f"a record has attributes above {ATTRIBUTES_MAX}")
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


def _summaries(payload: Plain, count: int, untimed: int, limits: Limits) -> Iterator[Summary]:
    headers = limits.headers
    if count <= FEW:
        yield summary_of(list(read_rows(payload, count, headers)), untimed)
        return
    alike = summary_of_runs(payload, count, untimed)
    if alike is not None:
        yield alike
        return
    if limits.at_once and not is_imported():
        raise OverBoundsError("the first time that records are read so, it takes long")
    for first, columns in sliced(payload, count):
        headers -= int(columns.header_counts.sum())
        if headers < 0:
            raise OverBoundsError("the records have too many headers")
        columns.check_headers(payload)
        yield columns.summary(first, untimed)


def _refusal(payload: Plain, count: int, first_timestamp: int, limits: Limits) -> RefusedRecordsError:
    if limits.at_once and count > _NAMED_AT_ONCE:
        raise OverBoundsError("to name the records that are refused takes long")
    found: list[tuple[int, int, str]] = []
    for index, row in enumerate(rows_of(payload, count)):
        timestamp = first_timestamp + row.time_delta
        if limits.keyed and row.key_size < 0:
            found.append((index, INVALID_RECORD, "a compacted topic takes no record without a key"))
        elif timestamp != NO_TIMESTAMP and not limits.oldest <= timestamp <= limits.latest:
            found.append((index, INVALID_TIMESTAMP, _out_of_range(timestamp, limits)))
        if len(found) == MAX_NAMED:
            break
    code = INVALID_TIMESTAMP if any(error[1] == INVALID_TIMESTAMP for error in found) else INVALID_RECORD
    return RefusedRecordsError(code, count, [(index, text) for index, _, text in found])


def _out_of_range(timestamp: int, limits: Limits) -> str:
    if limits.oldest == 0:
        return f"timestamp {timestamp} is negative: such records are not compressed anew"
    if timestamp < limits.oldest:
        return f"timestamp {timestamp} is before {limits.oldest}: message.timestamp.before.max.ms"
    return f"timestamp {timestamp} is after {limits.latest}: message.timestamp.after.max.ms"
