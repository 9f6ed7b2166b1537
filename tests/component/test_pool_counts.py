"""A pool's count of the records that its members are done with: each once, and none is missing. No Ray."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.links.member import MemberReport
from actors.links.member_counts import Committing, Done
from actors.links.member_deaths import InHand
from actors.members.pools.handler_member import MemberSpec
from tests.component.test_pool_deaths import Dying
from tests.support.pool_slots import Actor, Actors, Renewed, until

FIRST = 7
"""The records that each member has handled by its first report."""
COMMITS = Committing(Done(40, 2))
HAS_HANDLED = MemberReport("Running", handled=60, dead_letters=3)


@pytest.fixture
def dying() -> Iterator[Dying]:
    made = Dying()
    yield made
    made.slots.retire([made.slot], 0.0, why="over")
    for member in made.members:
        member.close()


@pytest.mark.parametrize(
    "said",
    [
        (COMMITS, HAS_HANDLED),
        (HAS_HANDLED, COMMITS),
        (COMMITS, InHand((), handled=60, dead_letters=3)),
        (COMMITS, MemberReport("Running", handled=60, dead_letters=3, committing=Done(30))),
        (MemberReport("Running", handled=60, dead_letters=3, committing=COMMITS.done),),
        (COMMITS, MemberReport("Failing", handled=60, dead_letters=3)),
    ],
    ids=["then a report", "then the word", "in hand", "a report made before", "a report alone", "it fails"],
)
def test_what_a_dead_member_had_not_committed_was_counted_again_when_it_came_again(
    dying: Dying, said: tuple[MemberReport | InHand | Committing, ...]
) -> None:
    dying.die(*said)
    (status,) = [slot.status() for slot in dying.slots.all()]
    assert (status.handled, status.dead_letters) == (40 + FIRST, 2)
    assert dying.slots.done() == 42 + FIRST
    (figures,) = dying.slots.figures()
    assert (figures.handled, figures.dead_letters) == (60 + FIRST, 3), "a counter never goes down"
    assert dying.slots.totals()[0] == 60 + FIRST, "what they took, they took for all of these"


def test_each_death_counts_what_its_own_member_has_committed(dying: Dying) -> None:
    for _ in range(3):
        dying.die(COMMITS, HAS_HANDLED)
    assert dying.slots.done() == 3 * 42 + FIRST


@pytest.mark.parametrize("state", ["Stopped", "Failed"])
def test_what_a_member_has_left_to_others_does_not_count_when_it_ends(state: str) -> None:
    renewed = Renewed(Actors())
    (slot,) = renewed.slots.add(1)
    renewed.slots.begin([slot])
    until(renewed.slots, lambda: slot.report.state == "Running")
    slot.retire()
    renewed.members[0].send(MemberReport(state, handled=9, dead_letters=1, again=Done(2, 0)))
    renewed.members[0].close()
    until(renewed.slots, lambda: not slot.heard)
    assert renewed.slots.done() == 8
    renewed.slots.retire([slot], 0.0, why="over")
    assert renewed.slots.done() == 8


def test_a_partition_that_was_lost_before_a_commit_does_not_count_while_its_member_lives(dying: Dying) -> None:
    until(dying.slots, lambda: dying.slot.report.state == "Running")
    dying.members[-1].send(MemberReport("Running", handled=30, dead_letters=1, again=Done(10, 1)))
    until(dying.slots, lambda: dying.slots.done() == 20)
    assert dying.slots.totals()[0] == 30


def test_a_member_that_does_not_stop_in_time_is_heard_until_it_has_ended() -> None:
    """It may commit until it is killed. Its place is gone by then."""
    renewed = Renewed(Actors())
    (slot,) = renewed.slots.add(1)
    renewed.slots.begin([slot])
    until(renewed.slots, lambda: slot.report.state == "Running")
    renewed.slots.retire([slot], 0.05, why="over")
    assert renewed.slots.all() == []
    renewed.members[0].send(COMMITS)
    renewed.members[0].close()
    assert slot.thread is not None
    slot.thread.join(60)
    assert renewed.slots.done() == 42


class Refused(Actors):
    """Ray refuses the second start, once."""

    def start(self, spec: MemberSpec) -> Actor:
        if len(self.made) == 1 and not self.refused:
            self.refused = True
            raise ValueError("not now")
        return super().start(spec)

    refused = False


def test_what_a_member_had_handled_was_forgotten_when_its_successor_could_not_be_started() -> None:
    actors = Refused()
    renewed = Renewed(actors)
    (slot,) = renewed.slots.add(1)
    renewed.slots.begin([slot])
    until(renewed.slots, lambda: slot.report.state == "Running")
    renewed.members[0].send(COMMITS)
    renewed.members[0].send(HAS_HANDLED)
    renewed.members[0].close()
    until(renewed.slots, lambda: len(actors.made) == 2 and slot.report.state == "Running")
    assert actors.refused
    assert (renewed.slots.done(), renewed.slots.totals()[0]) == (42 + FIRST, 60 + FIRST)
    renewed.slots.retire([slot], 0.0, why="over")
    renewed.members[1].close()
