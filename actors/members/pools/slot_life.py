"""The life of a slot as a table: where its member stands, what is wanted of it, and what follows from an event.

Pure: no thread, no Ray, no clock. Whoever holds the slot's lock says what has happened (`hear`), and is told the rule
by which the slot goes on. supervision.py carries the rules out. An event that cannot come at a stage raises, and
changes nothing.

    stage      the slot has                              ends
    IDLE       no actor yet, or one that has ended       BEGIN: the pause is over
    STARTING   an actor that does not listen yet         LINKED, NO_ROOM, or a start that fails
    WAITING    an actor for which Ray has no room        PLACED, or a start that fails
    LINKED     a member, whose reports are read          FAILED, or CLOSED
    FAILED     one that has failed and left the group    CLOSED
    ENDED      a member that has ended                   what is wanted then: IDLE, or OVER
    OVER       no member, and no thread                  RENEW, unless it is to have no member any more
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple


class Stage(Enum):
    """The stages of a slot. See above."""

    IDLE = "IDLE"
    STARTING = "STARTING"
    WAITING = "WAITING"
    LINKED = "LINKED"
    FAILED = "FAILED"
    ENDED = "ENDED"
    OVER = "OVER"


class Wanted(Enum):
    """The wishes for a slot."""

    MEMBER = "MEMBER"
    """A member, and a successor for each that dies."""
    SUCCESSOR = "SUCCESSOR"
    """Its member is to end, and to have a successor of the slot's version. The next BEGIN ends this."""
    NONE = "NONE"
    """No member any more. Nothing ends this."""


class Event(Enum):
    """The events that a slot hears of."""

    RENEW = "its member is to have a successor"
    RETIRE = "it is to have no member any more"
    BEGIN = "an actor may be asked for"
    LOOK = "its actor does not listen yet"
    NO_ROOM = "Ray has had no room for its actor for a while"
    PLACED = "its actor has a node, or Ray may still find one"
    CONNECTED = "its actor listens, and there is a connection"
    TOGETHER = "the members that start with it are ready"
    START_FAILED = "no member could be started; another start may do better"
    STARTS_FAILED = "no member could be started, several times in a row"
    RAY_LEFT = "no member can be started: this process has left its Ray"
    GOES_ON = "its member has reported that it works, or is about to end"
    STOPPED = "its member has reported that it has ended as it was told"
    FAILED = "its member has reported that it has failed for good"
    CLOSED = "no more reports are read"
    KILLED_FAILING = "its member was killed by the pool while it was failing"
    ENDED = "its member has ended, and has not failed for good"
    ENDED_FAILED = "its member has ended, and has failed for good"


class Rule(Enum):
    """The next step for a slot."""

    NOTHING = "nothing is to be done"
    HURRY = "end the pause before the next start"
    REPLACE = "make a successor ready beside the member, or else tell the member to end"
    REFILL = "begin with a new thread"
    STOP = "tell the member to end"
    ASK = "ask for an actor"
    ASK_ANEW = "ask for an actor, and count from now on"
    LOOK = "look for the actor again"
    DROP = "end the actor, and ask for another one"
    LEAVE = "start nothing; the thread ends"
    SAY_WAITS = "say that Ray has no room"
    SAY_ROOM = "say that Ray has room"
    JOIN = "have the member join the group"
    HANG_UP = "close the connection; the thread ends"
    AGAIN = "start again after a pause"
    GIVE_UP = "say that the slot has failed; the thread ends"
    READ = "read the next report"
    REMOVE = "take the member out of the group, and read the next report"
    REMOVE_AND_CLOSE = "take the member out of the group, and read no more"
    CLOSE = "read no more"
    FAIL = "take the member out of the group: it has failed for good"
    SAY_DIED = "say that the process has died; a successor is started"
    SUCCEED = "a successor is started"
    END = "the thread ends"


class Cell(NamedTuple):
    """The rule, the next stage, and what is wanted from now on; None: as before."""

    rule: Rule
    stage: Stage | None = None
    wanted: Wanted | None = None


class Row(NamedTuple):
    """The cells of one event, by what is wanted when it comes."""

    member: Cell
    successor: Cell
    none: Cell

    def cell(self, wanted: Wanted) -> Cell:
        """The cell for what is wanted."""
        match wanted:
            case Wanted.MEMBER:
                return self.member
            case Wanted.SUCCESSOR:
                return self.successor
            case Wanted.NONE:
                return self.none


def _always(rule: Rule, stage: Stage | None = None, wanted: Wanted | None = None) -> Row:
    cell = Cell(rule, stage, wanted)
    return Row(cell, cell, cell)


def _renew(rule: Rule, stage: Stage | None = None) -> Row:
    """A slot that is to have no member stays so."""
    cell = Cell(rule, stage, Wanted.SUCCESSOR)
    return Row(cell, cell, Cell(Rule.NOTHING))


def _retire(rule: Rule) -> Row:
    return _always(rule, None, Wanted.NONE)


_START_FAILS: Final = {
    Event.START_FAILED: _always(Rule.AGAIN, Stage.IDLE),
    Event.STARTS_FAILED: Row(
        Cell(Rule.GIVE_UP, Stage.OVER),
        Cell(Rule.AGAIN, Stage.IDLE),  # another version may do better
        Cell(Rule.GIVE_UP, Stage.OVER),
    ),
    Event.RAY_LEFT: _always(Rule.GIVE_UP, Stage.OVER),
}
_BEFORE_IT_LISTENS: Final = {
    Event.RENEW: _renew(Rule.HURRY),
    Event.RETIRE: _retire(Rule.HURRY),
    Event.LOOK: Row(Cell(Rule.LOOK), Cell(Rule.DROP, Stage.IDLE), Cell(Rule.LEAVE)),
    **_START_FAILS,
}
_REPORTS: Final = {
    # It may have been chosen before there was a connection, and not have been told to end.
    Event.GOES_ON: Row(Cell(Rule.READ), Cell(Rule.STOP), Cell(Rule.READ)),
    Event.STOPPED: Row(Cell(Rule.READ), Cell(Rule.CLOSE), Cell(Rule.CLOSE)),
    Event.CLOSED: _always(Rule.NOTHING, Stage.ENDED),
}

TABLE: Final[Mapping[Stage, Mapping[Event, Row]]] = {
    Stage.IDLE: {
        Event.RENEW: _renew(Rule.HURRY),
        Event.RETIRE: _retire(Rule.HURRY),
        Event.BEGIN: Row(
            Cell(Rule.ASK, Stage.STARTING), Cell(Rule.ASK_ANEW, Stage.STARTING, Wanted.MEMBER), Cell(Rule.LEAVE)
        ),
        **_START_FAILS,  # while an actor that was dropped is let go
    },
    Stage.STARTING: {
        **_BEFORE_IT_LISTENS,
        Event.NO_ROOM: _always(Rule.SAY_WAITS, Stage.WAITING),
        Event.PLACED: _always(Rule.NOTHING),
        Event.CONNECTED: _always(Rule.NOTHING, Stage.LINKED),
    },
    Stage.WAITING: {
        **_BEFORE_IT_LISTENS,
        Event.NO_ROOM: _always(Rule.NOTHING),
        Event.PLACED: _always(Rule.SAY_ROOM, Stage.STARTING),
    },
    Stage.LINKED: {
        Event.RENEW: _renew(Rule.REPLACE),
        Event.RETIRE: _retire(Rule.STOP),
        Event.TOGETHER: Row(Cell(Rule.JOIN), Cell(Rule.JOIN), Cell(Rule.HANG_UP)),
        **_START_FAILS,
        **_REPORTS,
        Event.FAILED: Row(
            Cell(Rule.REMOVE, Stage.FAILED),
            Cell(Rule.REMOVE_AND_CLOSE, Stage.FAILED),
            Cell(Rule.REMOVE_AND_CLOSE, Stage.FAILED),
        ),
    },
    Stage.FAILED: {
        Event.RENEW: _renew(Rule.STOP),
        Event.RETIRE: _retire(Rule.STOP),
        **_REPORTS,
        Event.FAILED: Row(Cell(Rule.READ), Cell(Rule.CLOSE), Cell(Rule.CLOSE)),
    },
    Stage.ENDED: {
        Event.RENEW: _renew(Rule.HURRY),
        Event.RETIRE: _retire(Rule.HURRY),
        Event.KILLED_FAILING: Row(Cell(Rule.FAIL), Cell(Rule.NOTHING), Cell(Rule.NOTHING)),
        Event.ENDED: Row(Cell(Rule.SAY_DIED, Stage.IDLE), Cell(Rule.SUCCEED, Stage.IDLE), Cell(Rule.END, Stage.OVER)),
        Event.ENDED_FAILED: Row(Cell(Rule.END, Stage.OVER), Cell(Rule.SUCCEED, Stage.IDLE), Cell(Rule.END, Stage.OVER)),
    },
    Stage.OVER: {
        Event.RENEW: _renew(Rule.REFILL, Stage.IDLE),
        Event.RETIRE: _retire(Rule.NOTHING),
    },
}
"""Events that are not named cannot come."""

_REPORTED: Final = {"Stopped": Event.STOPPED, "Failed": Event.FAILED}


def reported(state: str) -> Event:
    """The event of a report in which the member is in this state."""
    return _REPORTED.get(state, Event.GOES_ON)


@dataclass(slots=True)
class SlotLife:
    """The stage of one slot, and the wish for it."""

    stage: Stage = Stage.IDLE
    wanted: Wanted = Wanted.MEMBER

    def hear(self, event: Event) -> Rule:
        """Go on to the next stage. Raises ValueError if the event cannot come now, and stays where it is."""
        row = TABLE[self.stage].get(event)
        if row is None:
            raise ValueError(f"{event.name} cannot come in {self.stage.value}")
        rule, stage, wanted = row.cell(self.wanted)
        self.stage, self.wanted = stage or self.stage, wanted or self.wanted
        return rule
