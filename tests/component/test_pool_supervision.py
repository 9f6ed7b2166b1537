"""A pool and its connections to members. No Ray is started: a member's end is in this process."""

from __future__ import annotations

import contextlib
import logging
import math
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import ray
from ray.exceptions import RayActorError

from actors.client import ConsumerRecord
from actors.links.member import Join, MemberAddress, MemberConnection, MemberReport, StopMember
from actors.members import supervision
from actors.members.consumer_actor import ActorStarter
from actors.members.crew import Crew
from actors.members.handler_member import READY, MemberSpec
from actors.members.member_link import MemberClient, MemberServer
from actors.members.pool import ConsumerPool
from actors.members.slot_life import SlotLife, Stage
from actors.members.slots import Asked, Slot, Together, Version
from actors.members.standby import Standbys
from actors.members.supervision import Supervision
from tests.support.every_topic import EveryTopic

SECRET = b"s" * 16


HERE = MemberAddress("127.0.0.1", 0, 1, "node", SECRET)


class Actor:
    """An actor that listens as soon as `listens` is set, and has a node once `placed` is."""

    def __init__(self) -> None:
        self.listens = threading.Event()
        self.placed = threading.Event()
        self.killed = False
        self.served: list[float] = []
        self.died: str | Exception | None = "it was gone"

    def address(self, timeout_s: float) -> MemberAddress | None:
        return HERE if self.listens.wait(min(timeout_s, 0.01)) else None

    def is_placed(self) -> bool:
        return self.placed.is_set()

    def serve(self, *, wait: bool = False) -> None:
        if not wait:
            self.served.append(time.monotonic())

    def kill(self) -> None:
        self.killed = True

    def how_it_died(self, timeout_s: float) -> str | None:
        if isinstance(self.died, Exception):
            raise self.died
        return self.died


class Actors:
    """Starts actors; all at once unless `wait` is set."""

    wants = "num_gpus=1"

    def __init__(self, *, wait: bool = False) -> None:
        self.made: list[Actor] = []
        self.specs: list[MemberSpec] = []
        self._wait = wait

    def start(self, spec: MemberSpec) -> Actor:
        actor = Actor()
        if not self._wait:
            actor.placed.set()
            actor.listens.set()
        self.made.append(actor)
        self.specs.append(spec)
        return actor


class Ends:
    """Slots whose members are sockets that say what the test wants."""

    def __init__(self, actors: Actors, *reports: MemberReport) -> None:
        self.removed: list[str] = []
        self.reasons: list[str] = []
        self._reports = reports
        self.slots = Supervision(
            Version(MemberSpec(("t",), "g", "host:1"), actors),
            self._remove,
            instance_prefix="g-1",
            monotonic=time.monotonic,
            connect=self._connect,
        )

    def _remove(self, instance_ids: list[str], why: str) -> None:
        self.removed.extend(instance_ids)
        self.reasons.append(why)

    def _connect(self, _: MemberAddress) -> MemberClient:
        ours, theirs = socket.socketpair()
        member = MemberConnection(theirs)
        for report in self._reports:
            member.send(report)
        member.close()
        theirs.close()
        return MemberClient(MemberConnection(ours))


def test_a_member_that_failed_for_good_leaves_the_group() -> None:
    """As a static member it would keep its partitions, and every rebalance waiting, until its session ends."""
    ends = Ends(Actors(), MemberReport("Running"), MemberReport("Failed", "bad record"))
    (slot,) = ends.slots.add(1)
    ends.slots.supervise(slot)
    assert ends.removed == ["g-1-0"]
    assert ends.reasons == ["its member in the pool has failed"]
    assert slot.report.state == "Failed"


def test_a_call_after_a_members_death_waits_for_its_successor() -> None:
    """Until the successor was started it went to the dead member's link, and said that the member had ended."""

    class Dying(Actors):
        def start(self, spec: MemberSpec) -> Actor:
            links.append(slot.link)
            if len(links) == 2:
                slot.retire()
                raise ConnectionError("enough has been seen")
            return super().start(spec)

    links: list[MemberClient | None] = []
    slots = Ends(Dying(), MemberReport("Running")).slots
    (slot,) = slots.add(1)
    slots.supervise(slot)
    assert links == [None, None]


def test_a_call_after_a_member_that_could_not_join_waits_for_its_successor() -> None:
    """Its connection stayed the slot's, although its process was ended: a call went there, and said so."""

    class Deaf(Actor):
        def serve(self, *, wait: bool = False) -> None:
            raise ConnectionError("it does not hear")

    class Starting(Actors):
        def start(self, spec: MemberSpec) -> Actor:
            links.append(slot.link)
            slot.hurry.set()  # no pause before the next one
            if len(links) == 2:
                slot.retire()
                raise ConnectionError("enough has been seen")
            actor = Deaf()
            actor.placed.set()
            actor.listens.set()
            return actor

    links: list[MemberClient | None] = []
    slots = Ends(Starting(), MemberReport("Running")).slots
    (slot,) = slots.add(1)
    slots.supervise(slot)
    assert links == [None, None]


def until(slots: Supervision, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    with slots.changed:
        while not condition():
            assert time.monotonic() < deadline
            slots.changed.wait(0.05)  # of an actor's end nobody is told


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor that has no node yet waits for one."""
    monkeypatch.setattr(supervision, "_ROOM_SECONDS", 0.0)


@pytest.mark.usefixtures("no_patience")
def test_a_member_that_ray_has_no_room_for_waits_says_so_and_has_not_failed() -> None:
    """Four starts of two minutes each ended its slot, while Ray's autoscaler was still looking for a node."""
    actors = Actors(wait=True)
    slots = Ends(actors, MemberReport("Running"), MemberReport("Failed", "seen")).slots
    (slot,) = slots.add(1)
    slots.begin([slot])
    until(slots, lambda: slot.waits)
    status = slot.status()
    assert status.state == "Starting"
    assert status.error is not None
    assert "num_gpus=1" in status.error
    actors.made[0].placed.set()
    actors.made[0].listens.set()
    until(slots, lambda: slot.report.state == "Failed")
    assert len(actors.made) == 1
    assert not slot.waits


@pytest.mark.usefixtures("no_patience")
def test_members_of_one_change_join_together_and_wait_for_none_that_ray_has_no_room_for() -> None:
    """When each joined on its own, the group rebalanced for each."""
    actors = Actors(wait=True)
    slots = Ends(actors, MemberReport("Running"), MemberReport("Failed", "seen")).slots
    first, second, third = slots.add(3)
    slots.begin([first, second, third])
    until(slots, lambda: first.waits and second.waits and third.waits)
    together = Together(2)
    first.together = second.together = together  # as if those had not been waited for yet
    for actor in actors.made[:2]:
        actor.placed.set()
    quick, slow = actors.made[:2]
    quick.listens.set()
    until(slots, lambda: any(slot.link is not None for slot in (first, second)))
    assert not quick.served, "the other one is starting"
    slow.listens.set()
    until(slots, lambda: first.failed and second.failed)
    assert quick.served
    assert slow.served
    assert third.waits
    slots.retire([third], 60.0, why="over")
    assert actors.made[2].killed


def test_a_member_that_is_not_wanted_any_more_waits_for_no_other_and_does_not_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would have waited half a minute for one that is slow to start."""
    monkeypatch.setattr(supervision, "_TOGETHER_SECONDS", 3600.0)
    actors = Actors(wait=True)
    slots = Ends(actors).slots
    slow, quick = slots.add(2)
    slots.begin([slow, quick])
    until(slots, lambda: slow.actor is not None and quick.actor is not None)
    assert isinstance(quick.actor, Actor)
    for actor in actors.made:
        actor.placed.set()
    quick.actor.listens.set()
    until(slots, lambda: quick.link is not None)
    slots.retire([quick], 30.0, why="over")
    assert quick.thread is not None
    assert not quick.thread.is_alive()
    assert not quick.actor.served
    assert quick.actor.killed
    assert slow.link is None, "and that is still starting"
    slots.retire([slow], 60.0, why="over")


def test_a_place_without_a_member_goes_first() -> None:
    slots = Ends(Actors()).slots
    places = slots.add(3)
    places[1].life = SlotLife(Stage.WAITING)
    assert slots.surplus(2) == [places[1]]
    assert slots.surplus(1) == [places[2], places[1]]


def test_what_members_have_handled_is_counted_when_they_have_gone() -> None:
    """A pool that shrank had handled less than before."""
    ends = Ends(Actors(), MemberReport("Running"), MemberReport("Failed", "seen", handled=7, busy_ms=1500))
    (slot,) = ends.slots.add(1)
    ends.slots.supervise(slot)
    assert ends.slots.totals() == (7, 1.5)
    ends.slots.retire([slot], 60.0, why="over")
    assert len(ends.slots) == 0
    assert ends.slots.totals() == (7, 1.5)


SPEC = MemberSpec(("t",), "g", "host:1")


class Renewed(Ends):
    """Slots whose members stop when they are told to, or end by themselves."""

    def __init__(self, actors: Actors) -> None:
        super().__init__(actors)
        self.members: list[MemberConnection] = []
        # Of a successor the first one is awaited before its turn, and the other one is reported after.
        self.states = [READY, "Running"]
        self._sockets: list[socket.socket] = []

    def is_told(self, number: int) -> bool:
        """True if a member has been sent something that it has not read."""
        return bool(select.select([self._sockets[number]], [], [], 0)[0])

    def _connect(self, _: MemberAddress) -> MemberClient:
        ours, theirs = socket.socketpair()
        member = MemberConnection(theirs)
        for state in self.states:
            member.send(MemberReport(state, handled=7))
        self.members.append(member)
        self._sockets.append(theirs)
        return MemberClient(MemberConnection(ours))


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


def test_no_successor_begins_before_a_killed_process_has_gone() -> None:
    """It may handle a record until then. Its end is that of its connection."""
    actors = Actors()
    renewed = Renewed(actors)
    slots = renewed.slots
    (slot,) = slots.add(1)
    slots.begin([slot])
    until(slots, lambda: slot.report.state == "Running")
    (hung,) = renewed.members
    hung.send(MemberReport("Running", handling_ms=300_001))
    until(slots, lambda: actors.made[0].killed and slot.link is None)
    hung.send(MemberReport("Running", handling_ms=300_002))
    assert len(actors.made) == 1
    hung.close()
    until(slots, lambda: len(actors.made) == 2 and slot.report.state == "Running")
    end(slots, renewed)


def notes(slots: Supervision) -> list[str]:
    return [line.text for line in slots.journal.read()]


def killed(slots: Supervision) -> list[str]:
    return [text.partition("is killed by its pool: ")[2] for text in notes(slots) if "is killed by its pool" in text]


def renewed_and_running() -> tuple[Actors, Renewed, Slot]:
    actors = Actors()
    renewed = Renewed(actors)
    (slot,) = renewed.slots.add(1)
    renewed.slots.begin([slot])
    until(renewed.slots, lambda: slot.report.state == "Running")
    return actors, renewed, slot


def test_a_pool_that_kills_a_member_does_not_say_that_it_has_died() -> None:
    """Whoever read it looked for a crash."""
    actors, renewed, slot = renewed_and_running()
    (hung,) = renewed.members
    hung.send(MemberReport("Running", handling_ms=300_001))
    until(renewed.slots, lambda: actors.made[0].killed)
    hung.close()
    until(renewed.slots, lambda: len(actors.made) == 2 and slot.report.state == "Running")
    assert killed(renewed.slots) == [
        "its handler has been running for 300001 ms, longer than max_poll_interval_ms=300000"
    ]
    renewed.slots.end_now(slot, "some other reason")
    renewed.members[1].close()
    until(renewed.slots, lambda: len(actors.made) == 3 and slot.report.state == "Running")
    assert killed(renewed.slots)[1:] == ["some other reason"]
    assert not any("has died" in text for text in notes(renewed.slots))
    renewed.members[2].close()
    until(renewed.slots, lambda: len(actors.made) == 4 and slot.report.state == "Running")
    assert len(killed(renewed.slots)) == 2, "this one has died by itself"
    assert any("has died" in text for text in notes(renewed.slots))
    end(renewed.slots, renewed)


def test_a_member_that_does_not_finish_in_time_is_killed_and_it_is_said_by_which_setting() -> None:
    actors, renewed, slot = renewed_and_running()
    renewed.slots.retire([slot], 0.05, why="over", limit="drain_timeout_s")
    assert actors.made[0].killed
    (why,) = killed(renewed.slots)
    assert why.endswith("0.05 s after it was told to stop (drain_timeout_s=0.05)")
    renewed.members[0].close()
    assert slot.thread is not None
    slot.thread.join(60)


def test_a_place_that_was_given_up_is_filled_again_by_another_version() -> None:
    ends = Ends(Actors(), MemberReport("Running"), MemberReport("Failed", "bad record"))
    (slot,) = ends.slots.add(1)
    ends.slots.supervise(slot)
    assert slot.over
    new = Actors()
    ends.slots.renew(slot, Version(MemberSpec(("t",), "g", "host:1"), new, "second"))
    until(ends.slots, lambda: len(new.made) == 1 and slot.over)
    assert ends.removed == ["g-1-0", "g-1-0"], "it has failed again"


def end(slots: Supervision, renewed: Renewed) -> None:
    """Have the members stop, so that no thread is left."""
    for slot in slots.all():
        slot.retire()
    for member in renewed.members[1:]:
        member.close()
    slots.retire(slots.all(), 60.0, why="over")


class Counter:
    """A member and its handler. A call is answered only after a report that was made later than the call came."""

    def __init__(self) -> None:
        self._calls = 0
        self._reports = 0
        self._reported = threading.Condition()
        self.stopped = threading.Event()

    def count(self) -> int:
        with self._reported:
            enough = self._reports + 2  # when the second is made, the first has been sent
            assert self._reported.wait_for(lambda: self._reports >= enough, 60)
            self._calls += 1
            return self._calls

    def report(self) -> MemberReport:
        with self._reported:
            self._reports += 1
            self._reported.notify_all()
        return MemberReport("Stopped" if self.stopped.is_set() else "Running")


class Member(Actor):
    """A member that listens in this process."""

    def __init__(self, _spec: MemberSpec) -> None:
        super().__init__()
        counter = Counter()
        server = MemberServer("127.0.0.1", SECRET, counter, counter.report, counter.stopped.set)
        self._where = MemberAddress("127.0.0.1", server.port, 1, "node", SECRET)

    def address(self, timeout_s: float) -> MemberAddress | None:
        return self._where


def ignore(_: ConsumerRecord) -> None: ...


def test_what_a_pool_waits_for_may_be_what_its_members_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wait` kept the pool's lock while it asked, and the answers came behind a report that needed the lock."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ActorStarter, "start", lambda _, spec: Member(spec))
    monkeypatch.setattr(Crew, "remove_members", lambda *_: None)
    pool = ConsumerPool("t", "g", ignore, 2, bootstrap_servers="localhost:1", ask=EveryTopic)
    over: list[bool] = []

    def wait() -> None:
        over.append(pool.wait(until=lambda: sum(pool.call("count")) >= 4, timeout_s=60))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(60)
    assert over == [True]  # not in a `with` of the pool: while `wait` is stuck, `stop` would be, too
    pool.stop()


OF_RAY = """The actor died because of an error raised in its creation task, ray::ConsumerActor.__init__() (pid=1)
  File "consumer_actor.py", line 47, in __init__
    self._member = MemberLoop(spec, handler)
actors.client.errors.ConfigurationError: ssl_cafile=/nope.pem cannot be read: No such file or directory"""


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RayActorError(error_msg=OF_RAY), "ssl_cafile=/nope.pem cannot be read: No such file or directory"),
        (OSError("the pool\ncannot be reached"), "OSError: the pool cannot be reached"),
    ],
)
def test_a_start_that_fails_is_said_once_and_in_one_line(
    error: Exception, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray's traceback of the member's process stood in the log once for each of its four starts."""

    class Fails(Actors):
        starts = 0

        def start(self, spec: MemberSpec) -> Actor:
            self.starts += 1
            slot.hurry.set()  # no pause before the next one
            raise error

    actors = Fails()
    ends = Ends(actors)
    (slot,) = ends.slots.add(1)
    ends.slots.supervise(slot)
    assert (actors.starts, slot.report.state, slot.report.error) == (4, "Failed", why)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO] == [
        f"slot 0 of group g could not be started: {why}"
    ]
