"""The launcher, shards and the Monitor, with a Ray that the test plays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.controller.ray_actors import Role
from placement.nodes import Node
from tests.support.fake_ray import NODES
from tests.support.launched import OF_BROKER, Launched


@pytest.mark.conformance("N-A-12", "N-D-06")
def test_no_shard_and_no_monitor_is_started_on_a_node_that_is_drained(tmp_path: Path) -> None:
    """Ray refused each of them, again and again; the Monitor that ran there had been ended for it."""
    here, there = NODES[1].node_id, NODES[0].node_id
    w = Launched(tmp_path, node_id=here)
    w.launcher.add(replace(OF_BROKER, broker_id=1), NODES[1])
    w.ray.named = ["monitor"]
    assert w.launcher.nodes() == {here, there}

    def asked() -> list[int]:
        w.launcher.start_shards(0, 1, 1, ())
        w.launcher.start_shards(1, 1, 0, ())
        w.launcher.start_monitor()
        return [each.broker_id for each in w.ray.of(Role.SHARD)]

    w.launcher.start_nothing_on({here: 0, there: 0})
    assert (asked(), w.ray.of(Role.MONITOR), w.ray.killed) == ([], [], [])
    w.launcher.start_nothing_on({here: 0})
    assert (asked(), w.ray.of(Role.MONITOR)) == ([0], [])
    w.launcher.start_nothing_on({})
    assert (asked(), len(w.ray.of(Role.MONITOR))) == ([0, 1], 1)
    assert w.ray.killed == ["monitor"]


@pytest.mark.parametrize("address", ["10.0.0.0", "10.0.0.9"])
@pytest.mark.parametrize("seen", ["registered", "shard ended"])
def test_shards_follow_a_broker_that_ray_has_started_on_the_next_node(tmp_path: Path, address: str, seen: str) -> None:
    """Its start waited for a node with its label or address. Its shards were started on the lost one, for ever."""
    w = Launched(tmp_path)
    w.launcher.add(OF_BROKER, replace(NODES[0], name="disk-0"))
    w.ray.alive = [replace(NODES[0], name="disk-0"), NODES[1]]
    w.launcher.start_broker(0)
    w.ray.alive = [Node(f"{7:056x}", address, 2.0, name="disk-0"), NODES[1]]
    if seen == "registered":
        w.launcher.registered(0, {})
    else:
        w.launcher.start_shards(0, 1, 0, ())
        w.ray.started[-1].ended(ConnectionError("its node is gone"))
    w.launcher.start_shards(0, 2, 0, ())
    shard = w.ray.of(Role.SHARD)[-1]
    assert shard.options["scheduling_strategy"].node_id == w.launcher.node_of(0) == f"{7:056x}"
    assert w.launcher.told(0).host == address


def test_a_shard_that_ray_does_not_start_is_ended_and_another_one_started_after_a_while(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.launcher.start_shards(0, 1, 1, ())
    w.work.advance(119)
    assert w.ray.killed == []
    w.work.advance(1)
    (silent,) = w.ray.started
    assert w.ray.killed == [silent.name]
    silent.ended(ConnectionError("killed"))
    w.launcher.start_shards(0, 1, 1, ())
    assert len(w.ray.started) == 1, "it still counts as under way"
    w.work.advance(1)
    w.launcher.start_shards(0, 1, 1, ())
    assert len(w.ray.started) == 2


def test_a_stop_ends_the_shards_and_the_monitor_that_ray_knows(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.ray.named = ["broker-0-7-1", "shard-0-7-1", "shard-1-7-2", "controller", "monitor"]
    w.launcher.end()
    assert w.ray.killed == ["shard-0-7-1", "shard-1-7-2", "monitor"]


def test_a_launcher_that_stops_starts_nothing_more(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.launcher.start_no_more()
    w.launcher.start_broker(0)
    w.launcher.start_shards(0, 1, 1, ())
    w.launcher.start_monitor()
    assert (w.ray.started, w.failed) == ([], [])


def test_brokers_of_the_controller_before_are_ended_when_they_are_to_be(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.ray.named = ["broker-0-7-1", "shard-0-7-1", "controller"]
    w.launcher.adopt()
    w.launcher.start_broker(0)
    assert w.ray.killed == ["broker-0-7-1"]


def test_a_controller_that_leads_no_more_ends_nothing_that_it_had_started(tmp_path: Path) -> None:
    """They may serve under the next one, of which this one hears nothing."""
    w = Launched(tmp_path)
    w.launcher.start_broker(0)
    w.launcher.start_shards(0, 1, 1, ())
    w.launcher.rest()
    w.work.advance(500)
    w.ray.started[0].ended(ConnectionError("killed"))
    assert (w.ray.killed, w.failed) == ([], [])
    w.launcher.take_over()
    w.work.advance(500)
    assert w.ray.killed == [], "what an earlier term has started is not watched any more"


def test_a_broker_comes_back_to_a_controller_that_has_placed_none_yet(tmp_path: Path) -> None:
    """Ray's head may be away: the controller hung up on each broker until it was back."""
    w = Launched(tmp_path)
    w.launcher.registered(5, {"PLAINTEXT": 9092})
    assert w.launcher.node_of(5) == ""


def test_controllers_of_several_nodes_give_other_names_even_with_the_same_process_id(tmp_path: Path) -> None:
    one, two = Launched(tmp_path, of_controller="1."), Launched(tmp_path, of_controller="2.")
    for each in (one, two):
        each.launcher.start_broker(0)
    (first,), (second,) = one.ray.started, two.ray.started
    assert first.name != second.name
    next_one = Launched(tmp_path, of_controller="3.")
    next_one.ray.named = [first.name]
    next_one.launcher.take_over()
    next_one.launcher.kill_broker(0)
    assert next_one.ray.killed == [first.name]
