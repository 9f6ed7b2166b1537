"""The time that a page shows: one for its curves and for the lives of members, with the same marks under both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from actors.console.figures import clock

WIDE: Final = 1000
"""The width of drawings, in their own units; the page stretches them."""
MARKS_MAX: Final = 6
_MINUTE: Final = 60_000
_STEPS: Final = tuple(minutes * _MINUTE for minutes in (1, 2, 3, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720))
_DAY: Final = 1440 * _MINUTE


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a drawing shows."""

    since_ms: int
    until_ms: int

    def share(self, wall_ms: int) -> float:
        """The place of a moment, 0 to 1; one outside is at the edge."""
        return min(max((wall_ms - self.since_ms) / max(self.until_ms - self.since_ms, 1), 0.0), 1.0)

    def at(self, wall_ms: int) -> float:
        """Where a moment stands in a drawing, from left to right."""
        return round(WIDE * self.share(wall_ms), 2)

    def marks(self) -> tuple[tuple[int, str], ...]:
        """Round times, evenly apart, each with its text: no two alike. Midnight has the day."""
        length = self.until_ms - self.since_ms
        days = -(-length // (MARKS_MAX * _DAY)) * _DAY
        step = next((each for each in _STEPS if length <= MARKS_MAX * each), days)
        first = (self.since_ms // step + 1) * step
        return tuple((each, _text(each)) for each in range(first, self.until_ms + 1, step))


def _text(wall_ms: int) -> str:
    if wall_ms % _DAY == 0 and 0 <= wall_ms < 250_000_000_000_000:
        day = datetime.fromtimestamp(wall_ms / 1000, UTC)
        return f"{day.day}\N{NARROW NO-BREAK SPACE}{day:%b}"
    return clock(wall_ms)[:5]
