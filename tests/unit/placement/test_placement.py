"""Placement: replicas over brokers and racks, leaders after a death, brokers over Ray nodes."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.assignment import NotEnoughBrokersError, assign_replicas, by_rack
from placement.metadata import NO_LEADER, PartitionInfo, elect
from placement.nodes import Node, PlacementError, alive_nodes, place_brokers, rack_of, successor

brokers = st.lists(st.integers(0, 99), min_size=1, max_size=12, unique=True).flatmap(
    lambda ids: st.tuples(*(st.tuples(st.just(i), st.sampled_from([None, "a", "b", "c"])) for i in ids))
)


@given(brokers, st.integers(1, 40), st.integers(1, 12), st.integers(0, 200))
def test_every_partition_gets_distinct_living_replicas_and_the_work_is_spread(
    given_brokers: tuple[tuple[int, str | None], ...], partitions: int, factor: int, start: int
) -> None:
    ids = [broker for broker, _ in given_brokers]
    if factor > len(ids):
        with pytest.raises(NotEnoughBrokersError):
            assign_replicas(given_brokers, partitions, factor, start)
        return
    made = assign_replicas(given_brokers, partitions, factor, start)
    assert len(made) == partitions
    for replicas in made:
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(ids)
    leaders = Counter(replicas[0] for replicas in made)
    counts = [leaders[i] for i in ids]
    assert max(counts) - min(counts) <= 1


@given(st.integers(2, 8), st.integers(2, 4), st.integers(0, 50))
def test_without_racks_replicas_are_spread_as_evenly_as_leaders(count: int, factor: int, start: int) -> None:
    factor = min(factor, count)
    made = assign_replicas([(i, None) for i in range(count)], count * (count - 1), factor, start)
    held = Counter(broker for replicas in made for broker in replicas)
    assert set(held.values()) == {(count - 1) * factor}


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=3, max_size=9), st.integers(1, 3), st.integers(0, 30))
def test_replicas_stand_in_as_many_racks_as_there_can_be(racks: list[str], factor: int, start: int) -> None:
    of = dict(enumerate(racks))
    for replicas in assign_replicas(list(of.items()), 20, factor, start):
        assert len({of[broker] for broker in replicas}) == min(factor, len(set(racks)))


def test_brokers_are_ordered_so_that_racks_change_at_every_step() -> None:
    assert by_rack([(0, "a"), (1, "a"), (2, "b"), (3, "c"), (4, "b")]) == [0, 2, 3, 1, 4]


def test_topics_made_one_after_the_other_do_not_all_begin_at_one_broker() -> None:
    firsts = {assign_replicas([(i, None) for i in range(3)], 1, 1, start)[0][0] for start in range(3)}
    assert firsts == {0, 1, 2}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(NotEnoughBrokersError, match=r"3 is out of range: 2 broker"):
        assign_replicas([(0, None), (1, None)], 1, 3)
    with pytest.raises(NotEnoughBrokersError):
        assign_replicas([], 1, 1)


# --- elections ---

sets = st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True)


@given(sets, st.data())
def test_an_election_chooses_the_first_living_replica_in_sync_and_raises_the_epoch(
    replicas: list[int], data: st.DataObject
) -> None:
    isr = data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    alive = frozenset(data.draw(st.sets(st.integers(0, 6))))
    epoch = data.draw(st.integers(0, 1000))
    before = PartitionInfo(replicas[0], epoch, tuple(replicas), tuple(isr))
    after = elect(before, alive)
    candidates = [broker for broker in replicas if broker in alive and broker in isr]
    assert after.leader == (candidates[0] if candidates else NO_LEADER)
    assert after.leader_epoch == epoch + 1
    assert after.replicas == before.replicas
    assert after.isr, "the last member may come back with what it has"
    assert set(after.isr) <= set(isr)
    assert after.leader == NO_LEADER or after.leader in after.isr


def test_a_replica_out_of_sync_is_never_elected() -> None:
    assert elect(PartitionInfo(0, 3, (0, 1), (0,)), frozenset({1})) == PartitionInfo(NO_LEADER, 4, (0, 1), (0,), 1)


def test_who_is_eligible_when_one_alone_may_commit_is_so_no_longer() -> None:
    alone = PartitionInfo(NO_LEADER, 3, (0, 1, 2), (0,), elr=(1,))
    assert elect(alone, frozenset({1}), min_insync=2).elr == (0,)
    assert elect(alone, frozenset({1}), min_insync=1).elr == (), "0 will not have what 1 commits from now on"


# --- brokers on Ray nodes ---


def nodes(count: int) -> list[Node]:
    return [Node(f"node{i}", f"10.0.0.{i}", 2.0) for i in range(count)]


@given(st.integers(1, 6), st.integers(1, 12))
def test_brokers_are_spread_over_the_nodes(node_count: int, broker_count: int) -> None:
    placed = place_brokers(nodes(node_count), {}, broker_count)
    assert sorted(placed) == list(range(broker_count))
    used = Counter(node.node_id for node in placed.values())
    assert max(used.values()) - min(used.values() if len(used) == node_count else [0]) <= 1


def test_the_first_broker_stands_where_the_command_was_given() -> None:
    assert place_brokers(nodes(3), {}, 1)[0].node_id == "node0"


def test_a_broker_goes_back_to_where_its_data_is_and_the_others_keep_away() -> None:
    placed = place_brokers(nodes(3), {0: "10.0.0.2", 1: "10.0.0.2"}, 4)
    assert [placed[i].node_id for i in (0, 1)] == ["node2", "node2"]
    assert {placed[i].node_id for i in (2, 3)} == {"node0", "node1"}


def test_nodes_that_share_an_address_share_its_brokers() -> None:
    here = [Node("one", "127.0.0.1", 1.0), Node("two", "127.0.0.1", 1.0)]
    placed = place_brokers(here, {0: "127.0.0.1", 1: "127.0.0.1"}, 2)
    assert {placed[0].node_id, placed[1].node_id} == {"one", "two"}


def test_a_missing_home_is_named_with_what_there_is_instead() -> None:
    with pytest.raises(PlacementError, match=r"broker 1 is on Ray node 10\.9\.9\.9.*10\.0\.0\.0, 10\.0\.0\.1"):
        place_brokers(nodes(2), {0: "10.0.0.0", 1: "10.9.9.9"}, 2)


def test_a_broker_of_a_running_cluster_waits_for_the_node_with_its_data() -> None:
    placed = place_brokers(nodes(2), {0: "10.0.0.0", 1: "10.9.9.9"}, 3, may_be_away=True)
    assert [placed[i].address for i in range(3)] == ["10.0.0.0", "10.9.9.9", "10.0.0.1"]
    assert successor(placed[1], nodes(2)) is None
    back = Node("node9", "10.9.9.9", 2.0)
    assert successor(placed[1], [*nodes(2), back]) == back


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=8), st.integers(1, 8))
def test_brokers_on_nodes_of_their_own_stand_in_as_many_racks_as_there_can_be(
    racks: list[str | None], broker_count: int
) -> None:
    count = min(broker_count, len(racks))
    labelled = [Node(f"node{i}", f"10.0.0.{i}", 2.0, rack) for i, rack in enumerate(racks)]
    placed = place_brokers(labelled, {}, count)
    assert len({node.node_id for node in placed.values()}) == count
    assert len({node.rack for node in placed.values()}) == min(count, len(set(racks)))


def test_a_broker_that_went_home_counts_for_its_rack() -> None:
    labelled = [Node(f"node{i}", f"10.0.0.{i}", 2.0, rack) for i, rack in enumerate("aab")]
    placed = place_brokers(labelled, {0: "10.0.0.0"}, 2)
    assert [placed[i].node_id for i in (0, 1)] == ["node0", "node2"]


@pytest.mark.parametrize(
    ("labels", "rack"),
    [
        ({}, None),
        ({"ray.io/node-id": "abc", "ray.io/availability-region": "r", "rack": "x"}, None),
        ({"ray.io/availability-zone": "zone-1"}, "zone-1"),
        ({"ray.io/availability-zone": "zone-1", "coterie.io/rack": "r7"}, "r7"),
        ({"ray.io/availability-zone": "zone-1", "coterie.io/rack": ""}, "zone-1"),
    ],
)
def test_a_nodes_rack_is_what_its_labels_say_and_our_own_label_goes_before_rays(
    labels: dict[str, str], rack: str | None
) -> None:
    assert rack_of(labels) == rack


def test_living_nodes_are_told_with_their_racks(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(number: int, alive: bool, **labels: str) -> dict[str, object]:
        return {
            "NodeID": f"n{number}",
            "Alive": alive,
            "NodeManagerAddress": f"10.0.0.{number}",
            "Resources": {"CPU": 2.0},
            "Labels": {f"coterie.io/{name}": value for name, value in labels.items()},
        }

    here = SimpleNamespace(get_node_id=lambda: "n3")
    monkeypatch.setattr("ray.get_runtime_context", lambda: here)
    monkeypatch.setattr("ray.nodes", lambda: [told(1, True), told(2, False, rack="a"), told(3, True, rack="b")])
    assert alive_nodes() == [Node("n3", "10.0.0.3", 2.0, "b"), Node("n1", "10.0.0.1", 2.0)]


def test_no_node_no_brokers() -> None:
    with pytest.raises(PlacementError, match="no living node"):
        place_brokers([], {}, 1)
