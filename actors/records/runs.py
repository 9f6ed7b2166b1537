"""Sums up records that look alike: equally long, with keys and values of equal lengths, and without headers.

Many batches consist of a few runs of such records. All bytes at one place of the records of a run are one strided
slice, which is compared with what must stand there: for a batch of a thousand records that is a third of the work that
`columns` has, and it needs no NumPy. Other batches are not for here.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

from actors.records.batch import Plain
from actors.records.errors import CorruptBatchError, OverBoundsError
from actors.records.rows import Row, read_row
from actors.records.summary import ATTRIBUTES_MAX, Summary, without_length

_RUNS_MAX: Final = 8
_RUN_MIN: Final = 16
_RECORD_BYTES_MAX: Final = 512
"""Of longer records each slice would fetch a cache line for each of its bytes."""
_OFFSETS: Final = 1 << 14
_TIME_BYTES_MAX: Final = 4
_TIMES_MAX: Final = 256
"""Of more different times than that `columns` makes less work."""
_LOWEST: Final = 0 if sys.byteorder == "little" else _TIME_BYTES_MAX - 1
"""The place of the lowest byte of a number of so many bytes."""
_HIGH_BIT: Final = 128
_FLIPPED: Final = bytes(each ^ _HIGH_BIT for each in range(256))


def _offset_bytes(width: int) -> tuple[bytes, ...]:
    """The first, second, ... bytes of the offset deltas 0, 1, 2, ..., written with so many bytes."""
    last = width - 1
    return tuple(
        bytes((delta << 1 >> 7 * place) & 127 | (_HIGH_BIT if place < last else 0) for delta in range(_OFFSETS))
        for place in range(width)
    )


_OFFSET_BYTES: Final = {width: _offset_bytes(width) for width in (1, 2, 3)}
_OFFSETS_IN: Final = {1: 1 << 6, 2: 1 << 13, 3: _OFFSETS}
"""The number of offset deltas that fit in so many bytes, at most `_OFFSETS`."""


class _Run(NamedTuple):
    """Successive records that look like `first`, and what their times are: deltas, but for records without one."""

    first: Row
    size: int
    times: set[int]


def summary_of_runs(payload: Plain, count: int, untimed: int) -> Summary | None:
    """As `summary.summary_of`, of all records of a payload; None if they are not a few runs, or something is wrong."""
    at = done = longest = 0
    keyless = False
    times: set[int] = set()
    for _ in range(_RUNS_MAX):
        run = _run(payload, at, done, count - done)
        if run is None or (run.size < _RUN_MIN and run.size < count - done):
            return None
        length = run.first.end - at
        at, done = at + run.size * length, done + run.size
        keyless = keyless or run.first.key_size < 0
        longest = max(longest, length)
        times |= run.times
        if done == count:
            break
    if done != count or at != len(payload):
        return None
    times.discard(untimed)
    return Summary(
        in_order=True,
        readable=True,
        keyless=keyless,
        earliest=min(times, default=None),
        latest=max(times, default=None),
        longest=without_length(longest),
    )


def _run(payload: Plain, at: int, done: int, left: int) -> _Run | None:
    """The records from byte `at` on that look alike; the first has the offset delta `done`."""
    try:
        first = read_row(payload, at, headers=0)
    except (CorruptBatchError, OverBoundsError, IndexError):
        return None
    length = first.end - at
    if length > _RECORD_BYTES_MAX:
        return None
    count = min(left, (len(payload) - at) // length)
    time, offset = _deltas_at(payload, first)
    fixed = [
        *range(time),
        *range(first.body - at, first.key_start - at),
        *range(_value_at(first) - at, first.value_start - at),
    ]
    fixed += range(first.value_start + max(first.value_size, 0) - at, length)
    for place in fixed:
        found = payload[at + place : at + count * length : length]
        count -= len(found.lstrip(found[:1]))
    if first.attributes > ATTRIBUTES_MAX or not count:
        return None
    end = at + count * length
    body = first.body - at
    if not _in_order([payload[at + place : end : length] for place in range(offset, body)], done, count):
        return None
    times = _times([payload[at + place : end : length] for place in range(time, offset)])
    return None if times is None else _Run(first, count, times)


def _value_at(row: Row) -> int:
    """The position of the length of a record's value."""
    return row.key_start + max(row.key_size, 0)


def _deltas_at(payload: Plain, row: Row) -> tuple[int, int]:
    """The positions of a record's two deltas, behind the length and the attributes."""
    time = _varint_bytes(payload, row.start) + 1
    return time, time + _varint_bytes(payload, row.start + time)


def _varint_bytes(payload: Plain, at: int) -> int:
    size = 1
    while payload[at + size - 1] >= _HIGH_BIT:
        size += 1
    return size


def _in_order(found: list[Plain], done: int, count: int) -> bool:
    width = len(found)
    if done + count > _OFFSETS_IN.get(width, 0):
        return False
    return all(each == known[done : done + count] for each, known in zip(found, _OFFSET_BYTES[width], strict=True))


def _times(found: list[Plain]) -> set[int] | None:
    """The different time deltas whose bytes these are; None if they differ in length, or are many."""
    *before, last = found
    if len(found) > _TIME_BYTES_MAX or not last.isascii():
        return None
    if not all(each.translate(_FLIPPED).isascii() for each in before):
        return None
    different = _different(found)
    if len(different) > _TIMES_MAX:
        return None
    times = set()
    for packed in different:
        value = sum((packed >> 8 * place & 127) << 7 * place for place in range(len(found)))
        times.add(value >> 1 ^ -(value & 1))
    return times


def _different(found: list[Plain]) -> set[int]:
    """The different numbers whose little-endian bytes these are: all first ones, all second ones, and so on."""
    if len(found) == 1:
        return set(found[0])
    side_by_side = bytearray(_TIME_BYTES_MAX * len(found[0]))
    for place, each in enumerate(found):
        side_by_side[place ^ _LOWEST :: _TIME_BYTES_MAX] = each
    return set(memoryview(side_by_side).cast("I"))
