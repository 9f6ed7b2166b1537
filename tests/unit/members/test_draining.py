"""Members of a drained node go elsewhere, once; Ray and the pool are the test's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import ray

from actors.members.draining import leave_when_drained
from actors.members.logs.journal import Journal
from actors.members.pools.draining import Draining
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.slots import Slot, Together, Version
from actors.runtime import ray_nodes

VERSION = Version(MemberSpec(("t",), "g", "host:1"), cast("Any", None))


class Pool:
    """Members on nodes a, b, ...; notes who has to go."""

    def __init__(self, *nodes: str) -> None:
        self.journal = Journal(lambda: 0)
        self.renewed: list[int] = []
        self.slots = []
        for number, node in enumerate(nodes):
            slot = Slot(number, f"g-{number}", Together(0), VERSION)
            slot.node_id, slot.link, slot.pid = node, cast("Any", object()), 70 + number
            self.slots.append(slot)

    def all(self) -> list[Slot]:
        return self.slots

    def renew(self, slot: Slot, version: Version, *, beside: bool) -> None:
        assert not beside, "a node that is drained does not wait for a setup"
        assert version is slot.version
        self.renewed.append(slot.number)

    def notes(self) -> list[str]:
        return [line.text for line in self.journal.read()]


def look(pool: Pool, leaving: list[str], *, others: bool = True, looks: int = 2) -> None:
    draining = Draining(pool, draining=lambda: dict.fromkeys(leaving, 0), has_others=lambda _: others)
    for _ in range(looks):
        draining.look()


def test_the_members_of_a_drained_node_go_once_and_it_is_said() -> None:
    pool = Pool("a", "b", "a")
    look(pool, ["a"])
    assert pool.renewed == [0, 2]
    assert pool.notes() == ["pid 70 leaves node a, which is drained", "pid 72 leaves node a, which is drained"]


def test_without_another_node_they_stay_and_it_is_said() -> None:
    pool = Pool("a")
    look(pool, ["a"], others=False)
    assert pool.renewed == []
    assert pool.notes() == ["its node a is drained, and there is no other"]


@pytest.mark.parametrize("change", ["retiring", "renewing", "failed", "linkless"])
def test_who_ends_anyway_is_left_alone(change: str) -> None:
    pool = Pool("a")
    (slot,) = pool.slots
    match change:
        case "retiring":
            slot.retire()
        case "renewing":
            slot.renew(slot.version, 0.0)
        case "failed":
            slot.report = type(slot.report)("Failed")
        case "linkless":
            slot.link = None
    look(pool, ["a"])
    assert pool.renewed == []


def test_a_node_that_is_drained_again_is_left_again() -> None:
    pool = Pool("a")
    leaving: dict[str, int] = {"a": 0}
    draining = Draining(pool, draining=lambda: leaving, has_others=lambda _: True)
    draining.look()
    leaving.clear()
    draining.look()
    leaving["a"] = 0
    draining.look()
    assert pool.renewed == [0, 0]


def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool("a")
    looked = threading.Event()
    found: list[Callable[[], dict[str, int]]] = []

    def draining() -> dict[str, int]:
        if not found:
            found.append(draining)
            raise RuntimeError("a bug")
        looked.set()
        return {}

    made = Draining(pool, draining=draining, has_others=lambda _: True, interval_s=0.001)
    made.start()
    assert looked.wait(60)
    made.end()
    made.join()
    assert "a bug" in caplog.text


def test_a_ray_that_does_not_tell_has_no_drained_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise AttributeError("no such call")

    monkeypatch.setattr(ray._private.state.state, "get_draining_nodes", gone)
    assert ray_nodes.draining_nodes() == {}


def test_a_node_that_lives_and_stays_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"NodeID": "a", "Alive": True}, {"NodeID": "b", "Alive": False}]
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert not ray_nodes.has_others({"a"})
    nodes[1]["Alive"] = True
    assert ray_nodes.has_others({"a"})


def test_a_supervisor_leaves_when_its_node_is_drained_and_there_is_another() -> None:
    answers = [False, False, True]
    left: list[int] = []
    leave_when_drained("a", lambda: left.append(len(answers)), is_left=lambda _: answers.pop(0), interval_s=0.001)
    assert left == [0]


@pytest.mark.parametrize(("drained", "others", "left"), [("a", True, True), ("a", False, False), ("b", True, False)])
def test_a_node_is_left_if_it_is_drained_and_not_alone(
    monkeypatch: pytest.MonkeyPatch, drained: str, others: bool, left: bool
) -> None:
    monkeypatch.setattr(ray._private.state.state, "get_draining_nodes", lambda: {drained: 0})
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeID": "c", "Alive": others}])
    assert ray_nodes.is_left("a") is left
