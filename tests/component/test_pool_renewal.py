"""A member of a pool has a successor of another version, which is set up beside it. No Ray is started."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from dataclasses import replace

import pytest

from actors.links.member import Join, MemberAddress, MemberConnection, MemberReport, StopMember
from actors.members.member_link import MemberClient
from actors.members.pools.handler_member import READY, MemberSpec
from actors.members.pools.slots import Asked, Slot, Version
from actors.members.pools.standby import Standbys
from tests.support.pool_slots import HERE, SPEC, Actor, Actors, Renewed, end, until


def test_a_renewed_member_finishes_first_and_its_successor_has_its_place_and_the_new_version() -> None:
    old, new = Actors(), Actors()
    renewed = Renewed(old)
    slots = renewed.slots
    (slot,) = slots.add(1)
    slots.begin([slot])
    until(slots, lambda: slot.report.state == "Running")
    slots.renew(slot, Version(MemberSpec(("t",), "g", "host:1"), new, "second"))
    member = renewed.members[0]
    assert isinstance(member.read(), StopMember)
    (ready,), (_, waiting) = new.made, renewed.members
    assert not renewed.is_told(1)
    assert ready.served == [], "the one before may still handle a record: its successor is not told to join"
    member.send(MemberReport("Stopped", handled=9))
    member.close()
    until(slots, lambda: slot.actor is ready and slot.report.state == "Running")
    assert isinstance(waiting.read(), Join)
    assert old.made[0].killed
    assert new.specs[0].options["group_instance_id"] == old.specs[0].options["group_instance_id"] == "g-1-0"
    assert (slot.version.mark, slot.since.handled, slot.handled) == ("second", 9, 16)
    assert renewed.removed == [], "the group notices nothing"
    end(slots, renewed)


def renewing(new: Actors) -> tuple[Renewed, Slot]:
    """A member that runs, and its successor, which is of a new version."""
    renewed = Renewed(Actors())
    slot = begun(renewed)
    renewed.slots.renew(slot, second(new))
    return renewed, slot


def second(actors: Actors) -> Version:
    return Version(SPEC, actors, "second")


def begun(renewed: Renewed) -> Slot:
    """One more member, which runs."""
    (slot,) = renewed.slots.add(1)
    renewed.slots.begin([slot])
    until(renewed.slots, lambda: slot.report.state == "Running")
    return slot


def stops(member: MemberConnection) -> None:
    """It is told to stop, and does."""
    assert isinstance(member.read(), StopMember)
    member.send(MemberReport("Stopped"))
    member.close()


def test_a_member_works_on_until_its_successor_is_ready_to_take_its_place() -> None:
    """Its partitions were without an owner for as long as a process takes to start, and a handler to be made."""
    new = Actors(wait=True)
    renewed, slot = renewing(new)
    member, (ready,) = renewed.members[0], new.made
    ready.placed.set()
    for handled in range(8, 12):
        member.send(MemberReport("Running", handled=handled))
        until(renewed.slots, lambda handled=handled: slot.report.handled == handled)
    assert not renewed.is_told(0)
    assert slot.renewed_at == math.inf, "no drain is overdue that has not begun"
    ready.listens.set()
    stops(member)
    until(renewed.slots, lambda: slot.actor is ready and slot.report.state == "Running")
    assert isinstance(renewed.members[1].read(), Join)
    assert (len(new.made), len(renewed.members)) == (1, 2), "nobody else was started"
    assert slot.renewed_at < math.inf
    end(renewed.slots, renewed)


def test_where_there_is_no_room_for_both_the_member_ends_first_and_the_next_one_at_once() -> None:
    """Ray places a successor when the member before it has gone. The next slot does not wait in vain again."""
    new = Actors(wait=True)
    renewed = Renewed(Actors())
    standbys = Standbys(renewed.slots.changed, time.monotonic, lambda _: pytest.fail("it has no room"), room_s=0.0)
    slots = [begun(renewed), begun(renewed)]
    for slot, member in zip(slots, renewed.members, strict=True):
        with renewed.slots.changed:
            slot.renew(second(new), time.monotonic())
            asked = standbys.begin(slot, lambda slot: Asked(new.start(SPEC), SPEC, slot.version))
        if slot is slots[0]:
            assert asked
            assert isinstance(member.read(), StopMember)
            assert new.made[0].killed
        assert asked is (slot is slots[0])
        assert slot.standby is None
    for slot in slots:
        slot.retire()
    renewed.members[0].close()
    end(renewed.slots, renewed)


def test_a_successor_that_cannot_start_beside_its_member_is_tried_again_without_it() -> None:
    class Unplaceable(Actors):
        def start(self, spec: MemberSpec) -> Actor:
            if not self.specs:
                self.specs.append(spec)
                raise ConnectionError("no such node")
            return super().start(spec)

    new = Unplaceable()
    renewed, slot = renewing(new)
    stops(renewed.members[0])
    until(renewed.slots, lambda: slot.actor in new.made and slot.report.state == "Running")
    end(renewed.slots, renewed)


@pytest.mark.parametrize("how", ["another version", "the pool stops"])
def test_a_successor_that_is_not_wanted_any_more_is_ended(how: str) -> None:
    new, newer = Actors(wait=True), Actors()
    renewed, slot = renewing(new)
    if how == "another version":
        renewed.slots.renew(slot, Version(MemberSpec(("t",), "g", "host:1"), newer, "third"))
        stops(renewed.members[0])
        until(renewed.slots, lambda: slot.actor in newer.made and slot.report.state == "Running")
    else:
        slot.retire()
        renewed.members[0].close()
    end(renewed.slots, renewed)
    assert new.made[0].killed
    assert new.made[0].served == []


def test_a_member_that_dies_while_its_successor_starts_has_another_one_at_once() -> None:
    new = Actors(wait=True)
    renewed, slot = renewing(new)
    renewed.members[0].close()
    until(renewed.slots, lambda: slot.actor in new.made)
    assert slot.actor is new.made[1]
    for each in new.made:
        each.placed.set()
        each.listens.set()
    until(renewed.slots, lambda: slot.report.state == "Running")
    assert [each.killed for each in new.made] == [True, False]
    other = begun(renewed)
    renewed.slots.renew(other, slot.version)
    assert other.standby is not None, "it had no fault of its own"
    end(renewed.slots, renewed)


def test_a_version_that_cannot_be_set_up_beside_its_predecessor_is_tried_alone() -> None:
    """It may want what the one before has: a lock, a port, the memory of a GPU."""
    new = Actors()
    renewed = Renewed(Actors())
    (slot,) = renewed.slots.add(1)
    renewed.slots.begin([slot])
    until(renewed.slots, lambda: slot.report.state == "Running")
    renewed.states = ["Failed", "Running"]
    renewed.slots.renew(slot, second(new))
    assert isinstance(renewed.members[0].read(), StopMember)
    renewed.states = [READY, "Running"]
    renewed.members[0].send(MemberReport("Stopped"))
    renewed.members[0].close()
    until(renewed.slots, lambda: slot.actor in new.made[1:] and slot.report.state == "Running")
    assert [each.killed for each in new.made] == [True, False]
    assert renewed.removed == []
    end(renewed.slots, renewed)


@pytest.mark.parametrize("says", ["nothing", "that it starts", "that it has failed"])
def test_a_setup_that_did_not_end_beside_its_predecessor_held_a_rollout_up_for_ever_or_at_each_member(
    says: str,
) -> None:
    """It waits for what the one before has, or its process stands still. Nobody could go back from it either."""
    new = Actors()
    renewed = Renewed(Actors())
    ended = threading.Event()
    talking: list[threading.Thread] = []

    def connect(_: MemberAddress) -> MemberClient:
        ours, theirs = socket.socketpair()
        member = MemberConnection(theirs)
        if says == "that it has failed":
            member.send(MemberReport("Failed", "locked"))
        elif says == "that it starts":
            talking.append(threading.Thread(target=goes_on, args=(member,)))
            talking[-1].start()
        kept.append(member)
        return MemberClient(MemberConnection(ours))

    def goes_on(member: MemberConnection) -> None:
        while not ended.wait(0.01):
            with contextlib.suppress(OSError):
                member.send(MemberReport("Starting"))

    kept: list[MemberConnection] = []
    standbys = Standbys(renewed.slots.changed, time.monotonic, connect, give_up_s=0.3)
    hasty = MemberSpec(("t",), "g", "host:1", options={"max_poll_interval_ms": 300})
    slots = [begun(renewed), begun(renewed)]
    for slot, member in zip(slots, list(renewed.members), strict=True):
        with renewed.slots.changed:
            slot.renew(second(new), time.monotonic())
            asked = standbys.begin(slot, lambda slot: Asked(new.start(SPEC), hasty, slot.version))
        if asked:
            assert isinstance(member.read(), StopMember)
        assert asked is (slot is slots[0]), "the next one ends at once"
        assert slot.standby is None
    assert [actor.killed for actor in new.made] == [True]
    ended.set()
    for thread in talking:
        thread.join(60)
    for slot in slots:
        slot.retire()
    renewed.members[0].close()
    end(renewed.slots, renewed)


@pytest.mark.parametrize("why", ["it goes back", "the version says so"])
def test_a_member_whose_successor_may_not_be_beside_it_is_told_to_stop_at_once(why: str) -> None:
    """A bad version went on making dead letters while the version before it was set up again."""
    new = Actors(wait=True)
    renewed = Renewed(Actors())
    slot = begun(renewed)
    alone = Version(replace(SPEC, setup_overlap=False), new, "second")
    if why == "it goes back":
        renewed.slots.renew(slot, second(new), beside=False)
    else:
        renewed.slots.renew(slot, alone)
    assert renewed.is_told(0)
    assert new.made == []
    stops(renewed.members[0])
    until(renewed.slots, lambda: len(new.made) == 1)
    new.made[0].placed.set()
    new.made[0].listens.set()
    until(renewed.slots, lambda: slot.actor is new.made[0] and slot.report.state == "Running")
    end(renewed.slots, renewed)


def test_a_successor_that_was_ready_and_cannot_be_reached_any_more_leaves_no_connection_behind() -> None:
    class Gone(Actors):
        def start(self, spec: MemberSpec) -> Actor:
            actor = super().start(spec)
            if len(self.made) == 1:
                asked: list[float] = []

                def address(timeout_s: float) -> MemberAddress | None:
                    asked.append(timeout_s)
                    if len(asked) > 1:
                        raise ConnectionError("its node is gone")
                    return HERE

                actor.address = address  # type: ignore[method-assign]
            return actor

    new = Gone()
    renewed, slot = renewing(new)
    stops(renewed.members[0])
    until(renewed.slots, lambda: slot.actor in new.made[1:] and slot.report.state == "Running")
    with pytest.raises((OSError, EOFError)):
        renewed.members[1].read()
    end(renewed.slots, renewed)
