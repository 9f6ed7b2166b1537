"""The choice of points of groups' curves for the history: in three grains, and seldom while nothing changes.

Nothing here is a fact before its rows are safe: `due` only says what would be, and `written` takes it over. So what is
remembered is never ahead of the file. No clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

from actors.links.views import LagPoint

SAME_MS: Final = 600_000
"""The interval at which a value that stays the same is written."""
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Grain:
    """A density of points, 0 for every look, and the time for which they are kept.

    Each has the peak since the one before.
    """

    number: int
    every_ms: int
    keep_ms: int


def grains(retention_hours: int) -> tuple[Grain, ...]:
    """The three of them, from fine to coarse."""
    most = retention_hours * _HOUR_MS
    kept = ((0, 2 * _HOUR_MS), (60_000, 48 * _HOUR_MS), (600_000, most))
    return tuple(Grain(number, every, min(keep, most)) for number, (every, keep) in enumerate(kept))


class LagRow(NamedTuple):
    """A point of a curve as the file has it."""

    grain: int
    group_id: int
    wall_ms: int
    lag: int | None
    lag_seconds: float | None
    committed: int | None


Last = tuple[LagPoint, LagPoint | None]
"""The last point of a curve that was written, and the last one after it that was the same and was not."""


class Curves:
    """The last points of each curve that were written."""

    def __init__(self, grains: tuple[Grain, ...]) -> None:
        self._grains = grains
        self._last: dict[tuple[int, int], Last] = {}

    def due(self, group: int, point: LagPoint) -> tuple[list[LagRow], dict[tuple[int, int], Last]]:
        """The rows that a group's next point makes, and what `written` is to be told once they are safe."""
        rows: list[LagRow] = []
        changes: dict[tuple[int, int], Last] = {}
        for grain in self._grains:
            key = (grain.number, group)
            written, skipped = self._last.get(key, (None, None))
            peak = _higher(skipped, point) if grain.every_ms else point
            if written is not None:
                age = point.wall_ms - written.wall_ms
                if age < grain.every_ms or (_same(written, peak) and age < SAME_MS):
                    changes[key] = (written, peak)
                    continue
                if skipped is not None and _same(written, skipped) and not _same(written, peak):
                    rows.append(_row(grain, group, skipped))  # until when it stayed as it was
            changes[key] = (peak, None)
            rows.append(_row(grain, group, peak))
        return rows, changes

    def written(self, changes: Mapping[tuple[int, int], Last]) -> None:
        """The rows of `due` are safe."""
        self._last.update(changes)

    def newest(self, group: int) -> LagPoint | None:
        """The last look's point, if it was not written because it was the same."""
        return self._last.get((self._grains[0].number, group), (None, None))[1]

    def keep(self, groups: Collection[int]) -> None:
        """Forget all other groups."""
        self._last = {key: value for key, value in self._last.items() if key[1] in groups}


def thinned(points: Sequence[LagPoint], since_ms: int, until_ms: int, most: int) -> tuple[LagPoint, ...]:
    """At most so many points of a curve between two times, oldest first: of each part of the time the peak.

    The newest one is always there: it is where the curve has come to.
    """
    if len(points) <= most:
        return tuple(points)
    part_ms = max(1, -(-(until_ms - since_ms + 1) // max(1, most - 1)))
    parts = groupby(points[:-1], key=lambda point: (point.wall_ms - since_ms) // part_ms)
    peaks = [max(part, key=_height) for _, part in parts]
    return (*peaks[max(0, len(peaks) - most + 1) :], points[-1])


def _height(point: LagPoint) -> tuple[float, float, int]:
    return (
        -1 if point.lag is None else point.lag,
        -1 if point.lag_seconds is None else point.lag_seconds,
        point.wall_ms,
    )


def _higher(before: LagPoint | None, now: LagPoint) -> LagPoint:
    """The present point, with the greatest lag since the one that was written before."""
    if before is None or _height(before) <= _height(now):
        return now
    return replace(now, lag=before.lag, lag_seconds=before.lag_seconds)


def _row(grain: Grain, group: int, point: LagPoint) -> LagRow:
    return LagRow(grain.number, group, point.wall_ms, point.lag, point.lag_seconds, point.committed)


def _same(before: LagPoint, now: LagPoint) -> bool:
    return (before.lag, before.committed) == (now.lag, now.committed) and not now.lag
