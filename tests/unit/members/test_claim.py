"""The claim of a supervisor to a pool: every cell of its table, and the records that bring each event."""

from __future__ import annotations

import pytest

from actors.members.deployment.claim import Claim, Event, Here, Rule, Stage
from actors.members.deployment.records import Deployment, PoolRecord

HERE = Here(1, "node", "actor")
RESTARTED = Here(1, "node", "actor", restarted=True, after="before")

# Stage and event; then the rule, and the next stage behind an arrow.
SAID = """
STRANGER GONE      | FORGET
STRANGER MINE      | RULE -> RULING
STRANGER OTHERS    | CLAIM
STRANGER ELSEWHERE | END -> OVER
STRANGER WRITTEN   | NOTHING -> CLAIMED
STRANGER FORGOTTEN | END -> OVER

CLAIMED  GONE      | FORGET
CLAIMED  ANEW      | LOOK_AGAIN -> STRANGER
CLAIMED  MINE      | RULE -> RULING
CLAIMED  OTHERS    | WAIT
CLAIMED  ELSEWHERE | END -> OVER
CLAIMED  FORGOTTEN | END -> OVER

RULING   GONE      | DISMISS
RULING   ANEW      | DISMISS
RULING   MINE      | RULE
RULING   OTHERS    | SUPERSEDED
RULING   ELSEWHERE | SUPERSEDED
RULING   DISMISSED | NOTHING -> STRANGER
"""


def cells() -> dict[tuple[Stage, Event], tuple[Rule, Stage]]:
    """All cells of the table above."""
    found = {}
    for line in filter(None, SAID.splitlines()):
        head, _, outcome = line.partition("|")
        stage, event = head.split()
        rule, _, to = outcome.partition("->")
        found[Stage[stage], Event[event]] = Rule[rule.strip()], Stage[to.strip() or stage]
    return found


CELLS = cells()


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("event", Event)
def test_every_cell(stage: Stage, event: Event) -> None:
    claim = Claim("actor/1", HERE, stage)
    if (said := CELLS.get((stage, event))) is not None:
        assert (claim.hear(event), claim.stage) == said
        return
    with pytest.raises(ValueError, match=f"{event.name} cannot come in {stage.name}"):
        claim.hear(event)
    assert claim.stage is stage, "what cannot come changes nothing"


def test_every_event_and_every_rule_stands_in_the_table() -> None:
    assert {event for _, event in CELLS} == set(Event)
    assert {rule for rule, _ in CELLS.values()} == set(Rule)


def pool(term: str = "", incarnation: str = "one") -> PoolRecord:
    """A pool by its records."""
    made = Deployment(incarnation, "v1", 1, 0, "g", ("t",), 1, None, "h:1", {}, False, "3.11", b"body")
    return PoolRecord(made, term=term)


def ruling(incarnation: str = "one", here: Here = HERE) -> Claim:
    """The claim of one that looks after a pool."""
    claim = Claim("actor/1", here)
    assert claim.read(pool("", incarnation)) is Rule.CLAIM
    claim.written(incarnation)
    assert claim.read(pool("actor/1", incarnation)) is Rule.RULE
    return claim


def test_a_claim_counts_when_it_is_read_and_is_written_once() -> None:
    claim = Claim("actor/1", HERE)
    assert [claim.read(pool()), claim.read(pool())] == [Rule.CLAIM, Rule.CLAIM], "it could not be written"
    claim.written("one")
    assert claim.read(pool()) is Rule.WAIT
    assert claim.read(pool("other/1")) is Rule.WAIT
    assert claim.read(pool("actor/1")) is Rule.RULE
    assert claim.stage is Stage.RULING


def test_one_that_rules_is_superseded_by_another_term() -> None:
    claim = ruling()
    assert claim.read(pool("actor/1")) is Rule.RULE
    assert claim.read(pool("other/1")) is Rule.SUPERSEDED
    assert claim.read(pool("actor/2")) is Rule.SUPERSEDED, "the next process of its own actor"


def test_another_pool_of_the_name_is_claimed_anew_when_the_members_have_left() -> None:
    claim = ruling("one")
    assert [claim.read(pool("", "two")) for _ in range(2)] == [Rule.DISMISS, Rule.DISMISS], "they have not left"
    claim.hear(Event.DISMISSED)
    assert claim.read(pool("", "two")) is Rule.CLAIM
    claim.written("two")
    assert claim.read(pool("", "three")) is Rule.LOOK_AGAIN
    assert claim.read(pool("", "three")) is Rule.CLAIM


def test_a_pool_that_is_gone_is_forgotten_by_the_incarnation_that_was_ruled() -> None:
    claim = ruling("one")
    assert claim.read(None) is Rule.DISMISS
    claim.hear(Event.DISMISSED)
    assert [claim.read(None), claim.read(None)] == [Rule.FORGET, Rule.FORGET], "nobody could tell"
    assert claim.ruled == "one"
    claim.hear(Event.FORGOTTEN)
    assert claim.stage is Stage.OVER


@pytest.mark.parametrize(
    ("term", "rule"),
    [("", Rule.CLAIM), ("actor/0", Rule.CLAIM), ("before/0", Rule.CLAIM), ("another/0", Rule.END)],
)
def test_one_that_was_restarted_leaves_a_pool_to_an_actor_that_it_does_not_know(term: str, rule: Rule) -> None:
    assert Claim("actor/1", RESTARTED).read(pool(term)) is rule
    assert Claim("actor/1", HERE).read(pool(term)) is Rule.CLAIM
    assert ruling(here=RESTARTED).read(pool("another/0")) is Rule.SUPERSEDED
