"""Existing partitions spread evenly, over all racks, and with few moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.assignment import NotEnoughBrokersError, assign_replicas
from placement.spread import Key, spread
from tests.support.examples import examples

Placed = dict[Key, tuple[int, ...]]

racks = st.dictionaries(st.integers(0, 20), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=7)
replicas = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple)
topics = st.dictionaries(st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(0, 15)), replicas, max_size=30)


def made(count: int, brokers: int, factor: int, topic: str = "t") -> Placed:
    placed = assign_replicas([(broker, None) for broker in range(brokers)], count, factor)
    return {(topic, index): each for index, each in enumerate(placed)}


def on(count: int) -> list[tuple[int, None]]:
    return [(broker, None) for broker in range(count)]


def moved(placed: Mapping[Key, Sequence[int]], found: Placed) -> int:
    return sum(len(set(new) - set(placed[key])) for key, new in found.items())


def unevenness(counts: Counter[int], brokers: Iterable[int]) -> int:
    found = [counts[broker] for broker in brokers]
    return max(found) - min(found)


@examples(300)
@given(topics, racks, st.one_of(st.none(), st.integers(1, 4)), st.sets(st.sampled_from(["x", "y"])))
def test_partitions_have_their_replicas_on_brokers_that_may_hold_them_in_as_many_racks_as_can_be(
    placed: Placed, given_racks: dict[int, str | None], factor: int | None, chosen: set[str]
) -> None:
    brokers = list(given_racks.items())
    mine = {key: each for key, each in placed.items() if key[0] in chosen}
    if any((factor or len(each)) > len(brokers) for each in mine.values()):
        with pytest.raises(NotEnoughBrokersError, match=r"replica\(s\) do not fit on"):
            spread(placed, chosen, brokers, factor)
        return
    found = spread(placed, chosen, brokers, factor)
    assert set(found) <= set(mine)
    after = placed | found
    for key, before in mine.items():
        new = after[key]
        assert len(new) == len(set(new)) == (factor or len(before))
        assert set(new) <= set(given_racks)
        if None not in given_racks.values():
            assert len({given_racks[broker] for broker in new}) == min(len(new), len(set(given_racks.values())))
    assert spread(after, chosen, brokers, factor) == {}, "what is where it should be stays"


@examples(300)
@given(topics, st.integers(4, 8), st.integers(1, 4))
def test_without_racks_all_is_even(placed: Placed, count: int, factor: int) -> None:
    after = placed | spread(placed, {"x", "y", "z"}, on(count), factor)
    assert unevenness(Counter(broker for new in after.values() for broker in new), range(count)) <= 1


@examples(300)
@given(topics, st.integers(10, 13))
def test_no_more_replicas_move_than_must(placed: Placed, count: int) -> None:
    """Every broker above its share gives up the surplus, and brokers with the most replicas get the larger shares."""
    held = Counter(broker for each in placed.values() for broker in each)
    share, more = divmod(held.total(), count)
    ranked = sorted((held[broker] for broker in range(count)), reverse=True)
    must = sum(max(have - share - (place < more), 0) for place, have in enumerate(ranked))
    assert moved(placed, spread(placed, {"x", "y", "z"}, on(count))) == must


@examples(100)
@given(st.integers(1, 30), st.integers(2, 12), st.integers(1, 4), st.integers(1, 3))
def test_topics_as_they_are_made_hardly_move(partitions: int, brokers: int, factor: int, added: int) -> None:
    if factor > brokers:
        return
    placed: Placed = {}
    for n in range(12):
        made_now = assign_replicas(on(brokers), partitions, factor, start=n * partitions)
        placed |= {(f"t{n}", index): each for index, each in enumerate(made_now)}
    names = {topic for topic, _ in placed}
    share = len(placed) * factor * added // (brokers + added) + brokers * factor
    assert moved(placed, spread(placed, names, on(brokers + added))) <= share


def test_a_broker_that_is_added_gets_its_share_and_nothing_else_moves() -> None:
    placed = made(50, 3, 3)
    found = spread(placed, {"t"}, on(4))
    after = placed | found
    held = Counter(broker for new in after.values() for broker in new)
    assert sorted(held.values()) == [37, 37, 38, 38]
    assert moved(placed, found) == held[3]
    led = Counter(new[0] for new in after.values())
    assert unevenness(led, range(4)) <= 1


def test_topics_of_one_partition_go_to_a_broker_that_is_added_too() -> None:
    placed = {(f"t{n}", 0): (n % 2,) for n in range(9)}
    after = placed | spread(placed, {topic for topic, _ in placed}, on(3))
    assert sorted(Counter(after.values()).values()) == [3, 3, 3]


def test_a_broker_that_may_hold_nothing_gives_all_it_has_to_the_others() -> None:
    placed = made(12, 4, 3)
    found = spread(placed, {"t"}, on(3))
    assert set(found) == {key for key, each in placed.items() if 3 in each}
    assert moved(placed, found) == sum(3 in each for each in placed.values())


def test_more_replicas_come_beside_those_there_are_and_spread_the_leaders() -> None:
    placed = {("t", index): (0,) for index in range(50)}
    after = placed | spread(placed, {"t"}, on(3), 3)
    assert {frozenset(new) for new in after.values()} == {frozenset({0, 1, 2})}
    assert sorted(Counter(new[0] for new in after.values()).values()) == [16, 17, 17]


def test_each_topic_is_led_by_all_its_brokers() -> None:
    placed = {("t", index): (0,) for index in range(3)} | {("other", index): (0,) for index in range(50)}
    after = placed | spread(placed, {"t", "other"}, on(3), 3)
    assert {new[0] for key, new in after.items() if key[0] == "t"} == {0, 1, 2}
    assert unevenness(Counter(new[0] for new in after.values()), range(3)) <= 1


def test_leadership_is_handed_on_by_way_of_others() -> None:
    placed = {("t", 0): (0, 1), ("t", 1): (0, 3), ("t", 2): (1, 2), ("t", 3): (3, 2)}
    after = placed | spread(placed, {"t"}, on(4))
    assert {key: set(new) for key, new in after.items()} == {key: set(each) for key, each in placed.items()}
    assert sorted(new[0] for new in after.values()) == [0, 1, 2, 3]


def test_fewer_replicas_leave_one_in_each_rack() -> None:
    brokers = [(0, "a"), (1, "a"), (2, "b")]
    placed = {("t", index): (0, 1, 2) for index in range(4)}
    after = placed | spread(placed, {"t"}, brokers, 2)
    assert all(2 in new and len(new) == 2 for new in after.values())
    assert unevenness(Counter(b for new in after.values() for b in new), (0, 1)) == 0


def test_topics_that_are_not_to_move_count_as_load() -> None:
    placed = {**made(4, 1, 1, "heavy"), ("t", 0): (0,)}
    assert spread(placed, {"t"}, on(2)) == {("t", 0): (1,)}
