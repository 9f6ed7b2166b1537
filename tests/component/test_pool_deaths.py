"""Deaths of a pool's members, and the records that were in hand: which count, and who hears of them. No Ray."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from actors.links.member import MemberReport
from actors.links.member_counts import Committing
from actors.links.member_deaths import Committed, InHand, Notes, Span
from actors.members.member_link import LEASE_SECONDS
from tests.support.pool_slots import Actors, Renewed, until

SPAN = Span("t", 0, 5, 9)
HAS_RECORDS = InHand((SPAN,))


class Dying(Renewed):
    """A pool of one, whose members say that they have records in hand, and die when the test wants."""

    def __init__(self) -> None:
        self.actors = Actors()
        super().__init__(self.actors)
        (self.slot,) = self.slots.add(1)
        self.slots.begin([self.slot])

    def die(self, *said: InHand | MemberReport | Committing, died: str | Exception | None = "it was gone") -> None:
        """The member says this, or that it has records in hand, and dies; its successor runs afterwards."""
        until(self.slots, lambda: self.slot.report.state == "Running" and self.slot.link is not None)
        count = len(self.actors.made)
        self.actors.made[-1].died = died
        for message in said or (HAS_RECORDS,):
            self.members[-1].send(message)
        self.members[-1].close()
        until(self.slots, lambda: len(self.actors.made) == count + 1 and self.slot.report.state == "Running")

    @property
    def counted(self) -> list[tuple[Span, int, str | None]]:
        return [(note.span, note.deaths, note.died) for note in self.actors.specs[-1].notes.notes]


@pytest.fixture
def dying() -> Iterator[Dying]:
    made = Dying()
    yield made
    made.slots.retire([made.slot], 0.0, why="over")
    for member in made.members:
        member.close()


def test_a_successor_knows_which_records_were_in_hand_of_those_that_died(dying: Dying) -> None:
    """It began with the same ones again, for ever."""
    dying.die()
    assert dying.counted == [(SPAN, 1, None)]
    dying.die()
    assert dying.counted == [(SPAN, 2, None)]
    dying.die(InHand((Span("t", 0, 5, 6),), alone=True))
    (first, rest) = dying.counted
    assert (first[0], rest) == (Span("t", 0, 5, 6), (Span("t", 0, 6, 9), 2, None))
    assert first[2] is not None
    assert "it was gone" in first[2]


@pytest.mark.parametrize("said", [InHand(), InHand((), handled=3)])
def test_the_death_of_an_idle_member_counts_against_no_record(dying: Dying, said: InHand) -> None:
    dying.die(said)
    assert dying.counted == []


def test_what_no_record_can_do_counts_against_none(dying: Dying) -> None:
    """Such ends are that of its node, or `ray.kill`."""
    dying.die(died=None)
    assert dying.counted == []


def test_a_member_that_ends_as_it_should_counts_against_no_record(dying: Dying) -> None:
    dying.die(HAS_RECORDS, MemberReport("Stopped"))
    assert dying.counted == []


def test_the_end_of_a_renewed_member_counts_against_no_record(dying: Dying) -> None:
    until(dying.slots, lambda: dying.slot.report.state == "Running")
    member = dying.members[-1]  # its successor may be the last one by the time that it ends
    member.send(InHand((SPAN,)))
    until(dying.slots, lambda: dying.slot.in_hand.spans)
    dying.slots.renew(dying.slot, dying.slot.version)
    member.close()
    # A successor that is not ready yet when the member ends is given up, and another one begins.
    until(dying.slots, lambda: len(dying.actors.made) >= 2 and dying.slot.report.state == "Running")
    assert dying.counted == []


def test_a_handler_that_runs_too_long_counts_as_a_death_and_says_by_which_setting(dying: Dying) -> None:
    """It was replaced for ever, as was one whose process had died."""
    for alone in (False, False, True):
        until(dying.slots, lambda: dying.slot.report.state == "Running" and dying.slot.link is not None)
        count = len(dying.actors.made)
        dying.members[-1].send(InHand((Span("t", 0, 5, 6),), alone))
        dying.members[-1].send(MemberReport("Running", handling_ms=300_001))
        until(dying.slots, lambda count=count: dying.actors.made[count - 1].killed)  # type: ignore[misc]
        dying.members[-1].close()
        until(dying.slots, lambda count=count: len(dying.actors.made) == count + 1)  # type: ignore[misc]
    ((span, deaths, died),) = dying.counted
    assert (span, deaths) == (Span("t", 0, 5, 6), 3)
    assert died is not None
    assert "max_poll_interval_ms=300000" in died


def test_members_that_live_hear_of_it_because_the_records_may_come_to_them() -> None:
    renewed = Renewed(Actors())
    first, second = [*renewed.slots.add(1), *renewed.slots.add(1)]
    for slot in (first, second):
        renewed.slots.begin([slot])
        until(renewed.slots, lambda slot=slot: slot.report.state == "Running")  # type: ignore[misc]
    dead, living = renewed.members
    dead.send(InHand((SPAN,)))
    dead.close()
    heard = living.read()
    assert isinstance(heard, Notes)
    assert [(note.span, note.deaths) for note in heard.notes] == [(SPAN, 1)]
    living.send(Committed("t", 0, 9))
    heard = living.read()
    assert isinstance(heard, Notes)
    assert heard.notes == ()
    renewed.slots.retire([first, second], 0.0, why="over")
    for member in renewed.members:
        member.close()


def test_a_death_of_which_ray_does_not_say_how_counts_against_no_record(dying: Dying) -> None:
    """Of a whole node that ends at once Ray knows seconds after the connections have ended."""
    dying.die(died=TimeoutError("Ray has not said how"))
    assert dying.counted == []
    assert any("Ray has not said how" in line.text for line in dying.slots.journal.read())


def test_the_end_by_a_pools_own_lease_counted_against_the_record_in_hand(dying: Dying) -> None:
    """Three freezes of the supervisor during one long record set it aside."""
    until(dying.slots, lambda: dying.slot.report.state == "Running" and dying.slot.link is not None)
    assert dying.slot.lease.look(time.monotonic() - LEASE_SECONDS, 0.0), "it was told then, and not since"
    dying.die()
    assert dying.counted == []
    assert any("has ended itself" in line.text for line in dying.slots.journal.read())
    dying.die()
    assert dying.counted == [(SPAN, 1, None)], "the successor has heard nothing of a lease"
