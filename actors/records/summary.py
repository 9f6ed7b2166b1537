"""The facts about successive records by which a leader decides whether to take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from actors.records.rows import Row

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
ATTRIBUTES_MAX: Final = 127
"""Some clients take a record's attributes for a varint. Kafka uses none of them."""


class Summary(NamedTuple):
    """Times are deltas in ms; those of records without a time are left out, and None if no record has one.

    `in_order`: the offset deltas are 0, 1, 2 and so on. `readable`: all clients can read the attributes. `keyless`: a
    record has no key. `longest`: bytes of the longest record, its length in front not counted.
    """

    in_order: bool
    readable: bool
    keyless: bool
    earliest: int | None
    latest: int | None
    longest: int


def summary_of(rows: Sequence[Row], untimed: int) -> Summary:
    """Of a batch's first records, one at least. `untimed` is the delta of a record without a time."""
    times = [row.time_delta for row in rows if row.time_delta != untimed]
    return Summary(
        in_order=[row.offset_delta for row in rows] == list(range(len(rows))),
        readable=all(row.attributes <= ATTRIBUTES_MAX for row in rows),
        keyless=any(row.key_size < 0 for row in rows),
        earliest=min(times, default=None),
        latest=max(times, default=None),
        longest=without_length(max(row.end - row.start for row in rows)),
    )


def without_length(record_bytes: int) -> int:
    """A record's bytes without the varint in front of them, if that is as short as it can be."""
    return next(record_bytes - width for width in range(1, 6) if record_bytes - width < 64 << 7 * (width - 1))
