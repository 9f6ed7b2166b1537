"""The pause of a slot before its next start, as a table: what has happened -> the pause. Pure; there is no clock.

A pause begins short, and doubles up to its bound each time that the same goes wrong again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

SLOW_SECONDS: Final = 30.0
STARTS_MAX: Final = 4
"""Starts in a row that fail, until a slot is given up."""


class Outcome(Enum):
    """The outcome of a start."""

    AWAY = "Ray could not be asked for an actor"
    FAILED = "no member could be started"
    STARTED = "there is a member"
    DIED_EARLY = "the member has died soon"
    DIED_COUNTED = "the member has died soon, which counts against the records that it had in hand"
    DIED_LATE = "the member had lived for a while"
    RENEWED = "another version is wanted"


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause at least and at most, in seconds. Between these it is twice the one before."""

    least_s: float
    most_s: float


PAUSES: Final[Mapping[Outcome, Pause]] = {
    Outcome.AWAY: Pause(0.5, 0.5),
    Outcome.FAILED: Pause(0.5, SLOW_SECONDS),
    Outcome.DIED_EARLY: Pause(0.1, SLOW_SECONDS),
    # Such deaths come to an end: the successor need not wait as long.
    Outcome.DIED_COUNTED: Pause(0.1, 1.0),
    Outcome.DIED_LATE: Pause(0.0, 0.0),
}
"""After the others the pause is what it was."""
_ENDS_FAILURES: Final = (Outcome.STARTED, Outcome.RENEWED)
_LATE_SECONDS: Final = 5.0


class Restarts:
    """The pauses of one slot. `slow_s` bounds each."""

    def __init__(self, slow_s: float = SLOW_SECONDS) -> None:
        self._slow_s = slow_s
        self.pause_s = 0.0
        """The pause before the next start."""
        self.failed = 0
        """The starts that have failed, in a row."""

    @property
    def given_up(self) -> bool:
        """True if too many starts in a row have failed."""
        return self.failed >= STARTS_MAX

    def hear(self, outcome: Outcome) -> None:
        """Say what has become of a start."""
        if (pause := PAUSES.get(outcome)) is not None:
            self.pause_s = min(max(2 * self.pause_s, pause.least_s), pause.most_s, self._slow_s)
        if outcome is Outcome.FAILED:
            self.failed += 1
        if outcome in _ENDS_FAILURES:
            self.failed = 0


def died(lived_s: float, *, counted: bool, renewing: bool) -> Outcome:
    """The outcome for a member that has ended. `counted`: against records that it had in hand."""
    if lived_s > _LATE_SECONDS or renewing:
        return Outcome.DIED_LATE
    return Outcome.DIED_COUNTED if counted else Outcome.DIED_EARLY
