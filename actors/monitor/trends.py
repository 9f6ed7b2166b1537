"""The last hour of each group's lag, in thirty points, for the small pictures in lists. No clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from actors.links.views import TREND_POINTS

POINTS: Final = TREND_POINTS
STEP_MS: Final = 120_000


class Trends:
    """A point is the greatest lag of its two minutes, so that whoever lagged for a moment is seen to have."""

    def __init__(self, seeds: Mapping[str, Iterable[tuple[int, int | None]]] | None = None) -> None:
        """`seeds`: steps of STEP_MS since the epoch, each with its greatest lag, oldest first."""
        known = {group: dict(points) for group, points in (seeds or {}).items()}
        self._step = max((step for points in known.values() for step in points), default=-1)
        self._points = {group: self._evenly(points) for group, points in known.items()}

    def _evenly(self, points: Mapping[int, int | None]) -> deque[int | None]:
        first = max(min(points, default=self._step + 1), self._step - POINTS + 1)
        return deque((points.get(step) for step in range(first, self._step + 1)), maxlen=POINTS)

    def seen(self, now_ms: int, lags: Iterable[tuple[str, int | None]]) -> None:
        """The lag of all groups at a look. Groups that are not among them are forgotten."""
        step = now_ms // STEP_MS
        passed = min(max(step - self._step, 0), POINTS) if self._step >= 0 else 1
        self._step = max(step, self._step)
        points: dict[str, deque[int | None]] = {}
        for group, lag in lags:
            row = points[group] = self._points.get(group) or deque(maxlen=POINTS)
            if not row:
                row.append(lag)
            elif passed:
                row.extend([None] * (passed - 1))  # nobody looked
                row.append(lag)
            else:
                row[-1] = _greater(row[-1], lag)
        self._points = points

    def all(self) -> Mapping[str, tuple[int | None, ...]]:
        """Each group's points, oldest first. Of steps at which nobody looked, nothing is known."""
        return {group: tuple(points) for group, points in self._points.items()}


def _greater(before: int | None, now: int | None) -> int | None:
    if before is None or now is None:
        return now if before is None else before
    return max(before, now)
