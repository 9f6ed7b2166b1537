"""The Ray nodes on which a controller places brokers, with a Ray that the test plays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.controller.ray_actors import Role
from placement.metadata import BrokerInfo, Directory, Home
from placement.nodes import Node, PlacementError
from placement.records import BrokerDirectoryRecord, BrokerRecord
from tests.support.controller_process import Controllers, commit, spec_in
from tests.support.controller_world import older_log
from tests.support.fake_ray import NODES
from tests.support.waiting import wait_until

THIRD = Node(f"{7:056x}", "10.0.0.7", 2.0)


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    yield made
    for each in made.running:
        each.close()


def test_a_controller_restarted_while_a_node_is_away_has_its_brokers_wait_for_it(controllers: Controllers) -> None:
    homes = spec_in(controllers.folder).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.0", 0], "1": ["10.0.0.1", 0]}))
    controllers.ray.alive = NODES[:1]
    first = controllers.begin()
    with pytest.raises(PlacementError, match=r"10\.0\.0\.1"):
        first.start_brokers(1.0)
    controllers.end()
    controllers.restarted = True
    second = controllers.begin()
    wait_until(lambda: second.controller.starts.wanted == {0, 1}, what="the brokers to be expected")
    assert second.launcher.told(1).host == "10.0.0.1"
    assert second.controller.decided.homes[1] == Home("10.0.0.1")
    assert not homes.exists(), "it stands in the metadata now"


def test_a_broker_whose_directory_has_been_made_meanwhile_is_not_placed_elsewhere(controllers: Controllers) -> None:
    homes = spec_in(controllers.folder).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.0", 0, ""], "1": ["10.0.0.1", 0, ""]}))
    controllers.ray.alive = [*NODES, THIRD]
    process = controllers.begin()
    process.placing.place(2)
    broker = BrokerRecord(BrokerInfo(1, "10.0.0.1", 9092, None, 0))
    commit(process, broker, BrokerDirectoryRecord(1, Directory("d")))
    process.placing.place_elsewhere(1)
    assert process.launcher.node_of(1) == NODES[1].node_id
    assert process.controller.decided.directories == {1: Directory("d")}


@pytest.mark.conformance("N-A-12")
def test_a_controller_hears_of_drained_nodes_and_has_nothing_started_there(controllers: Controllers) -> None:
    process = controllers.begin()
    process.placing.place(2)
    controllers.ray.drained = {NODES[1].node_id: 7}
    commit(process, *(BrokerRecord(BrokerInfo(i, f"10.0.0.{i}", 9092, None, 0)) for i in range(2)))

    def drained_until() -> list[int | None]:
        return [each.drained_until_ms for each in process.status().brokers]

    wait_until(lambda: drained_until() == [None, 7], what="a look at the nodes")
    assert process.controller.decided.draining == {1}
    process.launcher.start_shards(1, 1, 1, ())
    process.launcher.start_shards(0, 1, 1, ())
    wait_until(lambda: controllers.ray.of(Role.SHARD), what="a shard")
    assert [each.broker_id for each in controllers.ray.of(Role.SHARD)] == [0]


@pytest.mark.parametrize("lost", [True, False], ids=["its node is gone", "its node is there, and said to be off"])
def test_a_broker_that_was_replaced_is_placed_on_another_node_and_stays_there(
    controllers: Controllers, lost: bool
) -> None:
    homes = spec_in(controllers.folder).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.0", 0, ""], "1": ["10.0.0.1", 0, ""]}))
    controllers.ray.alive = [*NODES, THIRD]
    process = controllers.begin()
    process.placing.place(2)
    broker = BrokerRecord(BrokerInfo(1, "10.0.0.1", 9092, None, 0))
    commit(process, broker, BrokerDirectoryRecord(1, Directory("d", awaited=True)))
    if lost:
        controllers.ray.alive = [NODES[0], THIRD]
    process.placing.place_elsewhere(1)
    assert process.launcher.node_of(1) == THIRD.node_id
    assert process.controller.decided.homes == {0: Home("10.0.0.0"), 1: Home("10.0.0.7")}
    moved = process.controller.decided.directories[1]
    assert (moved.awaited, moved.id != "d") == (True, True), "one that was made where it was is not taken for it"
    controllers.ray.alive = NODES  # the node that it was given is lost, too, before it has registered
    process.placing.place(2)
    assert process.launcher.node_of(1) == NODES[1].node_id


def test_where_data_is_can_be_read_by_builds_before_labels_and_is_read_from_them(controllers: Controllers) -> None:
    """They take the first for an address, and would wait for a node at the address `disk-0`."""
    older_log(controllers.folder / "controller")
    homes = spec_in(controllers.folder).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.1", 0], "1": ["10.0.0.8", 0, "disk-1"]}))
    controllers.ray.alive = [replace(NODES[0], name="disk-1"), replace(NODES[1], name="disk-0")]
    process = controllers.begin()
    process.placing.place(2)
    assert [process.launcher.node_of(each) for each in (0, 1)] == [NODES[1].node_id, NODES[0].node_id]
    written = {"0": ["10.0.0.1", 0, "disk-0"], "1": ["10.0.0.0", 0, "disk-1"]}
    assert json.loads(homes.read_text()) == written
    controllers.end()
    controllers.restarted, controllers.ray.alive = True, [Node(f"{8:056x}", "10.0.0.8", 2.0)]
    controllers.begin()
    assert json.loads(homes.read_text()) == written, "of nodes that are away, all stays noted"


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_brokers_with_data_stay_on_their_nodes_though_a_host_is_given(controllers: Controllers, host: str) -> None:
    """They were placed anew at each start, and since new ones keep off the head, elsewhere."""
    spec_in(controllers.folder).homes_file.write_text(json.dumps({"0": ["10.0.0.0", 0]}))
    controllers.ray.alive = [replace(NODES[0], head=True), NODES[1]]
    process = controllers.begin(brokers=1, host=host)
    process.placing.place(1)
    assert process.launcher.node_of(0) == NODES[0].node_id
    controllers.ray.alive = NODES[1:]  # a cluster on one machine, which has another address now
    process.placing.place(1)
    assert process.launcher.node_of(0) == NODES[1].node_id


@pytest.mark.parametrize(
    ("host", "listeners", "at"),
    [
        (None, "", 1),
        ("0.0.0.0", "", 1),
        ("127.0.0.1", "", 0),
        (None, "PLAINTEXT://:0", 1),
        (None, "PLAINTEXT://:0,SSL://127.0.0.1:0", 0),
    ],
)
def test_a_broker_at_an_address_of_this_machine_is_placed_here_though_it_is_the_head(
    controllers: Controllers, host: str | None, listeners: str, at: int
) -> None:
    """It was placed on a node where nobody reaches this address."""
    controllers.ray.alive = [replace(NODES[0], head=True), NODES[1]]
    config = {"listeners": listeners} if listeners else {}
    process = controllers.begin(brokers=1, host=host, port=None, config=config)
    process.placing.place(1)
    assert process.launcher.node_of(0) == NODES[at].node_id


def test_where_the_data_is_is_on_the_disk_before_it_is_believed(
    controllers: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "no space left")

    homes = spec_in(controllers.folder).homes_file
    homes.write_text("{}")
    process = controllers.begin()
    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", full)
        with pytest.raises(OSError, match="no space left"):
            process.start_brokers(1.0)
    assert process.controller.decided.homes == {}
    assert homes.exists()
