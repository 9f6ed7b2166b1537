"""A pool starts members, calls them, counts what they have handled, and ends those that hang. No Ray is started."""

from __future__ import annotations

import logging
import threading

import pytest
import ray
from ray.exceptions import RayActorError

from actors.client import ConsumerRecord
from actors.links.member import MemberAddress, MemberReport
from actors.members.member_link import MemberClient, MemberServer
from actors.members.pool import ConsumerPool
from actors.members.pools.consumer_actor import ActorStarter
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.members import PoolMembers
from actors.members.pools.slot_life import SlotLife, Stage
from actors.members.pools.slots import Slot, Together, Version
from actors.members.pools.supervision import Patience, Supervision
from tests.support.every_topic import EveryTopic
from tests.support.pool_slots import SECRET, Actor, Actors, Ends, Renewed, end, until


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


NO_PATIENCE = Patience(room_s=0.0)
"""An actor that has no node yet waits for one."""


def test_a_member_that_ray_has_no_room_for_waits_says_so_and_has_not_failed() -> None:
    """Four starts of two minutes each ended its slot, while Ray's autoscaler was still looking for a node."""
    actors = Actors(wait=True)
    slots = Ends(actors, MemberReport("Running"), MemberReport("Failed", "seen"), patience=NO_PATIENCE).slots
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


def test_members_of_one_change_join_together_and_wait_for_none_that_ray_has_no_room_for() -> None:
    """When each joined on its own, the group rebalanced for each."""
    actors = Actors(wait=True)
    slots = Ends(actors, MemberReport("Running"), MemberReport("Failed", "seen"), patience=NO_PATIENCE).slots
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


def test_a_member_that_is_not_wanted_any_more_waits_for_no_other_and_does_not_join() -> None:
    """It would have waited half a minute for one that is slow to start."""
    actors = Actors(wait=True)
    slots = Ends(actors, patience=Patience(together_s=3600.0)).slots
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
    monkeypatch.setattr(PoolMembers, "remove_members", lambda *_: None)
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
