"""Other brokers take over the replicas of one: one move for each replica, evenly, and in as many racks as before."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from placement.vacating import vacated

NO_RACKS: dict[int, str | None] = dict.fromkeys(range(8))


def test_only_partitions_of_the_broker_move_and_only_its_replica_does() -> None:
    placed = {("t", 0): (0, 1), ("t", 1): (1, 2), ("t", 2): (2, 0)}
    found = vacated(placed, {2}, [0, 1], NO_RACKS)
    assert found == {("t", 1): (1, 0), ("t", 2): (0, 1)}


def test_what_moves_is_spread_evenly_over_those_that_take_it() -> None:
    placed = {("t", index): (3,) for index in range(9)}
    found = vacated(placed, {3}, [0, 1, 2], NO_RACKS)
    assert Counter(replicas[0] for replicas in found.values()) == {0: 3, 1: 3, 2: 3}


def test_the_lead_of_what_it_was_first_of_is_spread_evenly_too() -> None:
    placed = {("t", index): (3, 0, 1) for index in range(6)}
    found = vacated(placed, {3}, [0, 1, 2], NO_RACKS)
    assert Counter(replicas[0] for replicas in found.values()) == {0: 2, 1: 2, 2: 2}


def test_a_replica_goes_to_a_rack_that_the_partition_is_not_in() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    placed = {("t", 0): (0, 2), ("u", 0): (3,), ("u", 1): (3,)}
    assert vacated(placed, {2}, [0, 1, 3], racks) == {("t", 0): (0, 3)}, "though 3 holds the most"


def test_a_rack_of_a_broker_that_is_away_counts() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    placed = {("t", 0): (0, 2), ("u", 0): (3,)}
    assert vacated(placed, {2}, [1, 3], racks) == {("t", 0): (0, 3)}


def test_a_partition_waits_for_the_rack_of_a_broker_that_stays_and_is_no_taker_now() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    placed = {("t", 0): (0, 2), ("one", 0): (2,)}
    assert vacated(placed, {2}, [0, 1], racks) == {("one", 0): (1,)}
    assert vacated(placed, {2, 3}, [0, 1], racks).keys() == placed.keys(), "there is no other in that rack"


def test_two_that_go_at_once_are_replaced_at_once() -> None:
    placed = {("t", 0): (1, 2, 0)}
    assert vacated(placed, {1, 2}, [0, 2, 3, 4], NO_RACKS) == {("t", 0): (0, 3, 4)}


def test_a_partition_for_which_there_are_too_few_is_left_out() -> None:
    placed = {("t", 0): (0, 1), ("one", 0): (1,)}
    assert vacated(placed, {1}, [0], NO_RACKS) == {("one", 0): (0,)}


@given(
    st.lists(st.permutations(range(6)).map(lambda order: order[:3]), min_size=1, max_size=12),
    st.sets(st.integers(0, 5), min_size=1, max_size=3),
    st.lists(st.sampled_from("abc"), min_size=6, max_size=6),
)
def test_whatever_goes_the_rest_stays_and_the_factor_and_the_racks_are_kept(
    lines: list[list[int]], gone: set[int], names: list[str]
) -> None:
    racks: dict[int, str | None] = dict(enumerate(names))
    placed = {("t", index): tuple(line) for index, line in enumerate(lines)}
    stay = sorted(set(range(6)) - gone)
    found = vacated(placed, gone, stay, racks)
    assert found.keys() == {key for key, replicas in placed.items() if set(replicas) & gone}
    for key, replicas in found.items():
        survivors = [broker for broker in placed[key] if broker not in gone]
        assert len(set(replicas)) == len(replicas) == 3
        assert set(survivors) <= set(replicas) <= set(stay)
        beside = {racks[broker] for broker in survivors}
        can_come = {racks[broker] for broker in stay if broker not in survivors} - beside
        assert len({racks[broker] for broker in replicas}) == len(beside) + min(len(can_come), 3 - len(survivors))
