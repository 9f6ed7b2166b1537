"""A node that is replaced: where its actors start again, and where new brokers go, and do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.nodes import (
    Node,
    PlacementError,
    alive_nodes,
    beside,
    place_brokers,
    staying_at,
    staying_here,
    successor,
)


def id_of(number: int | str) -> str:
    return f"{int(number):056x}"  # Ray takes no other form


def node(node_id: str, address: str = "", **known: Any) -> Node:
    address = address or f"10.0.0.{node_id}"
    return Node(id_of(node_id), address, 2.0, resource=f"node:{address}", **known)


def affinity(options: dict[str, Any]) -> str:
    """The node's id in Ray's options, which is to hold."""
    (strategy,) = options.values()
    assert not strategy.soft
    return str(strategy.node_id)


# --- the options of an actor ---


@pytest.mark.conformance("N-A-07")
def test_an_actor_with_data_is_placed_by_the_label_of_its_node() -> None:
    here = node("1", name="disk-1")
    assert staying_at(here, [here, node("2", name="disk-2"), node("3")]) == {
        "label_selector": {"coterie.io/node": "disk-1"},
        "scheduling_strategy": "DEFAULT",
    }


@pytest.mark.conformance("N-A-07")
def test_an_actor_with_data_is_placed_by_the_address_of_a_node_without_a_label() -> None:
    """By the node's id it was gone for good once another node had come under its address."""
    here = node("1")
    options = staying_at(here, [here, node("2")])
    assert options == {"resources": {"node:10.0.0.1": 0.001}, "scheduling_strategy": "DEFAULT"}


def test_an_actor_is_placed_by_the_id_of_its_node_if_another_has_its_label() -> None:
    """Placed by its address, it waited two minutes for a lost node, and not for the one with its disk."""
    here = node("1", name="disk")
    assert affinity(staying_at(here, [here, node("2", name="disk")])) == id_of(1)


def test_of_several_nodes_at_one_address_the_id_says_which() -> None:
    here = node("1", "127.0.0.1")
    assert affinity(staying_at(here, [here, node("2", "127.0.0.1")])) == id_of(1)


def test_a_node_without_a_resource_of_its_address_is_named_by_its_id() -> None:
    here = Node(id_of(1), "10.0.0.1", 2.0)
    assert affinity(staying_at(here, [here, Node(id_of(2), "10.0.0.2", 2.0)])) == id_of(1)


@pytest.mark.parametrize("known", [{}, {"name": "disk"}, {"resource": ""}])
def test_no_actor_is_taken_into_the_placement_group_of_who_starts_a_cluster(known: dict[str, str]) -> None:
    """Ray refused the start in a placement group that captures what its tasks start, as those of Train and Tune do."""
    here = replace(node("1"), **known)
    assert staying_at(here, [here])["scheduling_strategy"] is not None


def test_what_serves_a_process_of_a_node_goes_with_the_node() -> None:
    assert affinity(beside(id_of(1))) == id_of(1)


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["x", "y", "z"])), min_size=1, max_size=6))
def test_an_actor_with_data_can_start_on_its_node_alone(kinds: list[tuple[str, str]]) -> None:
    alive = [node(str(at), address, name=name) for at, (name, address) in enumerate(kinds)]
    for here in alive:
        match staying_at(here, alive):
            case {"label_selector": {"coterie.io/node": name}}:
                fit = [each for each in alive if each.name == name]
            case {"resources": resources}:
                fit = [each for each in alive if each.resource in resources]
            case options:
                fit = [each for each in alive if each.node_id == affinity(options)]
        assert fit == [here]


# --- what Ray says ---


def told(number: int, labels: dict[str, str], **resources: float) -> dict[str, Any]:
    address = f"10.0.0.{number}"
    own = {f"node:{address}": 1.0, "CPU": 2.0}
    return {
        "NodeID": id_of(number),
        "Alive": True,
        "NodeManagerAddress": address,
        "Resources": own | resources,
        "Labels": labels,
    }


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    head = told(9, {}, **{"node:__internal_head__": 1.0})
    nodes = [told(1, {"coterie.io/node": "b"}), told(2, {"coterie.io/node": "a"}), head]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: id_of(9)))


@pytest.mark.usefixtures("three")
def test_nodes_are_known_by_label_address_and_being_the_head_and_come_in_the_order_of_their_homes() -> None:
    assert [(each.home, each.resource, each.head) for each in alive_nodes()] == [
        ("10.0.0.9", "node:10.0.0.9", True),
        ("a", "node:10.0.0.2", False),
        ("b", "node:10.0.0.1", False),
    ]


@pytest.mark.usefixtures("three")
def test_the_node_of_this_process_is_named_so_that_its_successor_is_meant_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert staying_here()["resources"] == {"node:10.0.0.9": 0.001}
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: id_of(7)))
    assert affinity(staying_here()) == id_of(7), "Ray does not know it yet"


# --- homes ---


@pytest.mark.conformance("N-A-07")
def test_a_broker_goes_to_the_node_with_its_label_at_whatever_address() -> None:
    alive = [node("7", name="disk-1"), node("8", name="disk-0")]
    placed = place_brokers(alive, {each: node("0", name=f"disk-{each}") for each in (0, 1)}, 2)
    assert {broker_id: each.node_id for broker_id, each in placed.items()} == {0: id_of(8), 1: id_of(7)}
    assert successor(node("0", name="disk-0"), alive) == alive[1]


def test_a_broker_whose_node_has_its_label_only_now_is_at_home_there() -> None:
    here = node("1", name="disk-1")
    assert place_brokers([here], {0: "10.0.0.1"}, 1) == {0: here}
    assert successor(node("0", "10.0.0.1"), [here]) == here


def test_a_node_with_another_label_at_the_same_address_has_another_disk() -> None:
    assert successor(node("0", "10.0.0.1", name="disk-0"), [node("1", name="disk-1")]) is None
    with pytest.raises(PlacementError, match=r"broker 0 is on Ray node disk-0.*its nodes are disk-1"):
        place_brokers([node("1", name="disk-1")], {0: node("0", "10.0.0.1", name="disk-0")}, 1)


def test_a_broker_whose_node_has_lost_its_label_is_at_home_at_its_address() -> None:
    """The start was refused, as if no node had the data."""
    here = node("1")
    before = node("0", "10.0.0.1", name="disk-1")
    assert place_brokers([node("2"), here], {0: before}, 1) == {0: here}
    assert successor(before, [node("2"), here]) == here


def test_of_nodes_at_several_addresses_with_one_label_the_data_is_at_the_noted_address() -> None:
    """Brokers took turns on such nodes, and came up where another one's data was."""
    alive = [node(str(at), name="same") for at in (1, 2, 3)]
    homes = {broker_id: node("0", f"10.0.0.{at}", name="same") for broker_id, at in enumerate((3, 1, 2))}
    assert [each.address for each in place_brokers(alive, homes, 3).values()] == ["10.0.0.3", "10.0.0.1", "10.0.0.2"]
    gone = node("0", "10.0.0.9", name="same")
    assert successor(gone, alive) is None
    assert successor(gone, alive[:1]) == alive[0], "once the others are gone, it is the one that has come instead"


# --- the head, and nodes that are drained ---


def test_brokers_keep_off_the_head_while_another_node_has_room_for_one() -> None:
    head, one, two = node("0", head=True), node("1"), node("2")
    assert list(place_brokers([head, one, two], {}, 2).values()) == [one, two]
    assert place_brokers([head], {}, 1) == {0: head}


def test_a_broker_stands_on_the_head_rather_than_two_beside_each_other() -> None:
    """Of three replicas, two would be lost with one machine. The first broker is where the command was given."""
    nodes = [node("0", head=True), node("1"), node("2")]
    assert list(place_brokers(nodes, {}, 3).values()) == nodes


def test_data_that_is_on_the_head_stays_there() -> None:
    placed = place_brokers([node("0", head=True), node("1")], {0: "10.0.0.0"}, 2)
    assert [placed[each].node_id for each in (0, 1)] == [id_of(0), id_of(1)]


@pytest.mark.conformance("N-D-06")
def test_no_broker_is_placed_on_a_node_that_is_drained_unless_all_are() -> None:
    nodes = [node("1"), node("2")]
    assert {each.node_id for each in place_brokers(nodes, {}, 3, leaving={id_of(1): 0}).values()} == {id_of(2)}
    assert len(place_brokers(nodes, {}, 2, leaving=(id_of(1), id_of(2)))) == 2


def test_the_head_is_better_than_a_node_that_is_drained() -> None:
    assert place_brokers([node("0", head=True), node("1")], {}, 1, leaving=(id_of(1),))[0].node_id == id_of(0)


def test_a_broker_with_data_is_placed_there_though_the_node_is_drained() -> None:
    assert place_brokers([node("1"), node("2")], {0: "10.0.0.1"}, 1, leaving=(id_of(1),))[0].node_id == id_of(1)


def test_brokers_that_were_removed_are_placed_nowhere_and_their_homes_are_forgotten() -> None:
    nodes = [node("1"), node("2")]
    assert place_brokers(nodes, {0: "10.0.0.1", 1: "10.0.0.9"}, 4, removed={1, 2}).keys() == {0, 3}


def test_of_nodes_that_share_a_machine_the_successor_is_one_that_stays() -> None:
    first, second = node("1", "127.0.0.1"), node("2", "127.0.0.1")
    assert successor(first, [first, second]) == first
    assert successor(first, [first, second], {id_of(1): 0}) == second
    assert successor(first, [first], {id_of(1): 0}) == first


@pytest.mark.conformance("N-B-02")
@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=7),
    st.integers(1, 10),
)
def test_new_brokers_are_spread_over_nodes_that_stay_and_the_head_never_has_more_than_another(
    kinds: list[tuple[bool, bool]], count: int
) -> None:
    nodes = [node(str(at), head=head) for at, (head, _) in enumerate(kinds)]
    leaving = {id_of(at): 0 for at, (_, leaves) in enumerate(kinds) if leaves}
    candidates = [each for each in nodes if each.node_id not in leaving] or nodes
    used = Counter(each.node_id for each in place_brokers(nodes, {}, count, leaving=leaving).values())
    assert set(used) <= {each.node_id for each in candidates}
    loads = [used[each.node_id] for each in candidates]
    assert max(loads) - min(loads) <= 1
    for head in (each for each in candidates if each.head):
        assert all(used[head.node_id] <= used[each.node_id] for each in candidates if not each.head)
