"""The arrival times of one partition's records, as far as looks at its end tell. No clock, no I/O.

Each look says where the log ends and what its largest timestamp is. So the record at an offset came after the last look
that did not have it and before the first one that did: its time is known to within one interval, however uneven the
traffic was. Where timestamps do not follow the clock (records of last year, loaded today), they alone count.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

SAMPLES_MAX: Final = 64
"""The number of looks at a partition that are remembered. Of more, every second one of the older half is forgotten."""


class Estimate(NamedTuple):
    """The timestamp of a record, in ms, and by how much it may be wrong at most."""

    at_ms: int
    error_ms: int


class Timeline:
    """The growth of one partition's log: one entry for each look that found it longer."""

    __slots__ = ("_ends", "_first_ms", "_last_ms", "_newest_ms")

    def __init__(self) -> None:
        self._ends = array("q")
        self._first_ms = array("q")  # the time at which the log was first seen to end there
        self._last_ms = array("q")  # and when last
        self._newest_ms = array("q")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def end(self) -> int | None:
        """The end of the log at the last look."""
        return self._ends[-1] if self._ends else None

    def seen(self, end: int, newest_ms: int, now_ms: int) -> None:
        """A look at `now_ms` found the log to end at `end`; `newest_ms` is its largest timestamp, -1 if it has none."""
        if self._ends and end < self._ends[-1]:
            self._clear()  # it was cut, or is another topic's of that name
        if self._ends and end == self._ends[-1]:
            self._last_ms[-1] = now_ms
            return
        self._ends.append(end)
        self._first_ms.append(now_ms)
        self._last_ms.append(now_ms)
        self._newest_ms.append(newest_ms)
        if len(self._ends) > SAMPLES_MAX:
            self._thin()

    def forget_before(self, offset: int) -> None:
        """Nobody asks for records before `offset` any more."""
        spare = min(bisect_right(self._ends, offset), len(self._ends) - 1) - 1
        if spare > 0:
            for column in (self._ends, self._first_ms, self._last_ms, self._newest_ms):
                del column[:spare]

    def when(self, offset: int) -> Estimate | None:
        """The timestamp of the record at `offset`; None if it is older than all that was seen, or is not there yet."""
        place = bisect_right(self._ends, offset)
        if place == 0 or place == len(self._ends):
            return None
        low, high = self._bounds(place)
        before = self._ends[place - 1]
        share = (offset - before + 1) / (self._ends[place] - before)
        return Estimate(low + round(share * (high - low)), high - low)

    def _bounds(self, place: int) -> tuple[int, int]:
        """Between which timestamps those of the records are that a look found new."""
        high = self._newest_ms[place]
        low, unseen_ms = self._newest_ms[place - 1], self._last_ms[place - 1]
        if high < 0:
            return unseen_ms, self._first_ms[place]
        if high >= unseen_ms:
            low = max(low, unseen_ms)
        return (high if low < 0 else min(low, high)), high

    def _thin(self) -> None:
        older = range(len(self._ends) // 2 - 1, 0, -2)
        for place in older:
            for column in (self._ends, self._first_ms, self._last_ms, self._newest_ms):
                del column[place]

    def _clear(self) -> None:
        for column in (self._ends, self._first_ms, self._last_ms, self._newest_ms):
            del column[:]
