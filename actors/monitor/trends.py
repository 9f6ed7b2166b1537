"""The last hour of each group's lag, in thirty points, for the small pictures in lists. No clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

POINTS: Final = 30
STEP_MS: Final = 120_000


class Trends:
    """A point is the last one of its two minutes."""

    def __init__(self) -> None:
        self._points: dict[str, deque[int | None]] = {}
        self._step = -1

    def seen(self, now_ms: int, lags: Iterable[tuple[str, int | None]]) -> None:
        """The lag of all groups at a look. Groups that are not among them are forgotten."""
        step = now_ms // STEP_MS
        new = step != self._step
        self._step = step
        points: dict[str, deque[int | None]] = {}
        for group, lag in lags:
            row = points[group] = self._points.get(group) or deque(maxlen=POINTS)
            if new or not row:
                row.append(lag)
            else:
                row[-1] = lag
        self._points = points

    def all(self) -> Mapping[str, tuple[int | None, ...]]:
        """Each group's points, oldest first."""
        return {group: tuple(points) for group, points in self._points.items()}
