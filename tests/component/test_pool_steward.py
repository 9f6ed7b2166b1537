"""A supervisor's work without Ray and brokers: the topic is in memory, members are sockets of this process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from ray import cloudpickle

from actors.client.errors import KafkaTimeoutError
from actors.links.member import MemberAddress, MemberReport
from actors.links.member_deaths import InHand, Span
from actors.members.autoscale import Autoscale
from actors.members.consumer_actor import ActorStarter
from actors.members.crew import Crew
from actors.members.deployment.description import PoolDescription, PoolState
from actors.members.deployment.records import (
    Deployment,
    Good,
    Pause,
    Progress,
    Restart,
    Size,
    Term,
    autoscale_values,
    keys_of,
)
from actors.members.deployment.steward import Here, Steward
from actors.members.handler_member import READY, MemberSpec
from actors.members.member_link import MemberServer
from actors.members.plan import PoolError
from tests.support.pools_topic import MemoryTopic

SECRET = b"s" * 16
NAME = "p"


class Member:
    """A member that listens in this process. The first of its `handler_args` says how it is."""

    def __init__(self, spec: MemberSpec, world: World) -> None:
        self.how: str = spec.handler_args[0]
        self.instance_id: str = spec.options["group_instance_id"]
        self.ended = threading.Event()
        self.notes = spec.notes
        self._killed = False
        self._world = world
        world.members.append(self)
        self._served = self._ready = False
        self._server = MemberServer(
            *("127.0.0.1", SECRET, self, self.report, self.ended.set),
            lost=lambda: world.lost.append(self.instance_id),
            join=self._begin,
        )

    def report(self) -> MemberReport:
        if self._killed:
            sys.exit()  # so the connection ends
        if not self._served:
            return MemberReport(READY if self._ready else "Starting")
        if self.how == "letters":
            return MemberReport("Stopped" if self.ended.is_set() else "Running", dead_letters=20)
        if self.how == "bad":
            return MemberReport("Failed", "it is bad")
        if self.ended.is_set():
            return MemberReport("Stopped", handled=1)
        return MemberReport("Running", handled=1)

    def address(self, timeout_s: float) -> MemberAddress | None:
        return MemberAddress("127.0.0.1", self._server.port, 1, "node", SECRET)

    def is_placed(self) -> bool:
        return True

    def serve(self, *, wait: bool = False) -> None:
        if wait:
            self._ready = True
            self._world.beside.append(f"{self.instance_id}:{self.how}")
        else:
            self._begin()

    def _begin(self) -> None:
        self._served = True
        self._world.begun.append(f"{self.instance_id}:{self.how}")

    def kill(self) -> None:
        self._killed = True

    def die(self, said: InHand) -> None:
        self._server.say(said)
        self._killed = True

    def how_it_died(self, timeout_s: float) -> str | None:
        return "it was gone"


class World:
    """Records the members that began, those set up beside a predecessor, and those removed from the group."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.beside: list[str] = []
        self.members: list[Member] = []
        self.lost: list[str] = []
        self.removed: list[str] = []
        self.topic = MemoryTopic()
        self.superseded = threading.Event()
        self.stewards: list[Steward] = []
        self._threads: list[threading.Thread] = []

    def start(
        self,
        actor_id: str = "actor",
        *,
        restarted: bool = False,
        after: str = "",
        seals: Any = None,
    ) -> Steward:
        topic: Any = self.topic
        made = Steward(NAME, "h:1", topic, Here(1, "node", actor_id, restarted, after), self.superseded.set, seals)
        self.stewards.append(made)
        self._threads.append(threading.Thread(target=made.run, daemon=True))
        self._threads[-1].start()
        return made

    def end(self) -> None:
        for steward in self.stewards:
            steward.close(10)
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    monkeypatch.setattr(ActorStarter, "start", lambda _, spec: Member(spec, made))
    monkeypatch.setattr(Crew, "remove_members", lambda _, ids, why: made.removed.extend(ids))
    monkeypatch.setattr(Crew, "remove_strangers", lambda _, size: None)
    yield made
    made.end()


class Vouching:
    """Seals as a controller knows them. It does not answer the next `away` times; versions that are `over` are."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.over: set[int] = set()
        self.asked: list[int] = []
        self.ended_ones: list[str] = []

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise ConnectionError("the controller is away")

    def check(self, name: str, deployment: Deployment) -> None:
        self.asked.append(deployment.version)
        self._answer()
        if not deployment.seal:
            raise PoolError(f"version {deployment.version} was not deployed here")
        if deployment.version in self.over:
            raise PoolError(f"version {deployment.version} was replaced")

    def proven(self, name: str, deployment: Deployment) -> None:
        self._answer()

    def ended(self, name: str, incarnation: str) -> None:
        self._answer()
        self.ended_ones.append(incarnation)


class Handle:
    """A handler that is as it is told."""

    def __init__(self, how: str) -> None: ...

    def __call__(self, _: object) -> None: ...


def version(number: int, how: str = "good", size: int = 2, **more: Any) -> Deployment:
    arguments = {"topics": "t", "group_id": "g", "handler": Handle, "size": size, "handler_args": (how,)}
    made = Deployment(
        incarnation="one",
        id=f"id{number}",
        version=number,
        deployed_at_ms=number,
        group_id="g",
        topics=("t",),
        size=size,
        autoscale=None,
        bootstrap_servers="h:1",
        settings={},
        at_home=True,
        python="3.11",
        body=cloudpickle.dumps(arguments),
    )
    return replace(made, **more)


def until(steward: Steward, condition: Callable[[PoolDescription], bool]) -> PoolDescription:
    """The first description for which the condition holds."""
    for _ in range(1200):
        found = steward.describe()
        if found is not None and condition(found):
            return found
        threading.Event().wait(0.05)
    raise AssertionError(steward.describe())


def settled(found: PoolDescription) -> bool:
    return found.state is PoolState.RUNNING and found.rollout is not None and found.rollout.over


def test_a_version_is_written_down_as_good_when_all_members_have_proved_it(world: World) -> None:
    world.topic.write(NAME, version(1))
    found = until(world.start(), settled)
    assert (found.version, found.running_version, found.size, len(found.members)) == (1, 1, 2, 2)
    assert sorted(world.begun) == ["p-0:good", "p-1:good"]
    record = world.topic.pool(NAME)
    assert record is not None
    assert record.good == record.deployment


def test_a_new_version_goes_through_one_member_after_the_other_and_nobody_leaves(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, "newer"))
    found = until(steward, lambda found: found.running_version == 2 and settled(found))
    assert (found.rollout is not None and found.rollout.from_version, world.removed) == (1, [])
    assert world.begun[2:] == ["p-0:newer", "p-1:newer"]


def test_a_version_that_fails_goes_back_and_a_successor_does_not_try_it_again(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, "bad"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.running_version == 1
    assert found.rollout is not None
    assert found.rollout.rolled_back == "member 0: it is bad"
    steward.close(10)
    begun = len(world.begun)
    found = until(world.start(restarted=True), lambda found: found.version == 2 and settled(found))
    assert found.running_version == 1
    assert found.rollout is not None
    assert found.rollout.rolled_back == "member 0: it is bad"
    assert sorted(world.begun[begun:]) == ["p-0:good", "p-1:good"]


def test_a_version_that_made_dead_letters_went_on_while_the_one_before_it_was_set_up_again(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, "letters"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.running_version == 1
    assert world.beside == ["p-0:letters"]


def test_a_successor_goes_on_with_a_rollout_where_it_was(world: World) -> None:
    world.topic.write(NAME, version(1, size=3), Good("one", version(1, size=3)), version(2, "newer", size=3))
    world.topic.write(NAME, Progress("one", "id2", done=(0, 1)))
    until(world.start(), lambda found: found.running_version == 2 and settled(found))
    # The third place is renewed at once: its first member may have begun until then, or not.
    assert sorted(set(world.begun) - {"p-2:good"}) == ["p-0:newer", "p-1:newer", "p-2:newer"]
    assert len(world.begun) == len(set(world.begun)), "those that have proved it are left alone"
    assert [each for each in world.begun if each.startswith("p-2")][-1] == "p-2:newer"


def test_a_version_that_cannot_be_loaded_is_rolled_back_and_a_first_one_has_failed(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, body=b"no pickle"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.rollout is not None
    assert "version 2 cannot be loaded: UnpicklingError" in str(found.rollout.rolled_back)
    assert world.begun == world.begun[:2], "no member was touched"
    world.topic.begin_anew(NAME, version(1, body=b"no pickle", incarnation="two"))
    found = until(steward, lambda found: found.state is PoolState.FAILED)
    assert "version 1 cannot be loaded" in str(found.last_error)


def test_a_version_that_nobody_vouches_for_is_never_loaded(world: World) -> None:
    world.topic.write(NAME, version(1, seal=b"sealed"))
    steward = world.start(seals=Vouching())
    until(steward, settled)
    world.topic.write(NAME, version(2, body=b"to unpickle this would be an error of another kind"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.rollout is not None
    assert found.rollout.rolled_back == "version 2 was not deployed here"
    assert world.begun == world.begun[:2], "no member was touched"


def test_who_cannot_be_asked_for_a_seal_is_asked_again(world: World) -> None:
    seals = Vouching(away=2)
    world.topic.write(NAME, version(1, seal=b"sealed"))
    until(world.start(seals=seals), settled)
    assert seals.asked[:3] == [1, 1, 1]
    assert set(seals.asked) == {1}


def test_a_stopped_pool_is_told_of_until_the_controller_has_heard(world: World) -> None:
    """Otherwise its record would run if somebody wrote it again."""
    seals = Vouching()
    world.topic.write(NAME, version(1, seal=b"sealed"))
    steward = world.start(seals=seals)
    until(steward, settled)
    seals.away = 1
    world.topic.remove(keys_of(NAME))
    until(steward, lambda found: found.state is PoolState.STOPPED)
    assert seals.ended_ones[0] == "one"


def test_a_version_that_was_replaced_does_not_run_again_though_it_is_loaded_still(world: World) -> None:
    seals = Vouching()
    world.topic.write(NAME, version(1, seal=b"sealed"))
    steward = world.start(seals=seals)
    until(steward, settled)
    world.topic.write(NAME, version(2, seal=b"sealed"))
    until(steward, lambda found: found.running_version == 2 and settled(found))
    seals.over = {1}
    world.topic.write(NAME, version(1, seal=b"sealed"))
    found = until(steward, lambda found: found.version == 1 and settled(found))
    assert found.rollout is not None
    assert found.rollout.rolled_back == "version 1 was replaced"
    assert found.running_version == 2


def test_wishes_are_done_also_those_of_before_it_began(world: World) -> None:
    world.topic.write(NAME, version(1), Size("one", 3), Pause("one", True))
    steward = world.start()
    found = until(steward, lambda found: found.state is PoolState.PAUSED)
    assert (found.size, found.members) == (3, ())
    world.topic.write(NAME, Pause("one", False))
    until(steward, lambda found: settled(found) and len(found.members) == 3)
    world.topic.write(NAME, Size("one", 1))
    until(steward, lambda found: settled(found) and len(found.members) == 1)
    assert sorted(world.removed) == ["p-1", "p-2"], "who goes leaves the group"
    world.topic.write(NAME, Restart("one", "now"))
    until(steward, lambda found: len(world.begun) == 4 and settled(found))
    world.topic.write(NAME, Pause("one", True))
    until(steward, lambda found: found.state is PoolState.PAUSED and found.size == 1)


def test_a_version_that_was_deployed_in_a_pause_is_the_only_one_that_is_started_after_it(world: World) -> None:
    """A user who pauses a pool because its handler is wrong does not want that handler once more."""
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, Pause("one", True))
    until(steward, lambda found: found.state is PoolState.PAUSED and not found.members)
    world.topic.write(NAME, version(2, "newer"), Pause("one", False))
    until(steward, lambda found: found.running_version == 2 and settled(found) and len(found.members) == 2)
    assert sorted(world.begun[2:]) == ["p-0:newer", "p-1:newer"]


def test_a_bad_version_that_was_deployed_in_a_pause_is_gone_back_from(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, Pause("one", True))
    until(steward, lambda found: found.state is PoolState.PAUSED and not found.members)
    world.topic.write(NAME, version(2, "bad"), Pause("one", False))
    found = until(steward, lambda found: found.version == 2 and settled(found) and len(found.members) == 2)
    assert (found.running_version, sorted(world.begun[2:4])) == (1, ["p-0:bad", "p-1:bad"])
    assert sorted(world.begun[4:]) == ["p-0:good", "p-1:good"]


def test_a_failed_pool_is_started_again_by_a_restart_or_a_better_version(world: World) -> None:
    world.topic.write(NAME, version(1, "bad", size=1))
    steward = world.start()
    found = until(steward, lambda found: found.state is PoolState.FAILED)
    assert found.last_error == "it is bad"
    world.topic.write(NAME, Restart("one", "again"))
    until(steward, lambda found: len(world.begun) == 2 and found.state is PoolState.FAILED)
    world.topic.write(NAME, version(2, size=1))
    until(steward, lambda found: settled(found) and found.running_version == 2)


def test_a_stopped_pool_leaves_and_a_new_one_of_its_name_is_begun_anew(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.begin_anew(NAME, version(1, "other", incarnation="two", size=1))
    until(steward, lambda found: settled(found) and len(found.members) == 1 and len(world.begun) == 3)
    assert sorted(world.removed) == ["p-0", "p-1"]
    assert world.begun[2] == "p-0:other"
    world.topic.remove(keys_of(NAME))
    until(steward, lambda found: found.state is PoolState.STOPPED)
    assert steward.over


def test_a_beginning_that_fails_leaves_nothing_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads would tell of a pool without members, and look after nobody, as long as the process lives."""
    crews: list[Crew] = []

    def fail_once(crew: Crew, size: int) -> None:
        crews.append(crew)
        if len(crews) == 1:
            raise KafkaTimeoutError("the coordinator does not answer")

    monkeypatch.setattr(Crew, "remove_strangers", fail_once)
    stopped: list[Crew] = []
    stop = Crew.stop
    monkeypatch.setattr(Crew, "stop", lambda crew, *given, **named: (stopped.append(crew), stop(crew, *given, **named)))
    world.topic.write(NAME, version(1))
    until(world.start(), settled)
    assert len(crews) == 2
    assert stopped == crews[:1]


def test_one_that_another_has_taken_over_ends(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    assert not world.superseded.is_set()
    world.topic.write(NAME, Term("one", "another/1"))
    assert world.superseded.wait(60)


def test_one_that_ray_restarts_does_not_take_back_what_another_has_taken_over(world: World) -> None:
    """Otherwise the two would take the pool from each other for ever."""
    world.topic.write(NAME, version(1), Term("one", "another/1"))
    restarted = world.start("actor", restarted=True)
    world._threads[-1].join(60)
    assert restarted.over
    assert world.begun == []
    until(world.start("third"), settled)  # a new one is wanted


def test_one_that_died_before_it_took_the_pool_over_takes_it_over_when_ray_restarts_it(world: World) -> None:
    """Else nobody would look after the pool: the one before it is gone."""
    world.topic.write(NAME, version(1), Term("one", "gone/1"))
    until(world.start("actor", restarted=True, after="gone"), settled)


def test_a_pool_that_follows_its_load_is_not_scaled_while_a_version_goes_through(world: World) -> None:
    policy = Autoscale(max_size=4, min_size=2, target_lag=100, interval_s=3600)
    scaled = {"size": None, "autoscale": autoscale_values(policy)}
    arguments = {"topics": "t", "group_id": "g", "handler": Handle, "autoscale": policy, "size": None}
    bodies = [cloudpickle.dumps({**arguments, "handler_args": (how,)}) for how in ("good", "newer")]
    world.topic.write(NAME, version(1, **scaled, body=bodies[0]))
    steward = world.start()
    assert until(steward, settled).autoscale == policy
    wider = {**scaled, "autoscale": autoscale_values(replace(policy, min_size=3))}
    world.topic.write(NAME, version(2, **wider, body=bodies[1]))
    found = until(steward, lambda found: found.running_version == 2 and len(found.members) == 3 and settled(found))
    assert [change.reason for change in found.size_changes] == ["the supervisor begins", "by the bounds of its load"]
    assert world.begun[2:4] == ["p-0:newer", "p-1:newer"], "the third came when all had proved the version"


# --- records that were in hand when members died ---

IN_HAND = InHand((Span("t", 0, 5, 9),))


def noted(world: World) -> list[tuple[Span, int]]:
    record = world.topic.pool(NAME)
    return [] if record is None else [(note.span, note.deaths) for note in record.notes]


def until_noted(world: World, expected: list[tuple[Span, int]]) -> None:
    for _ in range(1200):
        if noted(world) == expected:
            return
        threading.Event().wait(0.05)
    raise AssertionError(noted(world))


def test_deaths_count_also_for_the_next_supervisor_until_there_is_another_version(world: World) -> None:
    """A record that ended its process was begun again for ever, by whichever supervisor's members."""
    world.topic.write(NAME, version(1, size=1))
    first = world.start()
    until(first, settled)
    (member,) = world.members
    member.die(IN_HAND)
    until_noted(world, [(IN_HAND.spans[0], 1)])
    first.close(10)
    second = world.start(restarted=True)
    until(second, settled)
    world.members[-1].die(IN_HAND)
    until_noted(world, [(IN_HAND.spans[0], 2)])
    until(second, settled)
    (note,) = world.members[-1].notes.notes
    assert note.doubted, "its successor knows"
    world.topic.write(NAME, version(2, "newer", size=1))
    until_noted(world, [])
    until(second, lambda found: found.running_version == 2 and settled(found))
    assert world.members[-1].notes.notes == ()
