"""The life of a range member as tables: what it does with its batch, and with a commit that fails.

Pure: no consumer, no thread, no clock. `range_member` says what has happened, and carries the rules out.

    phase       the member                                        ends
    IDLE        is in its group, and has no batch                 BEGUN, or FINISH
    BATCH       is in its group; a batch is under way             FINISH, or OVERDUE
    FINISHING   has a commit to make                              SETTLED
    RESTING     has given everything up and left: a batch took    SUBSCRIBED
                longer than `batch.timeout.ms`
    ENDED       is over
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple


class Phase(Enum):
    """The phases of a member and its batch. See above."""

    IDLE = "IDLE"
    BATCH = "BATCH"
    FINISHING = "FINISHING"
    RESTING = "RESTING"
    ENDED = "ENDED"


class Event(Enum):
    """The events that a member hears of."""

    STEP = "nothing is to be done for anybody"
    BEGIN = "a batch is wanted"
    SUBSCRIBED = "the member takes part in its group again"
    BEGUN = "a batch has got its partitions"
    FINISH = "a batch has been done, and its commit is wanted"
    SETTLED = "the commit has been made, or never will be"
    OVERDUE = "the batch takes longer than it may"
    REVOKED = "partitions go to others"
    END = "the thread ends"


class Rule(Enum):
    """The member's next step."""

    NOTHING = "nothing"
    POLL = "poll, to take part in the group"
    REST = "wait until something is wanted"
    SUBSCRIBE = "join the group again; then SUBSCRIBED"
    TIME = "the batch's time begins"
    COMMIT = "commit what is due"
    DISCARD = "commit nothing: everything was given up"
    LEAVE = "give up all partitions, and leave the group"
    WAIT = "wait for the batch, if it may have any of them"


class Cell(NamedTuple):
    """The rule, and the next phase; None: as before."""

    rule: Rule
    phase: Phase | None = None


_END: Final = {Event.END: Cell(Rule.NOTHING, Phase.ENDED)}

TABLE: Final[Mapping[Phase, Mapping[Event, Cell]]] = {
    Phase.IDLE: {
        Event.STEP: Cell(Rule.POLL),
        Event.BEGIN: Cell(Rule.NOTHING),
        Event.BEGUN: Cell(Rule.TIME, Phase.BATCH),
        Event.FINISH: Cell(Rule.COMMIT, Phase.FINISHING),
        Event.REVOKED: Cell(Rule.NOTHING),
        **_END,
    },
    Phase.BATCH: {
        Event.STEP: Cell(Rule.POLL),
        Event.BEGIN: Cell(Rule.NOTHING),  # another one, in place of one that failed
        Event.BEGUN: Cell(Rule.TIME),
        Event.FINISH: Cell(Rule.COMMIT, Phase.FINISHING),
        Event.OVERDUE: Cell(Rule.LEAVE, Phase.RESTING),
        Event.REVOKED: Cell(Rule.WAIT),
        **_END,
    },
    Phase.FINISHING: {
        Event.SETTLED: Cell(Rule.NOTHING, Phase.IDLE),
        Event.REVOKED: Cell(Rule.COMMIT),
        **_END,
    },
    Phase.RESTING: {
        Event.STEP: Cell(Rule.REST),
        Event.BEGIN: Cell(Rule.SUBSCRIBE),
        Event.SUBSCRIBED: Cell(Rule.NOTHING, Phase.IDLE),
        Event.FINISH: Cell(Rule.DISCARD),
        Event.REVOKED: Cell(Rule.NOTHING),
        **_END,
    },
    Phase.ENDED: {
        Event.REVOKED: Cell(Rule.NOTHING),
    },
}
"""Events that are not named cannot come."""


@dataclass(slots=True)
class RangeLife:
    """The phase of one member."""

    phase: Phase = Phase.IDLE

    def hear(self, event: Event) -> Rule:
        """Go on to the next phase. Raises ValueError if the event cannot come now, and stays where it is."""
        cell = TABLE[self.phase].get(event)
        if cell is None:
            raise ValueError(f"{event.name} cannot come in {self.phase.value}")
        self.phase = cell.phase or self.phase
        return cell.rule


class Moment(Enum):
    """The moment at which a commit has failed."""

    CALLBACK = "in a callback of the consumer's, which cannot wait for a rebalance"
    GOING = "while the member goes on"
    STOPPING = "soon after the member was told to stop"
    LATE = "long after the member was told to stop"


class Failure(Enum):
    """The reason why a commit has failed."""

    REBALANCING = "the group rebalances, which lasts as long as the slowest member's poll interval"
    RETRIABLE = "the coordinator cannot be reached, or asks for another try"
    OVERDUE = "the same, for as long as a commit is tried"


class Retry(Enum):
    """The consequence of a failure for its commit."""

    AGAIN = "it is tried again"
    AGAIN_ANEW = "it is tried again, and its time begins anew"
    RAISE = "whoever has finished the batch is told"
    GIVE_UP = "it is said in the log that the batch comes again"
    END = "it does not count"


RETRIES: Final[Mapping[Moment, Mapping[Failure, Retry]]] = {
    Moment.CALLBACK: {
        Failure.REBALANCING: Retry.END,
        Failure.RETRIABLE: Retry.END,
        Failure.OVERDUE: Retry.END,
    },
    Moment.GOING: {
        Failure.REBALANCING: Retry.AGAIN_ANEW,
        Failure.RETRIABLE: Retry.AGAIN,
        Failure.OVERDUE: Retry.RAISE,
    },
    Moment.STOPPING: {
        Failure.REBALANCING: Retry.AGAIN_ANEW,
        Failure.RETRIABLE: Retry.GIVE_UP,
        Failure.OVERDUE: Retry.GIVE_UP,
    },
    Moment.LATE: {
        Failure.REBALANCING: Retry.GIVE_UP,
        Failure.RETRIABLE: Retry.GIVE_UP,
        Failure.OVERDUE: Retry.GIVE_UP,
    },
}


class Poll(Enum):
    """The state of the member's thread, for those that want to wake it up: a wake-up is for one poll, and sent once."""

    AWAY = "it does not poll, and looks for what is wanted when it has done what it does"
    POLLING = "it polls"
    WOKEN = "it polls, and has been woken up"
