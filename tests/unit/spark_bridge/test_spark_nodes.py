"""The nodes of executors, and the Java that each Ray node runs them with: the rules, with nodes made up."""

from __future__ import annotations

import pytest

from placement.executors import NoRoomError, Room, place_executors
from spark_bridge.ray_nodes import NodeJava, choose_java
from spark_bridge.spark_config import SessionError

GIB = 1 << 30
PYTHON = "/venv/bin/python"


def room(node: str, cpus: float = 4, gib: float = 8, brokers: int = 0) -> Room:
    return Room(node, f"10.0.0.{ord(node) - 96}", cpus, gib * GIB, brokers)


def test_executors_go_beside_brokers_in_turns() -> None:
    rooms = [room("a"), room("b", brokers=1), room("c", brokers=1)]
    assert place_executors(rooms, 4, 1, GIB) == ["b", "c", "b", "c"]


def test_the_node_with_more_brokers_comes_first() -> None:
    rooms = [room("a", brokers=1), room("b", brokers=2)]
    assert place_executors(rooms, 3, 1, GIB) == ["b", "a", "b"]


def test_executors_overflow_to_nodes_without_brokers() -> None:
    rooms = [room("a"), room("b", cpus=1, brokers=1), room("c", gib=1, brokers=1)]
    assert place_executors(rooms, 4, 1, GIB) == ["c", "b", "a", "a"]


def test_executors_are_spread_where_there_is_no_broker() -> None:
    assert place_executors([room("a"), room("b", cpus=2)], 4, 1, GIB) == ["a", "b", "a", "b"]


def test_what_does_not_fit_is_said_with_what_there_is() -> None:
    with pytest.raises(NoRoomError) as raised:
        place_executors([room("a", cpus=2), room("b", cpus=1, gib=0.5)], 3, 1, GIB)
    assert str(raised.value) == (
        "num_executors=3 with executor_cores=1 and executor_memory=1024m do not fit: there is room for 2 "
        "(10.0.0.1 has 2 CPU(s) and 8192m free; 10.0.0.2 has 1 CPU(s) and 512m free)"
    )


def node(address: str, home: str | None = "/java", **more: object) -> NodeJava:
    fields: dict[str, object] = {"on_path": True, "needs_home": False, "why": "", "has_python": True}
    return NodeJava(address=address, home=home, **{**fields, **more})  # type: ignore[arg-type]


def test_nodes_with_the_right_java_first_on_path_need_nothing() -> None:
    assert choose_java([node("a", "/x"), node("b", "/y")], PYTHON) == {}


def test_a_wrong_java_on_path_is_preceded_by_the_right_one_of_the_same_path() -> None:
    found = choose_java([node("a"), node("b", needs_home=True)], PYTHON)
    assert found == {"JAVA_HOME": "/java", "PATH": "/java/bin:${PATH}"}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (node("b", None, why="Spark needs Java 17: PATH is Java 21.0.2"), "Ray node b: Spark needs Java 17: PATH is"),
        (node("b", on_path=False), "Ray on node b was started without a java on PATH"),
        (node("b", "/other", needs_home=True), "a: /java; b: /other"),
        (node("b", has_python=False), f"Ray node b has no {PYTHON}"),
    ],
)
def test_a_node_that_cannot_run_spark_is_named_with_what_it_has(bad: NodeJava, said: str) -> None:
    with pytest.raises(SessionError) as raised:
        choose_java([node("a"), bad], PYTHON)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
