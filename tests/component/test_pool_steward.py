"""A supervisor does what is wished of its pool, and others take over from it. No Ray and no brokers."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from ray import cloudpickle

from actors.client.errors import KafkaTimeoutError
from actors.links.member_deaths import InHand, Span
from actors.members.autoscale import Autoscale
from actors.members.deployment.description import PoolState
from actors.members.deployment.records import Pause, Restart, Size, Term, autoscale_values, keys_of
from actors.members.pools.members import PoolMembers
from tests.support.steward_world import NAME, Handle, World, settled, until, version, world

__all__ = ["world"]


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
    begun: list[PoolMembers] = []

    def fail_once(members: PoolMembers, size: int) -> None:
        begun.append(members)
        if len(begun) == 1:
            raise KafkaTimeoutError("the coordinator does not answer")

    monkeypatch.setattr(PoolMembers, "remove_strangers", fail_once)
    stopped: list[PoolMembers] = []
    stop = PoolMembers.stop
    monkeypatch.setattr(
        PoolMembers, "stop", lambda members, *given, **named: (stopped.append(members), stop(members, *given, **named))
    )
    world.topic.write(NAME, version(1))
    until(world.start(), settled)
    assert len(begun) == 2
    assert stopped == begun[:1]


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
    world.threads[-1].join(60)
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
