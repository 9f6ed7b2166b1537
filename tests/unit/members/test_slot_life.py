"""The life of a slot: every cell of its table, and what holds in all of them."""

from __future__ import annotations

import itertools

import pytest

from actors.members.pools.slot_life import TABLE, Event, Rule, SlotLife, Stage, Wanted, reported

# Stage and event; then the rule and what follows, if a member is wanted, a successor, or none.
# `-> STAGE` is the next stage, `+ WANTED` what is wanted from then on.
SAID = """
IDLE     RENEW          | HURRY + SUCCESSOR           | HURRY + SUCCESSOR             | NOTHING
IDLE     RETIRE         | HURRY + NONE                | HURRY + NONE                  | HURRY
IDLE     BEGIN          | ASK -> STARTING             | ASK_ANEW -> STARTING + MEMBER | LEAVE
IDLE     START_FAILED   | AGAIN -> IDLE               | AGAIN -> IDLE                 | AGAIN -> IDLE
IDLE     STARTS_FAILED  | GIVE_UP -> OVER             | AGAIN -> IDLE                 | GIVE_UP -> OVER
IDLE     RAY_LEFT       | GIVE_UP -> OVER             | GIVE_UP -> OVER               | GIVE_UP -> OVER

STARTING RENEW          | HURRY + SUCCESSOR           | HURRY + SUCCESSOR             | NOTHING
STARTING RETIRE         | HURRY + NONE                | HURRY + NONE                  | HURRY
STARTING LOOK           | LOOK                        | DROP -> IDLE                  | LEAVE
STARTING NO_ROOM        | SAY_WAITS -> WAITING        | SAY_WAITS -> WAITING          | SAY_WAITS -> WAITING
STARTING PLACED         | NOTHING                     | NOTHING                       | NOTHING
STARTING CONNECTED      | NOTHING -> LINKED           | NOTHING -> LINKED             | NOTHING -> LINKED
STARTING START_FAILED   | AGAIN -> IDLE               | AGAIN -> IDLE                 | AGAIN -> IDLE
STARTING STARTS_FAILED  | GIVE_UP -> OVER             | AGAIN -> IDLE                 | GIVE_UP -> OVER
STARTING RAY_LEFT       | GIVE_UP -> OVER             | GIVE_UP -> OVER               | GIVE_UP -> OVER

WAITING  RENEW          | HURRY + SUCCESSOR           | HURRY + SUCCESSOR             | NOTHING
WAITING  RETIRE         | HURRY + NONE                | HURRY + NONE                  | HURRY
WAITING  LOOK           | LOOK                        | DROP -> IDLE                  | LEAVE
WAITING  NO_ROOM        | NOTHING                     | NOTHING                       | NOTHING
WAITING  PLACED         | SAY_ROOM -> STARTING        | SAY_ROOM -> STARTING          | SAY_ROOM -> STARTING
WAITING  START_FAILED   | AGAIN -> IDLE               | AGAIN -> IDLE                 | AGAIN -> IDLE
WAITING  STARTS_FAILED  | GIVE_UP -> OVER             | AGAIN -> IDLE                 | GIVE_UP -> OVER
WAITING  RAY_LEFT       | GIVE_UP -> OVER             | GIVE_UP -> OVER               | GIVE_UP -> OVER

LINKED   RENEW          | REPLACE + SUCCESSOR         | REPLACE + SUCCESSOR           | NOTHING
LINKED   RETIRE         | STOP + NONE                 | STOP + NONE                   | STOP
LINKED   TOGETHER       | JOIN                        | JOIN                          | HANG_UP
LINKED   START_FAILED   | AGAIN -> IDLE               | AGAIN -> IDLE                 | AGAIN -> IDLE
LINKED   STARTS_FAILED  | GIVE_UP -> OVER             | AGAIN -> IDLE                 | GIVE_UP -> OVER
LINKED   RAY_LEFT       | GIVE_UP -> OVER             | GIVE_UP -> OVER               | GIVE_UP -> OVER
LINKED   GOES_ON        | READ                        | STOP                          | READ
LINKED   STOPPED        | READ                        | CLOSE                         | CLOSE
LINKED   FAILED         | REMOVE -> FAILED            | REMOVE_AND_CLOSE -> FAILED    | REMOVE_AND_CLOSE -> FAILED
LINKED   CLOSED         | NOTHING -> ENDED            | NOTHING -> ENDED              | NOTHING -> ENDED

FAILED   RENEW          | STOP + SUCCESSOR            | STOP + SUCCESSOR              | NOTHING
FAILED   RETIRE         | STOP + NONE                 | STOP + NONE                   | STOP
FAILED   GOES_ON        | READ                        | STOP                          | READ
FAILED   STOPPED        | READ                        | CLOSE                         | CLOSE
FAILED   FAILED         | READ                        | CLOSE                         | CLOSE
FAILED   CLOSED         | NOTHING -> ENDED            | NOTHING -> ENDED              | NOTHING -> ENDED

ENDED    RENEW          | HURRY + SUCCESSOR           | HURRY + SUCCESSOR             | NOTHING
ENDED    RETIRE         | HURRY + NONE                | HURRY + NONE                  | HURRY
ENDED    KILLED_FAILING | FAIL                        | NOTHING                       | NOTHING
ENDED    ENDED          | SAY_DIED -> IDLE            | SUCCEED -> IDLE               | END -> OVER
ENDED    ENDED_FAILED   | END -> OVER                 | SUCCEED -> IDLE               | END -> OVER

OVER     RENEW          | REFILL -> IDLE + SUCCESSOR  | REFILL -> IDLE + SUCCESSOR    | NOTHING
OVER     RETIRE         | NOTHING + NONE              | NOTHING + NONE                | NOTHING
"""

_Outcome = tuple[Rule, Stage, Wanted]


def cells() -> dict[tuple[Stage, Wanted, Event], _Outcome]:
    """All cells that are said above."""
    found = {}
    for line in filter(None, SAID.splitlines()):
        head, *outcomes = line.split("|")
        stage, event = head.split()
        for wanted, outcome in zip(Wanted, outcomes, strict=True):
            rest, _, then = outcome.partition("+")
            rule, _, to = rest.partition("->")
            follows = Stage[to.strip() or stage], Wanted[then.strip()] if then else wanted
            found[Stage[stage], wanted, Event[event]] = Rule[rule.strip()], *follows
    return found


CELLS = cells()


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("wanted", Wanted)
@pytest.mark.parametrize("event", Event)
def test_every_cell(stage: Stage, wanted: Wanted, event: Event) -> None:
    life = SlotLife(stage, wanted)
    if (said := CELLS.get((stage, wanted, event))) is not None:
        assert (life.hear(event), life.stage, life.wanted) == said
        return
    with pytest.raises(ValueError, match=f"{event.name} cannot come in {stage.name}"):
        life.hear(event)
    assert life == SlotLife(stage, wanted), "what cannot come changes nothing"


def test_every_event_and_every_rule_stands_in_the_table() -> None:
    assert {event for _, _, event in CELLS} == set(Event)
    assert {rule for rule, _, _ in CELLS.values()} == set(Rule)


def test_what_is_to_have_no_member_stays_so_and_asks_for_none() -> None:
    for stage, event in itertools.product(Stage, Event):
        if event in TABLE[stage]:
            life = SlotLife(stage, Wanted.NONE)
            assert life.hear(event) not in (Rule.ASK, Rule.ASK_ANEW, Rule.REFILL, Rule.REPLACE, Rule.JOIN)
            assert life.wanted is Wanted.NONE


def test_a_slot_can_be_renewed_and_retired_at_any_stage() -> None:
    for stage, wanted in itertools.product(Stage, Wanted):
        SlotLife(stage, wanted).hear(Event.RENEW)
        SlotLife(stage, wanted).hear(Event.RETIRE)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("Starting", Event.GOES_ON),
        ("Running", Event.GOES_ON),
        ("Failing", Event.GOES_ON),
        ("Stopped", Event.STOPPED),
        ("Failed", Event.FAILED),
    ],
)
def test_the_event_of_a_report(state: str, event: Event) -> None:
    assert reported(state) is event
