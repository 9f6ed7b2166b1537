"""The rollout of a version through the members of a pool, one at a time: the next step, by what they are doing now.

Pure: the places and the time go in, one step comes out, which `steward` carries out. A place that runs the wanted
version is *good* once it has handled a record, or has had nothing to do for `SETTLE_SECONDS`; only then comes the next
one. If one turns out *bad*, all go back to the version before. Without one before, the others are left as they are.

    state         what it does                                     ends
    Rolling       renews the places that run something else        all are good: Done. One is bad: Returning, or Halted
    Returning     renews the places that run the version given up  all are good: Done. One is bad: Halted
    Done          nothing
    Halted        nothing: somebody has to look at it
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

SETTLE_SECONDS: Final = 3.0
DRAIN_SECONDS: Final = 30.0
OVERDUE: Final = f"it had not finished what it had in hand {DRAIN_SECONDS:g} s after it was to make room for a version"
"""The reason for ending a member that takes more than DRAIN_SECONDS to finish what is in hand."""
_DEATHS_MAX: Final = 3
_DEAD_LETTERS_MAX: Final = 10


class Phase(Enum):
    """See above."""

    ROLLING = "Rolling"
    RETURNING = "Returning"
    DONE = "Done"
    HALTED = "Halted"


TRANSITIONS: Final = {
    Phase.ROLLING: {Phase.RETURNING, Phase.DONE, Phase.HALTED},
    Phase.RETURNING: {Phase.DONE, Phase.HALTED},
    Phase.DONE: frozenset(),
    Phase.HALTED: frozenset(),
}
"""From each phase to those that may follow. A new version begins another rollout."""


@dataclass(frozen=True, slots=True)
class Place:
    """The state of one place of the pool. Its counts begin when it was renewed."""

    slot: int
    mark: str
    """Of the version that it runs, or is about to run."""
    state: str = "Starting"
    """Of its member's last report."""
    error: str | None = None
    renewing: bool = False
    """True if the member before is still to end."""
    renewed_s: float = 0.0
    """The monotonic time at which the member before was told to end."""
    running_s: float | None = None
    """The monotonic time since which its present member runs; None if it does not yet."""
    busy: bool = False
    """True if a handler runs now."""
    handled: int = 0
    """Without dead letters."""
    dead_letters: int = 0
    deaths: int = 0

    @property
    def failed(self) -> bool:
        """True if its member has given up."""
        return self.state in ("Failing", "Failed") and not self.renewing


@dataclass(frozen=True, slots=True)
class Renew:
    """Have this place's member finish, and its successor begin with the version `mark`."""

    slot: int
    mark: str


@dataclass(frozen=True, slots=True)
class EndNow:
    """This place's member takes too long to finish: end it."""

    slot: int


Step = Renew | EndNow | None


class Rollout:
    """One version on its way. `done` are places in which it has proved to work before."""

    def __init__(self, mark: str, fallback: str | None, done: Collection[int] = ()) -> None:
        self.phase = Phase.ROLLING
        self.mark = mark
        """Of the version that all are to run."""
        self.done = frozenset(done)
        self.reason: str | None = None
        """The reason why it was given up; None if it was not."""
        self._fallback = fallback if fallback != mark else None

    @property
    def over(self) -> bool:
        """True if nothing of it is left to do."""
        return self.phase in (Phase.DONE, Phase.HALTED)

    def moves(self, places: Sequence[Place]) -> bool:
        """True while members are being replaced, so that nothing else is to be changed."""
        waits = self._fallback is not None and any(place.slot not in self.done for place in places)
        return not self.over and (waits or any(place.mark != self.mark or place.renewing for place in places))

    def step(self, places: Sequence[Place], now_s: float) -> Step:
        """Decide the next step, if any. Afterwards `phase`, `mark`, `done` and `reason` say how far it has come."""
        if self.over:
            return None
        present = [place for place in places if place.mark == self.mark]
        on_trial = self._fallback is not None and self.phase is Phase.ROLLING
        for place in present:
            if reason := _why_bad(place, on_trial):
                self._give_up(f"member {place.slot}: {reason}")
                return self.step(places, now_s)
        self.done |= {place.slot for place in present if _is_good(place, now_s)}
        waiting = [place for place in present if place.slot not in self.done]
        others = sorted((place for place in places if place.mark != self.mark), key=lambda p: (not p.failed, p.slot))
        overdue = next((p for p in waiting if p.renewing and now_s - p.renewed_s > DRAIN_SECONDS), None)
        if overdue is not None:
            return EndNow(overdue.slot)
        if others and not waiting:
            return Renew(others[0].slot, self.mark)
        if places and not others and not waiting:
            self._enter(Phase.DONE)
        return None

    def _give_up(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.done = frozenset()
        if self.phase is Phase.ROLLING and self._fallback is not None:
            self._enter(Phase.RETURNING)
            self.mark = self._fallback
        else:
            self._enter(Phase.HALTED)

    def _enter(self, phase: Phase) -> None:
        if phase not in TRANSITIONS[self.phase]:
            raise ValueError(f"a rollout does not go from {self.phase.value} to {phase.value}")
        self.phase = phase


def _is_good(place: Place, now_s: float) -> bool:
    if place.renewing or place.state != "Running":
        return False
    idle = place.running_s is not None and now_s - place.running_s >= SETTLE_SECONDS and not place.busy
    return place.handled > 0 or (idle and place.dead_letters == 0)


def _why_bad(place: Place, on_trial: bool) -> str | None:
    """The reason why the version does not work there; None if it may. If `on_trial`, it has to show that it does."""
    if place.failed:
        return place.error or "it has failed"
    if place.renewing or place.handled or not on_trial:
        return None
    if place.deaths >= _DEATHS_MAX:
        return f"its process has died {place.deaths} times before it had handled a record"
    if place.dead_letters >= _DEAD_LETTERS_MAX:
        return f"its first {place.dead_letters} records have all become dead letters"
    return None
