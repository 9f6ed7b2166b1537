"""How far groups are behind: in records, and as the age of the oldest record that they have not read. No clock, no I/O.

None stands for what is not known. Where a timeline is too coarse, the record itself has to be looked at: `wanted` says
which ones, the most needed first, and `found` takes what was there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from actors.monitor.partitions import Partition, Partitions

Place = tuple[str, int, int]
"""Topic, partition, offset."""
LOOKUPS_MAX: Final = 32
"""How many records are looked at in one look, at most."""
_PATIENCE: Final = 12  # looks for which a place is left alone where nothing was found


class Lag(NamedTuple):
    """What a group has not read of a partition. `seconds` is 0.0 where that is nothing."""

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
        self._wanted: dict[Place, int] = {}  # by how much the timeline may be wrong
        self._alone: dict[Place, int] = {}  # for how many looks more

    def begin(self) -> None:
        """A look begins. What nobody has asked for since the one before is forgotten."""
        self._exact = {place: at for place, at in self._exact.items() if place in self._used}
        self._alone = {place: left - 1 for place, left in self._alone.items() if left > 1}
        self._used.clear()
        self._wanted.clear()

    def of(self, topic: str, partition: int, committed: int, now_ms: int) -> Lag:
        """The lag of a group that has committed this offset."""
        seen = self._partitions.get(topic, partition)
        if seen is None or committed < 0:
            return UNKNOWN
        if committed >= seen.log_end:
            return _NOTHING
        unread = max(committed, seen.log_start)  # retention may have taken what comes before
        if unread >= seen.log_end:
            return Lag(seen.log_end - committed, None)
        at_ms = self._when((topic, partition, unread), seen)
        return Lag(seen.log_end - committed, None if at_ms is None else max(0, now_ms - at_ms) / 1000)

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

    def wanted(self, most: int = LOOKUPS_MAX) -> list[Place]:
        """Which records to look at, those of which least is known first."""
        return sorted(self._wanted, key=lambda place: -self._wanted[place])[:most]

    def found(self, found: Iterable[tuple[Place, int | None]]) -> None:
        """The timestamps of records that were looked at, in ms; None where there is none, or where it did not work."""
        for place, at_ms in found:
            if at_ms is None or at_ms < 0:
                self._alone[place] = _PATIENCE
            else:
                self._exact[place] = at_ms
                self._used.add(place)
