"""The choice of the supervisor that looks after a pool, as a table: the last one whose word stands in the topic.

Pure: the records that were read go in, a rule comes out, which `steward` carries out. Whoever wants a pool writes down
a term, and has it once that is read back as the last one. The stage changes when what the rule says has been done, so
that a rule which could not be carried out is given again.

    stage      the supervisor                            ends
    STRANGER   has not claimed the pool                  OTHERS: it claims it. MINE
    CLAIMED    has written its term, and not read it     MINE
    RULING     has read its term, and has members        GONE or ANEW: it dismisses them
    OVER       has nothing left to do
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from actors.members.deployment.records import PoolRecord


@dataclass(frozen=True, slots=True)
class Here:
    """The supervisor's process, and the actor whose process it is."""

    pid: int
    node_id: str
    actor_id: str
    restarted: bool = False
    """True if the actor had another process before."""
    after: str = ""
    """The actor that looked after the pool when this one was wanted."""


class Stage(Enum):
    """The stages of a claim. See above."""

    STRANGER = "STRANGER"
    CLAIMED = "CLAIMED"
    RULING = "RULING"
    OVER = "OVER"


class Event(Enum):
    """News of the topic, and the ends of what the supervisor has done."""

    GONE = "there is no such pool"
    ANEW = "it is another pool of the name than the one that was claimed"
    MINE = "this supervisor's term is the last one"
    OTHERS = "another term is the last one, or there is none"
    ELSEWHERE = "an actor on another Ray has taken it over, while this one was restarted"
    WRITTEN = "the term has been written"
    DISMISSED = "the members have left"
    FORGOTTEN = "the pool's seals have been ended"


class Rule(Enum):
    """The supervisor's next step."""

    NOTHING = "nothing"
    WAIT = "wait until the term is read"
    CLAIM = "write the term; then WRITTEN"
    RULE = "look after the pool"
    DISMISS = "have all members leave; then DISMISSED, and look again"
    LOOK_AGAIN = "look again"
    FORGET = "end the seals; then FORGOTTEN"
    SUPERSEDED = "end the process, and its members with it"
    END = "there is nothing left to do"


class Cell(NamedTuple):
    """The rule, and the next stage; None: as before."""

    rule: Rule
    stage: Stage | None = None


TABLE: Final[Mapping[Stage, Mapping[Event, Cell]]] = {
    Stage.STRANGER: {
        Event.GONE: Cell(Rule.FORGET),
        Event.MINE: Cell(Rule.RULE, Stage.RULING),
        Event.OTHERS: Cell(Rule.CLAIM),
        Event.ELSEWHERE: Cell(Rule.END, Stage.OVER),  # or the two would take it from each other for ever
        Event.WRITTEN: Cell(Rule.NOTHING, Stage.CLAIMED),
        Event.FORGOTTEN: Cell(Rule.END, Stage.OVER),
    },
    Stage.CLAIMED: {
        Event.GONE: Cell(Rule.FORGET),
        Event.ANEW: Cell(Rule.LOOK_AGAIN, Stage.STRANGER),
        Event.MINE: Cell(Rule.RULE, Stage.RULING),
        Event.OTHERS: Cell(Rule.WAIT),
        Event.ELSEWHERE: Cell(Rule.END, Stage.OVER),
        Event.FORGOTTEN: Cell(Rule.END, Stage.OVER),
    },
    Stage.RULING: {
        Event.GONE: Cell(Rule.DISMISS),
        Event.ANEW: Cell(Rule.DISMISS),
        Event.MINE: Cell(Rule.RULE),
        Event.OTHERS: Cell(Rule.SUPERSEDED),
        Event.ELSEWHERE: Cell(Rule.SUPERSEDED),
        Event.DISMISSED: Cell(Rule.NOTHING, Stage.STRANGER),
    },
    Stage.OVER: {},
}
"""Events that are not named cannot come."""


@dataclass(slots=True)
class Claim:
    """The claim of one supervisor, whose terms have this `id`."""

    id: str
    here: Here
    stage: Stage = Stage.STRANGER
    incarnation: str = ""
    """That of the pool that was claimed last."""
    ruled: str = ""
    """That of the pool that was looked after last."""

    def read(self, record: PoolRecord | None) -> Rule:
        """The next step, by the pool's records; `record` is None if there is no such pool."""
        rule = self.hear(self._event(record))
        if record is not None and rule is Rule.RULE:
            self.ruled = self.incarnation = record.deployment.incarnation
        return rule

    def written(self, incarnation: str) -> None:
        """The term for this pool has been written."""
        self.hear(Event.WRITTEN)
        self.incarnation = incarnation

    def hear(self, event: Event) -> Rule:
        """Go on to the next stage. Raises ValueError if the event cannot come now, and stays where it is."""
        cell = TABLE[self.stage].get(event)
        if cell is None:
            raise ValueError(f"{event.name} cannot come in {self.stage.value}")
        self.stage = cell.stage or self.stage
        return cell.rule

    def _event(self, record: PoolRecord | None) -> Event:
        if record is None:
            return Event.GONE
        if self.stage is not Stage.STRANGER and record.deployment.incarnation != self.incarnation:
            return Event.ANEW
        if record.term == self.id:
            return Event.MINE
        known = ("", self.here.actor_id, self.here.after)
        return Event.ELSEWHERE if self.here.restarted and record.actor not in known else Event.OTHERS
