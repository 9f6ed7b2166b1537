"""The life of a range member: every cell of its tables."""

from __future__ import annotations

import pytest

from actors.members.ranges.life import RETRIES, Event, Failure, Moment, Phase, RangeLife, Retry, Rule

# Phase and event; then the rule, and the next phase behind an arrow.
SAID = """
IDLE      STEP       | POLL
IDLE      BEGIN      | NOTHING
IDLE      BEGUN      | TIME -> BATCH
IDLE      FINISH     | COMMIT -> FINISHING
IDLE      REVOKED    | NOTHING
IDLE      END        | NOTHING -> ENDED

BATCH     STEP       | POLL
BATCH     BEGIN      | NOTHING
BATCH     BEGUN      | TIME
BATCH     FINISH     | COMMIT -> FINISHING
BATCH     OVERDUE    | LEAVE -> RESTING
BATCH     REVOKED    | WAIT
BATCH     END        | NOTHING -> ENDED

FINISHING SETTLED    | NOTHING -> IDLE
FINISHING REVOKED    | COMMIT
FINISHING END        | NOTHING -> ENDED

RESTING   STEP       | REST
RESTING   BEGIN      | SUBSCRIBE
RESTING   SUBSCRIBED | NOTHING -> IDLE
RESTING   FINISH     | DISCARD
RESTING   REVOKED    | NOTHING
RESTING   END        | NOTHING -> ENDED

ENDED     REVOKED    | NOTHING
"""


def cells() -> dict[tuple[Phase, Event], tuple[Rule, Phase]]:
    """All cells that are said above."""
    found = {}
    for line in filter(None, SAID.splitlines()):
        head, _, outcome = line.partition("|")
        phase, event = head.split()
        rule, _, to = outcome.partition("->")
        found[Phase[phase], Event[event]] = Rule[rule.strip()], Phase[to.strip() or phase]
    return found


CELLS = cells()


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", Event)
def test_every_cell(phase: Phase, event: Event) -> None:
    life = RangeLife(phase)
    if (said := CELLS.get((phase, event))) is not None:
        assert (life.hear(event), life.phase) == said
        return
    with pytest.raises(ValueError, match=f"{event.name} cannot come in {phase.name}"):
        life.hear(event)
    assert life.phase is phase, "what cannot come changes nothing"


def test_every_event_and_every_rule_stands_in_the_table() -> None:
    assert {event for _, event in CELLS} == set(Event)
    assert {rule for rule, _ in CELLS.values()} == set(Rule)


def test_partitions_may_be_revoked_and_the_thread_may_end_in_any_phase() -> None:
    for phase in Phase:
        RangeLife(phase).hear(Event.REVOKED)
        if phase is not Phase.ENDED:
            RangeLife(phase).hear(Event.END)


@pytest.mark.parametrize(
    ("moment", "rebalancing", "retriable", "overdue"),
    [
        (Moment.CALLBACK, Retry.END, Retry.END, Retry.END),
        (Moment.GOING, Retry.AGAIN_ANEW, Retry.AGAIN, Retry.RAISE),
        (Moment.STOPPING, Retry.AGAIN_ANEW, Retry.GIVE_UP, Retry.GIVE_UP),
        (Moment.LATE, Retry.GIVE_UP, Retry.GIVE_UP, Retry.GIVE_UP),
    ],
)
def test_a_commit_that_fails(moment: Moment, rebalancing: Retry, retriable: Retry, overdue: Retry) -> None:
    assert RETRIES[moment] == {
        Failure.REBALANCING: rebalancing,
        Failure.RETRIABLE: retriable,
        Failure.OVERDUE: overdue,
    }


def test_each_moment_and_each_failure_has_its_cell() -> None:
    assert {(moment, failure) for moment, row in RETRIES.items() for failure in row} == {
        (moment, failure) for moment in Moment for failure in Failure
    }
