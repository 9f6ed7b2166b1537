"""A version rolls through the members of a pool, in virtual time: the members are a model."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from actors.members.deployment.rollout import (
    DRAIN_SECONDS,
    SETTLE_SECONDS,
    TRANSITIONS,
    EndNow,
    Phase,
    Place,
    Renew,
    Rollout,
)

OLD, NEW = "v1", "v2"


def running(slot: int, mark: str = OLD, **more: object) -> Place:
    return replace(Place(slot, mark, "Running", running_s=0.0, handled=5), **more)  # type: ignore[arg-type]


def test_one_at_a_time_the_lowest_first() -> None:
    rollout = Rollout(NEW, OLD)
    assert rollout.step([running(0), running(1)], 0.0) == Renew(0, NEW)
    renewing = running(0, NEW, renewing=True, handled=0)
    assert rollout.step([renewing, running(1)], 1.0) is None, "the first one is still to end"
    starting = Place(0, NEW)
    assert rollout.step([starting, running(1)], 2.0) is None
    assert rollout.step([running(0, NEW, handled=0, running_s=3.0), running(1)], 3.0) is None, "it has proved nothing"
    assert rollout.step([running(0, NEW, handled=1), running(1)], 3.1) == Renew(1, NEW)
    assert rollout.step([running(0, NEW), running(1, NEW)], 4.0) is None
    assert rollout.phase is Phase.DONE


def test_a_member_without_work_is_good_after_a_while_and_one_at_work_is_waited_for() -> None:
    rollout = Rollout(NEW, OLD)
    idle = running(0, NEW, handled=0, running_s=10.0)
    assert rollout.step([idle, running(1)], 10.0 + SETTLE_SECONDS - 0.1) is None
    assert rollout.step([replace(idle, busy=True), running(1)], 10.0 + SETTLE_SECONDS) is None
    assert rollout.step([idle, running(1)], 10.0 + SETTLE_SECONDS) == Renew(1, NEW)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (Place(0, NEW, "Failed", "no such table"), "member 0: no such table"),
        (Place(0, NEW, "Starting", deaths=3), "member 0: its process has died 3 times before it had handled a record"),
        (
            running(0, NEW, handled=0, dead_letters=10),
            "member 0: its first 10 records have all become dead letters",
        ),
    ],
)
def test_a_version_that_does_not_work_goes_back_everywhere(place: Place, reason: str) -> None:
    rollout = Rollout(NEW, OLD)
    assert rollout.step([place, running(1)], 5.0) == Renew(0, OLD)
    assert (rollout.phase, rollout.reason) == (Phase.RETURNING, reason)
    assert rollout.step([running(0), running(1)], 6.0) is None
    assert (rollout.phase, rollout.mark) == (Phase.DONE, OLD)


def test_one_that_fails_after_others_were_good_takes_them_back_too() -> None:
    rollout = Rollout(NEW, OLD)
    failed = Place(2, NEW, "Failed", "bad")
    assert rollout.step([running(0, NEW), running(1, NEW), failed], 5.0) == Renew(2, OLD), "the failed one first"
    assert rollout.step([running(0, NEW), running(1, NEW), running(2)], 6.0) == Renew(0, OLD)
    assert rollout.step([running(0), running(1, NEW), running(2)], 7.0) == Renew(1, OLD)
    assert rollout.step([running(0), running(1), running(2)], 8.0) is None
    assert rollout.phase is Phase.DONE


def test_without_a_version_before_it_halts_and_leaves_the_others() -> None:
    rollout = Rollout(NEW, None)
    assert rollout.step([Place(0, NEW, "Failed", "bad"), running(1)], 1.0) is None
    assert (rollout.phase, rollout.mark, rollout.reason) == (Phase.HALTED, NEW, "member 0: bad")


def test_a_first_version_is_not_given_up_for_deaths_that_may_pass() -> None:
    rollout = Rollout(NEW, NEW)
    assert rollout.step([Place(0, NEW, "Starting", deaths=7)], 1.0) is None
    assert rollout.step([running(0, NEW)], 2.0) is None
    assert rollout.phase is Phase.DONE


def test_a_version_before_that_does_not_work_either_halts() -> None:
    rollout = Rollout(NEW, OLD)
    rollout.step([Place(0, NEW, "Failed", "bad")], 1.0)
    assert rollout.step([Place(0, OLD, "Failed", "also bad")], 2.0) is None
    assert (rollout.phase, rollout.reason) == (Phase.HALTED, "member 0: bad")


def test_a_member_that_does_not_finish_is_ended() -> None:
    rollout = Rollout(NEW, OLD)
    slow = running(0, NEW, renewing=True, renewed_s=100.0, busy=True)
    assert rollout.step([slow, running(1)], 100.0 + DRAIN_SECONDS) is None
    assert rollout.step([slow, running(1)], 100.1 + DRAIN_SECONDS) == EndNow(0)


def test_it_goes_on_where_it_was() -> None:
    rollout = Rollout(NEW, OLD, done=[0])
    assert rollout.step([Place(0, NEW), running(1)], 0.0) == Renew(1, NEW), "0 had been good before"


def test_a_failed_member_is_renewed_first() -> None:
    assert Rollout(NEW, OLD).step([running(0), Place(1, OLD, "Failed", "poison")], 0.0) == Renew(1, NEW)


def test_a_pool_without_members_has_proved_nothing() -> None:
    rollout = Rollout(NEW, OLD)
    assert rollout.step([], 1000.0) is None
    assert rollout.phase is Phase.ROLLING
    assert not rollout.moves([])


@dataclass
class Member:
    """A model of one place: its member starts, runs, handles, and may fail by a bad version, or die."""

    slot: int
    mark: str
    handled: int = 0
    began_s: float = 0.0
    failed: bool = False

    def place(self, now_s: float, bad: frozenset[str]) -> Place:
        if now_s - self.began_s < 1.0:
            return Place(self.slot, self.mark)
        if self.mark in bad:
            return Place(self.slot, self.mark, "Failed", "bad")
        return Place(self.slot, self.mark, "Running", running_s=self.began_s + 1.0, handled=int(now_s - self.began_s))


@pytest.mark.parametrize("seed", range(50))
def test_whatever_happens_all_end_on_one_version_one_at_a_time(seed: int) -> None:
    chance = random.Random(seed)
    bad = frozenset({NEW}) if chance.random() < 0.5 else frozenset()
    members = {slot: Member(slot, OLD, began_s=-10.0) for slot in range(chance.randint(1, 6))}
    rollout = Rollout(NEW, OLD)
    now_s = 0.0
    phases = [rollout.phase]
    while not rollout.over:
        now_s += chance.uniform(0.05, 0.5)
        assert now_s < 200, (rollout.phase, members)
        if chance.random() < 0.05:  # a death; its successor runs the same version
            chance.choice(list(members.values())).began_s = now_s
        if chance.random() < 0.02:  # the pool grows, by members of the version before
            members[len(members)] = Member(len(members), OLD, began_s=now_s)
        places = [member.place(now_s, bad) for member in members.values()]
        before = rollout.phase
        step = rollout.step(places, now_s)
        if rollout.phase is not before:
            assert rollout.phase in TRANSITIONS[before]
            phases.append(rollout.phase)
        if isinstance(step, Renew):
            starting = [place for place in places if place.mark == step.mark and place.slot not in rollout.done]
            assert starting == [], "one at a time"
            members[step.slot] = Member(step.slot, step.mark, began_s=now_s)
    wanted = OLD if bad else NEW
    assert {member.mark for member in members.values()} == {wanted}
    assert phases == ([Phase.ROLLING, Phase.RETURNING, Phase.DONE] if bad else [Phase.ROLLING, Phase.DONE])
