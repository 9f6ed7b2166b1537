"""Finds a record by its time in a stored batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from actors.records.batch import BatchHeader
from actors.records.columns import FEW, sliced
from actors.records.rows import read_rows


class Timed(NamedTuple):
    """A record's offset and its timestamp in ms."""

    offset: int
    timestamp: int


def first_at_or_after(payload: bytes, header: BatchHeader, timestamp_ms: int, low: int, high: int) -> Timed | None:
    """The first record of a decompressed batch at or after `timestamp_ms`, with an offset in low..high-1.

    Raises CorruptBatchError. Headers are not looked at.
    """
    base, first, count = header.base_offset, header.first_timestamp, header.record_count
    appended = header.max_timestamp if header.is_log_append_time else None
    if count <= FEW:
        for row in read_rows(payload, count):
            offset, time = base + row.offset_delta, first + row.time_delta if appended is None else appended
            if time >= timestamp_ms and low <= offset < high:
                return Timed(offset, time)
        return None
    for _, _, columns in sliced(payload, count):
        offsets = base + columns.offset_deltas
        times = first + columns.time_deltas if appended is None else np.full(len(columns), appended)
        found = (times >= timestamp_ms) & (offsets >= low) & (offsets < high)
        if found.any():
            at = int(found.argmax())
            return Timed(int(offsets[at]), int(times[at]))
    return None
