"""Each of several controllers is on a Ray node of its own, and stays where its log is."""

from __future__ import annotations

import pytest

from actors.controller.several_by_name import check_count, place_controllers
from actors.runtime.ray_runtime import ClusterError
from placement.nodes import Node, PlacementError

HERE, *OTHERS = [Node(f"n{i}", f"10.0.0.{i}", 2.0, head=i == 1) for i in range(4)]


def test_the_first_is_here_and_the_others_are_on_nodes_of_their_own_and_last_on_the_head() -> None:
    placed = place_controllers([HERE, *OTHERS], {}, 3)
    assert {each: node.node_id for each, node in placed.items()} == {0: "n0", 1: "n2", 2: "n3"}


def test_one_that_has_a_log_is_where_that_is() -> None:
    placed = place_controllers([HERE, *OTHERS], {1: Node("", "10.0.0.3", 0.0), 2: Node("", "10.0.0.1", 0.0)}, 3)
    assert {each: node.node_id for each, node in placed.items()} == {0: "n0", 1: "n3", 2: "n1"}


def test_too_few_nodes_are_refused_but_for_one_alone() -> None:
    assert set(place_controllers([HERE], {}, 3)) == {0, 1, 2}
    with pytest.raises(PlacementError, match=r"3 controllers need 3 Ray nodes, .* has 2"):
        place_controllers([HERE, OTHERS[0]], {}, 3)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_an_even_number_of_controllers_is_refused(count: int) -> None:
    with pytest.raises(ClusterError, match=rf"an odd number, .* got {count}"):
        check_count(count)
    check_count(3)
