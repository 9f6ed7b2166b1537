"""The work of members, from what they have counted: how many were busy, and how fast one of them is. Pure."""

from __future__ import annotations

from typing import Final

_SPEED_OF: Final = 60.0  # seconds of work by which the members' speed is told


class Work:
    """The work of a pool's members: the time they were busy, and the records that one handles in a second of work."""

    def __init__(self, at_s: float, handled: int, busy_s: float) -> None:
        self._last = (at_s, busy_s)
        self._from = (handled, busy_s)
        self.per_second: float | None = None
        """Of about the last minute of work; None until a record was handled."""

    def busy(self, at_s: float, handled: int, busy_s: float) -> float | None:
        """The handlers' work since the last look, as a number of fully busy members. None if no time has passed."""
        before_s, busy_before_s = self._last
        self._last = (at_s, busy_s)
        self._note(handled, busy_s)
        return max(0.0, busy_s - busy_before_s) / (at_s - before_s) if at_s > before_s else None

    def _note(self, handled: int, busy_s: float) -> None:
        records, seconds = handled - self._from[0], busy_s - self._from[1]
        if records > 0 and seconds > 0:
            self.per_second = records / seconds
        if seconds > _SPEED_OF and records > 0:  # half of what is older is forgotten
            self._from = (handled - records // 2, busy_s - seconds / 2)
