"""The launcher and its brokers, with a Ray that the test plays: starts, failures, and the nodes with their data."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.broker.spec import BrokerStart
from placement.nodes import Node
from tests.support.fake_ray import NODES
from tests.support.launched import OF_BROKER, Launched


@pytest.mark.conformance("N-A-02")
def test_a_start_that_ray_refuses_has_failed(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.ray.alive = []
    w.launcher.start_broker(0)
    assert (w.failed, w.reasons) == ([0], {0: "the GCS is busy"})
    w.ray.alive, w.ray.refusal = NODES, RuntimeError("no such resource")
    w.launcher.start_broker(0)
    assert (w.failed, w.reasons) == ([0, 0], {0: "no such resource"})
    assert not w.launcher.is_starting()


def test_a_broker_that_ends_before_it_has_registered_has_not_started(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.launcher.start_broker(0)
    assert w.launcher.is_starting()
    w.ray.started[0].ended(ConnectionError("its port is in use"))
    assert (w.failed, w.reasons) == ([0], {0: "its port is in use"})
    assert not w.launcher.is_starting()


def test_the_end_of_a_broker_that_has_registered_is_no_failed_start(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.launcher.start_broker(0)
    w.launcher.registered(0, {"PLAINTEXT": 9092})
    assert not w.launcher.is_starting()
    w.ray.started[0].ended(ConnectionError("killed"))
    assert (w.failed, w.reasons) == ([], {})
    w.launcher.start_broker(0)
    told = BrokerStart.decoded(w.ray.started[1].told).spec
    assert told.doors[0].port == 9092, "the next one listens there, too"


def test_a_start_ended_on_purpose_has_not_failed(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.launcher.start_broker(0)
    w.launcher.kill_broker(0)
    w.ray.started[0].ended(ConnectionError("killed"))
    assert (w.failed, w.reasons) == ([], {})


def test_a_start_is_given_up_once_it_shows_no_sign_of_life(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.launcher.start_broker(0)
    w.work.advance(100)
    w.launcher.heard(0)  # it recovers, for as long as that takes
    w.work.advance(100)
    assert (w.failed, w.ray.killed) == ([], [])
    w.work.advance(21)
    assert (w.failed, w.ray.killed) == ([0], [w.ray.started[0].name])
    assert "does not answer, for 120 s" in w.reasons[0]
    w.ray.started[0].ended(ConnectionError("killed"))
    assert w.failed == [0], "once"


def test_of_two_processes_for_one_broker_the_former_is_ended(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    for _ in range(2):
        w.launcher.start_broker(0)
    former, present = w.ray.started
    assert [each.name[:9] for each in (former, present)] == ["broker-0-"] * 2
    assert w.ray.killed == [former.name]
    w.launcher.kill_broker(0)
    assert w.ray.killed == [former.name, present.name]
    assert w.failed == []


def test_a_broker_is_placed_by_its_nodes_label_and_told_the_address_that_this_has_now(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.launcher.add(OF_BROKER, Node("gone", "10.0.0.0", 2.0, name="disk-0"))
    w.ray.alive = [Node(f"{7:056x}", "10.0.0.9", 2.0, name="disk-0"), Node(f"{8:056x}", "10.0.0.0", 2.0, name="disk-1")]
    w.launcher.start_broker(0)
    assert w.failed == []
    (started,) = w.ray.started
    assert started.options["label_selector"] == {"coterie.io/node": "disk-0"}
    spec = BrokerStart.decoded(started.told).spec
    assert (spec.host, spec.doors[0].host, spec.doors[0].advertised_host) == ("10.0.0.9",) * 3
    assert w.launcher.told(0) == spec
    assert w.launcher.node_of(0) == f"{7:056x}"


@pytest.mark.conformance("N-A-12")
def test_a_broker_whose_node_is_drained_waits_for_the_next_one_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray refused each start, again and again."""
    w = Launched(tmp_path)
    w.ray.drained = {NODES[0].node_id: 0}
    for _ in range(3):
        w.launcher.start_broker(0)
    assert (w.failed, w.ray.started) == ([0, 0, 0], [])
    said = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    (line,) = said
    assert line.startswith("broker 0 did not start: broker 0: Ray node 10.0.0.0 with its data is drained: ")
    w.ray.alive = [*NODES, Node(f"{7:056x}", "10.0.0.0", 2.0)]
    w.launcher.start_broker(0)
    assert [w.launcher.node_of(0), len(w.ray.started), len(w.failed)] == [f"{7:056x}", 1, 3]


def test_a_node_that_is_alone_has_to_do_though_it_is_drained(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.ray.drained, w.ray.alive = {NODES[0].node_id: 0}, NODES[:1]
    w.launcher.start_broker(0)
    assert (w.failed, len(w.ray.started)) == ([], 1)


def test_a_look_at_a_brokers_home_counts_once_and_none_pile_up_while_ray_does_not_answer(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.ray.alive = NODES[1:]
    w.launcher.home_is_gone(0)
    w.work.held = True
    assert [w.launcher.home_is_gone(0) for _ in range(3)] == [True, False, False]
    assert len(w.work.waiting) == 1
    w.ray.alive = NODES
    w.work.go_on()
    assert not w.launcher.home_is_gone(0)


def test_a_broker_whose_node_is_gone_has_no_home_and_goes_elsewhere_once_it_is_replaced(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    w.elsewhere = lambda broker_id: w.launcher.add(OF_BROKER.moved("10.0.0.0", "10.0.0.1"), NODES[1])

    def looked() -> bool:
        w.launcher.home_is_gone(0)
        return w.launcher.home_is_gone(0)

    assert not looked()
    w.ray.alive = NODES[1:]
    assert looked()
    w.ray.alive = []
    w.launcher.home_is_gone(0)  # of the look before
    assert not looked(), "nobody knows while Ray does not answer"
    w.ray.alive = NODES[1:]
    w.launcher.start_broker(0)
    assert (w.failed, looked(), len(w.ray.started)) == ([0], True, 0)
    assert "with its data is gone: it waits for that node, or is replaced" in w.reasons[0]
    w.replaced.add(0)
    w.launcher.start_broker(0)
    w.launcher.home_is_gone(0)  # of the look before
    assert (w.failed, looked(), len(w.ray.started)) == ([0], False, 1)
    assert (w.launcher.node_of(0), w.launcher.told(0).host) == (NODES[1].node_id, "10.0.0.1")
