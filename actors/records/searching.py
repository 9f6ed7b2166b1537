"""Finds a record by its time in a stored batch."""

from __future__ import annotations

from typing import NamedTuple

from actors.records.batch import BatchHeader, Plain
from actors.records.rows import of_64_bits, read_rows
from actors.records.scan import FEW, sliced


class Timed(NamedTuple):
    """A record's offset and its timestamp in ms."""

    offset: int
    timestamp: int


def first_at_or_after(payload: Plain, header: BatchHeader, timestamp_ms: int, low: int, high: int) -> Timed | None:
    """The first record of a decompressed batch at or after `timestamp_ms`, with an offset in low..high-1.

    Raises CorruptBatchError. Headers are not looked at.
    """
    base, first, count = header.base_offset, header.first_timestamp, header.record_count
    appended = header.max_timestamp if header.is_log_append_time else None
    if count <= FEW:
        for row in read_rows(payload, count, headers=None):
            offset, time = base + row.offset_delta, of_64_bits(first + row.time_delta) if appended is None else appended
            if time >= timestamp_ms and low <= offset < high:
                return Timed(offset, time)
        return None
    for _, columns in sliced(payload, count):
        found = columns.first_at_or_after(header, timestamp_ms, low, high)
        if found is not None:
            return Timed(*found)
    return None
