"""The lag of groups: in records, and as the age of the oldest record that they have not read. No clock, no I/O.

None stands for what is not known. Where a timeline is too coarse, the header of the record's batch has to be looked
at: `wanted` says which ones, those of which least is known first, and `estimated` takes what they say. A batch whose
records are of very different ages tells too little: then the record is among `wanted_records`, and `found` takes its
time.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final, NamedTuple

from actors.monitor.partitions import Partition, Partitions
from actors.monitor.timeline import Estimate

Place = tuple[str, int, int]
"""Topic, partition, offset."""
BATCHES_MAX: Final = 2_000
"""The most headers of batches that are looked at in one look. A Monitor that has just begun needs them all."""
RECORDS_MAX: Final = 32
"""And how many records."""
_PATIENCE: Final = 12  # looks for which a place is left alone where nothing was found


class Lag(NamedTuple):
    """The unread part of a partition for a group. `seconds` is 0.0 if nothing is unread."""

    records: int | None
    seconds: float | None


UNKNOWN: Final = Lag(None, None)
_NOTHING: Final = Lag(0, 0.0)


class LagTable:
    """Computes lag from what was seen of partitions. An answer is wrong by one `interval_ms` at most, or None."""

    def __init__(self, partitions: Partitions, interval_ms: int) -> None:
        self._partitions = partitions
        self._interval_ms = interval_ms
        self._exact: dict[Place, int | None] = {}  # timestamps of records that were looked at
        self._used: set[Place] = set()
        self._wanted: dict[Place, int] = {}  # the largest error of the timeline
        self._wide: set[Place] = set()  # the header of the batch does not tell either
        self._alone: dict[Place, int] = {}  # the number of further looks

    def begin(self) -> None:
        """A look begins. Places that nobody has asked for since the one before are forgotten."""
        self._exact = {place: at for place, at in self._exact.items() if place in self._used}
        self._alone = {place: left - 1 for place, left in self._alone.items() if left > 1}
        self._used.clear()
        self._wide &= self._wanted.keys()
        self._wanted.clear()

    def of(self, topic: str, partition: int, committed: int, now_ms: int) -> Lag:
        """The lag of a group that has committed this offset."""
        seen = self._partitions.get(topic, partition)
        if seen is None or committed < 0:
            return UNKNOWN
        unread = max(committed, seen.log_start)  # retention may have taken what comes before
        if unread >= seen.log_end:
            return _NOTHING
        at_ms = self._when((topic, partition, unread), seen)
        return Lag(seen.log_end - unread, None if at_ms is None else max(0, now_ms - at_ms) / 1000)

    def _when(self, place: Place, seen: Partition) -> int | None:
        known = self._exact.get(place)
        if known is not None:
            self._used.add(place)
            return known
        estimate = seen.timeline.when(place[2])
        if estimate is not None and estimate.error_ms <= self._interval_ms:
            return estimate.at_ms
        if place not in self._alone:
            self._wanted[place] = 1 << 62 if estimate is None else estimate.error_ms
        return None

    def wanted(self, most: int = BATCHES_MAX) -> list[Place]:
        """The records whose batch's header is to be looked at."""
        places = self._wanted.keys() - self._wide
        return nsmallest(most, places, key=lambda place: (-self._wanted[place], place))

    def wanted_records(self, most: int = RECORDS_MAX) -> list[Place]:
        """The records to look at."""
        return nsmallest(most, self._wide & self._wanted.keys())

    def estimated(self, told: Iterable[tuple[Place, Estimate | None]]) -> None:
        """Take the headers' estimates of records, None where there is none, or where it did not work."""
        for place, estimate in told:
            if estimate is not None and estimate.error_ms > self._interval_ms:
                self._wide.add(place)
            else:
                self.found([(place, None if estimate is None else estimate.at_ms)])

    def found(self, found: Iterable[tuple[Place, int | None]]) -> None:
        """The timestamps of records that were looked at, in ms; None where there is none, or where it did not work."""
        for place, at_ms in found:
            if at_ms is None or at_ms < 0:
                self._alone[place] = _PATIENCE
            else:
                self._exact[place] = at_ms
                self._used.add(place)
