"""The size that autoscaling wants of a pool: the rule by itself, and over curves of load in virtual time."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client.errors import ConfigurationError
from actors.members.autoscale import Autoscale, Load, Scaler, recommend
from tests.support.examples import examples
from tests.support.group_in_time import GroupInTime

POLICY = Autoscale(min_size=1, max_size=12, target_lag=1000, stabilization_s=60, interval_s=5)
IN_SECONDS = Autoscale(min_size=1, max_size=12, target_lag_seconds=30)
# Requests in each hour of a day that is quiet in the night and busy in the afternoon, in thousands. Made up.
A_DAY = (98, 92, 88, 85, 83, 82, 84, 88, 92, 95, 98, 103, 112, 122, 130, 134, 136, 135, 133, 132, 133, 131, 122, 109)


def load(size: int, *lags: int | None, busy: float | None = 0.0, **more: Any) -> Load:
    return Load(0.0, size, lags, busy=busy, **more)


policies = st.builds(
    lambda low, span, target, seconds: Autoscale(
        min_size=low, max_size=max(1, low + span), target_lag=target, target_lag_seconds=seconds
    ),
    st.integers(0, 5),
    st.integers(0, 20),
    st.integers(1, 10_000),
    st.one_of(st.none(), st.floats(0.1, 600)),
)
lags = st.lists(st.one_of(st.none(), st.integers(0, 10**7)), min_size=1, max_size=30)
loads = st.builds(
    Load,
    st.just(0.0),
    st.integers(0, 25),
    lags.map(tuple),
    st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=30).map(tuple),
    st.one_of(st.none(), st.floats(0, 25)),
    st.one_of(st.none(), st.floats(0.01, 10_000)),
)


# --- one look ---


@given(policies, loads)
def test_a_size_is_between_the_bounds_and_no_larger_than_there_are_partitions(policy: Autoscale, seen: Load) -> None:
    size = recommend(policy, seen)
    assert policy.min_size <= size <= policy.max_size
    assert size <= max(policy.min_size, len(seen.lags or ()))


@given(policies, loads, st.integers(0, 29), st.integers(1, 10**6))
def test_more_lag_never_asks_for_fewer(policy: Autoscale, seen: Load, which: int, more: int) -> None:
    lags = list(seen.lags or ())
    which %= len(lags)
    if lags[which] is None or not any(lags):
        return  # then there is nothing to compare, or the handlers' speed begins to matter
    lags[which] += more  # type: ignore[operator]
    assert recommend(policy, replace(seen, lags=tuple(lags))) >= recommend(policy, seen)


@given(policies, loads, st.integers(0, 29))
def test_what_is_unknown_is_never_zero(policy: Autoscale, seen: Load, which: int) -> None:
    lags = list(seen.lags or ())
    lags[which % len(lags)] = None
    most = max(policy.min_size, min(policy.max_size, len(lags)))
    for unknown in (replace(seen, lags=tuple(lags)), replace(seen, lags=None), replace(seen, lags=())):
        assert recommend(policy, unknown) >= min(max(seen.size, policy.min_size), most)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=12), st.integers(0, 20))
def test_members_are_no_more_than_partitions_with_lag(behind: list[int], idle: int) -> None:
    assert recommend(POLICY, load(1, *behind, *[0] * idle)) <= max(1, len(behind))


def test_a_partition_that_is_far_behind_asks_for_one_member_and_not_for_ten() -> None:
    assert recommend(POLICY, load(1, 10_000, *[0] * 11)) == 1
    assert recommend(POLICY, load(1, 10_000, *[500] * 4, *[0] * 7)) == 3


def test_a_member_with_two_partitions_that_are_behind_gives_one_up_however_many_are_behind() -> None:
    """Four members had two each of eight partitions in lag and fell behind for ever: eight members were enough."""
    owners = (*range(8), *range(4))
    behind = [9000] * 4 + [0] * 4 + [9000] * 4
    assert recommend(POLICY, load(8, *behind, owners=owners)) == 12
    alone = [9000] * 4 + [0] * 8
    assert recommend(POLICY, load(8, *alone, owners=owners)) == 4
    assert recommend(POLICY, load(3, *[1200] * 6, *[0] * 6, owners=(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2))) == 6


def test_seconds_are_records_by_the_handlers_own_speed() -> None:
    assert recommend(IN_SECONDS, load(1, *[1500] * 12, per_second=100.0)) == 6
    assert recommend(IN_SECONDS, load(1, *[1500] * 12, per_second=1000.0)) == 1
    assert recommend(IN_SECONDS, load(4, *[1500] * 12, per_second=None)) == 4, "unknown while none has been handled"


def test_of_two_targets_the_one_counts_that_asks_for_more() -> None:
    both = Autoscale(max_size=12, target_lag=1000, target_lag_seconds=1)
    assert recommend(both, load(1, *[500] * 12, per_second=10_000.0)) == 6
    assert recommend(both, load(1, *[500] * 12, per_second=1000.0)) == 6
    assert recommend(both, load(1, *[500] * 12, per_second=500.0)) == 12


def test_a_size_within_a_tenth_is_as_good() -> None:
    assert recommend(POLICY, load(10, *[1000] * 10, 900, 0)) == 10
    assert recommend(POLICY, load(10, *[1000] * 9, 100, 0, 0)) == 10
    assert recommend(POLICY, load(10, *[1000] * 11, 500)) == 12


def test_members_that_work_are_not_taken_away() -> None:
    assert recommend(POLICY, load(6, *[0] * 12, busy=6.0)) == 6
    assert recommend(POLICY, load(6, *[0] * 12, busy=2.0)) == 3


def test_partitions_are_whole() -> None:
    """Of four partitions that keep 2.2 members busy, one of three members would have two and fall behind."""
    assert recommend(POLICY, load(4, *[0] * 4, busy=2.2)) == 4


def test_none_are_left_only_where_that_was_said() -> None:
    zero = replace(POLICY, min_size=0)
    assert recommend(POLICY, load(1, 0, 0)) == 1
    assert recommend(zero, load(1, 0, 0)) == 0
    assert recommend(zero, load(1, 0, 0, busy=0.01)) == 1
    assert recommend(zero, load(1, 0, None)) == 1
    assert recommend(zero, load(0, 0, 1)) == 1
    assert recommend(replace(IN_SECONDS, min_size=0), load(0, 5, 5)) == 1, "the speed is not known, but somebody begins"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_size": 0, "min_size": 0}, "max_size"),
        ({"max_size": 2, "min_size": 3}, "min_size"),
        ({"max_size": 2, "min_size": -1}, "min_size"),
        ({"max_size": 2, "target_lag": None}, "target"),
        ({"max_size": 2, "target_lag": 0}, "target_lag"),
        ({"max_size": 2, "target_lag_seconds": 0.0}, "target_lag_seconds"),
        ({"max_size": 2, "stabilization_s": -1.0}, "stabilization_s"),
        ({"max_size": 2, "interval_s": 0.0}, "interval_s"),
        ({"max_size": 2, "drain_timeout_s": 0.0}, "drain_timeout_s"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Autoscale(**{"target_lag": 10, **settings})


# --- one look after the other ---


def looks(scaler: Scaler, size: int, wanted: list[int | None], at_s: float = 0.0, **more: Any) -> list[int]:
    """The sizes decided when each look in turn asks for so many (None: the lag is unknown)."""
    decided = []
    for number, want in enumerate(wanted):
        seen = None if want is None else tuple([1000] * want + [0] * (12 - want))
        size = scaler.decide(Load(at_s + 5.0 * number, size, seen, busy=0.0, **more)).size
        decided.append(size)
    return decided


def test_a_pool_grows_at_once_and_shrinks_when_fewer_were_enough_for_the_whole_window() -> None:
    assert looks(Scaler(POLICY), 1, [8] + [2] * 13) == [8] * 13 + [2]


def test_it_shrinks_to_the_most_that_was_wanted_in_the_window() -> None:
    assert looks(Scaler(POLICY), 8, [3, 5, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2]) == [8] * 12 + [5]


def test_a_moment_in_which_the_lag_is_unknown_begins_the_window_anew() -> None:
    assert looks(Scaler(POLICY), 8, [2] * 6 + [None] + [2] * 12) == [8] * 19
    assert looks(Scaler(POLICY), 8, [None] * 40) == [8] * 40


def test_a_gap_between_two_looks_begins_it_anew_too() -> None:
    scaler = Scaler(POLICY)
    looks(scaler, 8, [2] * 6)
    assert looks(scaler, 8, [2] * 13, at_s=100.0) == [8] * 12 + [2]


def test_nothing_is_changed_while_the_last_change_is_under_way() -> None:
    assert looks(Scaler(POLICY), 4, [12] * 3 + [1] * 20, settled=False) == [4] * 23


def test_it_does_not_grow_while_ray_has_no_room_for_its_members_but_may_shrink() -> None:
    assert looks(Scaler(POLICY), 6, [12] + [2] * 13, waiting=2)[:13] == [6] * 13
    assert looks(Scaler(POLICY), 6, [2] * 13, waiting=2)[-1] == 2


def test_the_reason_has_the_figures() -> None:
    decided = Scaler(IN_SECONDS).decide(load(1, 3000, 3000, 0, None, busy=0.96, per_second=100.0))
    assert decided.size == 2
    assert decided.reason == (
        "a lag of 6000 records in 2 of 4 partitions, unknown in 1; a member handles 100 records a second; "
        "1.0 of 1 members are busy"
    )


# --- curves of load ---


def step(now: float) -> float:
    """Tenfold for ten minutes."""
    return 800.0 if 300 <= now < 900 else 80.0


@pytest.mark.parametrize("policy", [POLICY, replace(IN_SECONDS, target_lag_seconds=10)], ids=["records", "seconds"])
def test_load_goes_up_tenfold_and_back(policy: Autoscale) -> None:
    group = GroupInTime(policy, step)
    group.run(300)
    assert group.changes == []
    group.run(600)
    assert group.size >= 10
    assert group.lag < 1000 * group.size
    group.run(2 * policy.stabilization_s + 60)  # the lag that was left is handled first
    assert group.size == 1
    assert len([each for each in group.changes if each[2] < each[1]]) <= 2, "not one by one"
    group.run(600)
    assert group.size == 1
    assert group.lag < 1000


@examples(40)  # each is an hour in steps of seconds
@given(st.integers(0, 10**6), st.floats(60, 900))
def test_noise_does_not_make_it_flap(seed: int, level: float) -> None:
    """Under a constant load with noise, the size changes for a while, and then stays."""
    chance = random.Random(seed)
    group = GroupInTime(POLICY, lambda now: level * chance.uniform(0.9, 1.1))
    group.run(1800)
    settled = len(group.changes)
    group.run(1800)
    assert len(group.changes) - settled <= 1, group.changes


@examples(40)  # each is an hour in steps of seconds
@given(st.integers(0, 10**6), st.sampled_from([POLICY, IN_SECONDS]), st.integers(1, 12))
def test_it_follows_any_curve_within_its_bounds_and_catches_up(seed: int, policy: Autoscale, size: int) -> None:
    chance = random.Random(seed)
    levels = [chance.uniform(0, 1000) for _ in range(10)]
    group = GroupInTime(policy, lambda now: levels[int(now // 120)] if now < 1200 else 0.0, size=size)
    group.run(3600)
    assert all(1 <= each <= 12 for _, each in group.sizes)
    assert group.lag == 0
    assert group.size == 1
    downs = [at for at, before, after in group.changes if after < before]
    assert all(later - sooner >= policy.interval_s for sooner, later in itertools.pairwise(downs))
    ups = [at for at, before, after in group.changes if after > before]
    assert all(down - up >= policy.stabilization_s for up in ups for down in downs if down > up)


def test_it_follows_a_day() -> None:
    """An hour is five minutes here. The size follows the hours, and changes few times."""
    group = GroupInTime(POLICY, lambda now: 7.0 * A_DAY[int(now // 300) % 24], size=8)
    group.run(24 * 300)
    assert group.peak_lag < 12_000
    assert {each for _, each in group.sizes} <= set(range(6, 13))
    assert len(group.changes) <= 12, group.changes
    worked = sum(7.0 * each for each in A_DAY) / 24 / 100
    used = sum(each for _, each in group.sizes) / len(group.sizes)
    assert used < 1.6 * worked, "it gives back what it does not need"


def test_a_hot_partition_does_not_make_it_grow_for_ever() -> None:
    """One partition gets more records than one member can handle: more members do not help."""
    shares = [0.9] + [0.1 / 11] * 11
    group = GroupInTime(POLICY, lambda now: 200.0, shares=shares)
    group.run(1800)
    assert group.size <= 4


def test_while_the_lag_is_unknown_the_size_stays() -> None:
    group = GroupInTime(POLICY, lambda now: 0.0, size=7, known=lambda now: now < 20)
    group.run(3600)
    assert group.changes == []


def test_what_ray_has_no_room_for_is_asked_for_once() -> None:
    group = GroupInTime(POLICY, lambda now: 1000.0 if now < 600 else 0.0, room=3)
    group.run(600)
    assert len(group.changes) <= 2
    group.run(math.ceil(group.lag / 300) + 120)
    assert group.size == 1


def test_a_pool_that_may_have_no_member_has_none_until_there_is_work() -> None:
    group = GroupInTime(replace(POLICY, min_size=0), lambda now: 50.0 if 300 <= now < 400 else 0.0)
    group.run(290)
    assert group.size == 0
    group.run(60)
    assert group.size >= 1
    group.run(300)
    assert group.size == 0
    assert group.lag == 0
