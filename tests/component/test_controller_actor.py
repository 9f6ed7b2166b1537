"""The controller's actor and its launcher, with a Ray that the test plays."""

from __future__ import annotations

import inspect
import json
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from actors.broker.spec import BrokerSpec, BrokerStart, Door
from actors.controller import actor as module
from actors.controller import settings_in_force
from actors.controller.active import ActiveController
from actors.controller.actor import Controller, ControllerSpec, ControllerStart
from actors.controller.launcher import RayLauncher
from actors.controller.pool_seals import POOLS_KEY
from actors.controller.settings_in_force import Changed
from actors.links.secret import Secrets
from actors.links.versions import OWN, Spoken, VersionError
from actors.monitor.spec import MonitorSpec
from actors.runtime.logs import LogPlace
from actors.runtime.private import write_private
from actors.runtime.process import code_version
from actors.runtime.ray_connection import ClusterError
from actors.security.tls import TlsError
from actors.settings import LINKS, OWN_STORE, OWN_TRUST, BrokerConfig, LinkSecurity
from placement.metadata import BrokerInfo, Directory, Home
from placement.nodes import Node, PlacementError
from placement.records import BrokerDirectoryRecord, BrokerRecord, UnregisterBrokerRecord
from tests.support.controller_world import older_log

_NODES = [Node(f"{i:056x}", f"10.0.0.{i}", 2.0) for i in range(2)]


class Actor:
    """A process that is started, named as Ray knows it."""

    def __init__(self, name: str = "", options: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.name = name
        self.options = options
        self.served: Future[None] = Future()
        reference = SimpleNamespace(future=lambda: self.served)
        self.serve = SimpleNamespace(remote=lambda: reference)


class Started:
    """Does for the class of an actor."""

    made: list[Actor]

    def __init__(self, made: list[Actor], told: Mapping[str, Any] = MappingProxyType({"name": ""})) -> None:
        self.made, self.told = made, told

    def options(self, **options: Any) -> Started:
        return Started(self.made, options)

    def remote(self, *arguments: Any) -> Actor:
        self.made.append(Actor(self.told["name"], self.told))
        return self.made[-1]


class FakeRay:
    def __init__(self) -> None:
        self.made: list[Actor] = []
        self.killed: list[Actor] = []
        self.restarted = False
        self.alive = _NODES
        self.named: list[str] = []

    def nodes(self) -> list[Node]:
        if not self.alive:
            raise TimeoutError("the GCS is busy")
        return self.alive


def exchange(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """In the module, and where Ray's handles of earlier tests have put copies of the class's functions in place."""
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    functions = [inspect.unwrap(function) for _, function in inspect.getmembers(actor_class, inspect.isfunction)]
    for scope in (vars(module), *(function.__globals__ for function in functions)):
        monkeypatch.setitem(scope, name, value)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(
        "ray.get_runtime_context",
        lambda: SimpleNamespace(was_current_actor_reconstructed=fake.restarted, get_node_id=lambda: "n0"),
    )
    monkeypatch.setattr("ray.kill", fake.killed.append)
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "127.0.0.1")
    monkeypatch.setattr(
        "ray.util.list_named_actors",
        lambda all_namespaces: [{"name": name, "namespace": "coterie-c"} for name in fake.named],
    )
    monkeypatch.setattr("ray.get_actor", lambda name, namespace: Actor(name))
    exchange(monkeypatch, "alive_nodes", fake.nodes)
    monkeypatch.setattr("actors.controller.launcher.alive_nodes", fake.nodes)
    monkeypatch.setattr("actors.controller.launcher.Broker", Started(fake.made))
    exchange(monkeypatch, "log_to", lambda place, name, **own: None)
    exchange(monkeypatch, "priority", SimpleNamespace(ask=lambda niceness: None))  # it would be ours
    return fake


def spec_in(folder: Path, brokers: int = 2) -> ControllerSpec:
    (folder / "controller").mkdir(exist_ok=True)
    (folder / "secret").write_text("00" * 32)
    return ControllerSpec("c", str(folder), None, brokers, 0, "", str(folder / "secret"), {}, code_version())


def told(spec: ControllerSpec, starter: Spoken = OWN) -> bytes:
    return ControllerStart(starter, spec).encoded()


def launcher_in(
    folder: Path, draining: Mapping[str, int] = MappingProxyType({}), node_id: str = "node"
) -> tuple[RayLauncher, list[int]]:
    """A launcher with broker 0, and which starts it has said failed. `draining` has the nodes that are drained."""
    logs, failed = LogPlace(str(folder), "c"), list[int]()
    launcher = RayLauncher("coterie-c", logs, code_version(), node_id, lambda: draining)
    launcher.start_failed = failed.append
    launcher.add(BrokerSpec(0, "10.0.0.0", (Door("PLAINTEXT", "10.0.0.0", 0, "10.0.0.0"),), "", "", {}), _NODES[0])
    return launcher, failed


# --- the launcher ---


@pytest.mark.conformance("N-A-02")
def test_a_start_that_ray_refuses_has_failed(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path)
    ray.alive = []
    launcher._start_broker(0)
    assert (failed, launcher.errors) == ([0], {0: "the GCS is busy"})


def test_a_broker_that_ends_before_it_has_registered_has_not_started(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path)
    launcher._start_broker(0)
    ray.made[0].served.set_exception(ConnectionError("its port is in use"))
    launcher.start_no_more()  # waits until all that was asked for is done
    assert (failed, launcher.errors) == ([0], {0: "its port is in use"})
    assert launcher.starts_under_way == set()


def test_the_end_of_a_broker_that_has_registered_is_no_failed_start(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path)
    launcher._start_broker(0)
    launcher.registered(0, {"PLAINTEXT": 9092})
    assert launcher.starts_under_way == set()
    ray.made[0].served.set_exception(ConnectionError("killed"))
    launcher.start_no_more()
    assert (failed, launcher.errors) == ([], {})
    assert launcher._specs[0][0].doors[0].port == 9092, "the next one listens there, too"


def test_a_start_ended_on_purpose_has_not_failed(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path)
    launcher._start_broker(0)
    launcher.kill_broker(0)
    ray.made[0].served.set_exception(ConnectionError("killed"))
    launcher.start_no_more()
    assert (failed, launcher.errors) == ([], {})


def test_a_start_is_given_up_once_it_shows_no_sign_of_life(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path)
    launcher._start_broker(0)
    launcher._heard[0] -= 2 * launcher.start_timeout_s
    launcher.heard(0)  # it recovers, for as long as that takes
    launcher._watch(0, ray.made[0])
    assert (failed, ray.killed) == ([], [])
    launcher._heard[0] -= 2 * launcher.start_timeout_s
    launcher._watch(0, ray.made[0])
    assert (failed, ray.killed) == ([0], ray.made)
    assert "does not answer, for 120 s" in launcher.errors[0]
    launcher._ended(0, ray.made[0], ConnectionError("killed"))
    assert failed == [0], "once"


def test_of_two_processes_for_one_broker_the_former_is_ended(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path)
    for _ in range(2):
        launcher._start_broker(0)
    assert [actor.name[:9] for actor in ray.made] == ["broker-0-"] * 2
    assert ray.killed == ray.made[:1]
    assert launcher._brokers == {0: ray.made[1]}
    assert failed == []


def test_a_broker_is_placed_by_its_nodes_label_and_told_the_address_that_this_has_now(
    tmp_path: Path, ray: FakeRay
) -> None:
    launcher, failed = launcher_in(tmp_path)
    launcher.add(launcher._specs[0][0], Node("gone", "10.0.0.0", 2.0, name="disk-0"))
    ray.alive = [Node(f"{7:056x}", "10.0.0.9", 2.0, name="disk-0"), Node(f"{8:056x}", "10.0.0.0", 2.0, name="disk-1")]
    launcher._start_broker(0)
    assert failed == []
    assert ray.made[0].options["label_selector"] == {"coterie.io/node": "disk-0"}
    spec, node = launcher._specs[0]
    assert (spec.host, spec.doors[0].host, spec.doors[0].advertised_host) == ("10.0.0.9",) * 3
    assert launcher.node_of(0) == node.node_id == f"{7:056x}"


@pytest.mark.conformance("N-A-12")
def test_a_broker_whose_node_is_drained_waits_for_the_next_one_and_says_so_once(
    tmp_path: Path, ray: FakeRay, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray refused each start, again and again."""
    draining = {_NODES[0].node_id: 0}
    launcher, failed = launcher_in(tmp_path, draining)
    for _ in range(3):
        launcher._start_broker(0)
    assert (failed, ray.made) == ([0, 0, 0], [])
    said = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    (line,) = said
    assert line.startswith("broker 0 did not start: broker 0: Ray node 10.0.0.0 with its data is drained: ")
    ray.alive = [*_NODES, Node(f"{7:056x}", "10.0.0.0", 2.0)]
    launcher._start_broker(0)
    assert [launcher.node_of(0), len(ray.made), len(failed)] == [f"{7:056x}", 1, 3]


@pytest.mark.conformance("N-A-12", "N-D-06")
def test_no_shard_and_no_monitor_is_started_on_a_node_that_is_drained(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray refused each of them, again and again; the Monitor that ran there had been ended for it."""
    shards, monitors = list[Actor](), list[Actor]()
    monkeypatch.setattr("actors.controller.launcher.OffsetsPartition", Started(shards))
    monkeypatch.setattr("actors.controller.launcher.Monitor", Started(monitors))
    here, there = _NODES[1].node_id, _NODES[0].node_id
    launcher, _ = launcher_in(tmp_path, node_id=here)
    launcher.add(replace(launcher._specs[0][0], broker_id=1), _NODES[1])
    launcher.monitor = MonitorSpec("c", "coterie-c", str(tmp_path), "", {})
    ray.named = ["monitor"]
    assert launcher.nodes() == {here, there}

    def asked() -> list[int]:
        launcher.start_shards(0, 1, 1, ())
        launcher.start_shards(1, 1, 0, ())
        launcher.start_monitor()
        done = threading.Event()
        launcher._work.put(done.set)
        assert done.wait(10)
        return [int(shard.name.split("-")[1]) for shard in shards]

    launcher.start_nothing_on({here: 0, there: 0})
    assert (asked(), monitors, ray.killed) == ([], [], [])
    launcher.start_nothing_on({here: 0})
    assert (asked(), monitors) == ([0], [])
    launcher.start_nothing_on({})
    assert (asked(), len(monitors)) == ([0, 1], 1)


def test_a_look_at_a_brokers_home_counts_once_and_none_pile_up_while_ray_does_not_answer(
    tmp_path: Path, ray: FakeRay
) -> None:
    launcher, _ = launcher_in(tmp_path)
    ray.alive = _NODES[1:]
    launcher.home_is_gone(0)
    stuck, answers, looked = threading.Event(), threading.Event(), threading.Event()

    def call_of_ray() -> None:
        stuck.set()
        assert answers.wait(10)

    launcher._work.put(call_of_ray)
    assert stuck.wait(10)
    assert [launcher.home_is_gone(0) for _ in range(3)] == [True, False, False]
    assert launcher._work.qsize() == 1
    ray.alive = _NODES
    answers.set()
    launcher._work.put(looked.set)
    assert looked.wait(10)
    assert not launcher.home_is_gone(0)


def test_a_broker_whose_node_is_gone_has_no_home_and_goes_elsewhere_once_it_is_replaced(
    tmp_path: Path, ray: FakeRay
) -> None:
    launcher, failed = launcher_in(tmp_path)
    spec = launcher._specs[0][0]
    replaced: set[int] = set()
    launcher.may_move = replaced.__contains__
    launcher.place_elsewhere = lambda broker_id: launcher.add(spec.moved("10.0.0.0", "10.0.0.1"), _NODES[1])

    def looked() -> bool:
        launcher.home_is_gone(0)
        done = threading.Event()
        launcher._work.put(done.set)
        assert done.wait(10)
        return launcher.home_is_gone(0)

    assert not looked()
    ray.alive = _NODES[1:]
    assert looked()
    ray.alive = []
    assert not looked(), "nobody knows while Ray does not answer"
    ray.alive = _NODES[1:]
    launcher._start_broker(0)
    assert (failed, looked(), len(ray.made)) == ([0], True, 0)
    assert "with its data is gone: it waits for that node, or is replaced" in launcher.errors[0]
    replaced.add(0)
    launcher._start_broker(0)
    assert (failed, looked(), len(ray.made)) == ([0], False, 1)
    assert (launcher.node_of(0), launcher._specs[0][0].host) == (_NODES[1].node_id, "10.0.0.1")


@pytest.mark.parametrize("address", ["10.0.0.0", "10.0.0.9"])
@pytest.mark.parametrize("seen", ["registered", "shard ended"])
def test_shards_follow_a_broker_that_ray_has_started_on_the_next_node(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch, address: str, seen: str
) -> None:
    """Its start waited for a node with its label or address. Its shards were started on the lost one, for ever."""
    shards: list[Actor] = []
    monkeypatch.setattr("actors.controller.launcher.OffsetsPartition", Started(shards))
    launcher, _ = launcher_in(tmp_path)
    launcher.add(launcher._specs[0][0], replace(_NODES[0], name="disk-0"))
    ray.alive = [replace(_NODES[0], name="disk-0"), _NODES[1]]
    launcher._start_broker(0)
    ray.alive = [Node(f"{7:056x}", address, 2.0, name="disk-0"), _NODES[1]]
    if seen == "registered":
        launcher.registered(0, {})
    else:
        launcher._want_shards(0, 1, 0, ())
        shards[-1].served.set_exception(ConnectionError("its node is gone"))
    done = threading.Event()
    launcher._work.put(done.set)
    assert done.wait(10)
    launcher._want_shards(0, 2, 0, ())
    assert shards[-1].options["scheduling_strategy"].node_id == launcher.node_of(0) == f"{7:056x}"
    assert launcher._specs[0][0].host == address


def test_a_node_that_is_alone_has_to_do_though_it_is_drained(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path, {_NODES[0].node_id: 0})
    ray.alive = _NODES[:1]
    launcher._start_broker(0)
    assert (failed, len(ray.made)) == ([], 1)


def test_a_stop_ends_the_shards_and_the_monitor_that_ray_knows(tmp_path: Path, ray: FakeRay) -> None:
    launcher, _ = launcher_in(tmp_path)
    ray.named = ["broker-0-7-1", "shard-0-7-1", "shard-1-7-2", "controller", "monitor"]
    launcher.end()
    assert [actor.name for actor in ray.killed] == ["shard-0-7-1", "shard-1-7-2", "monitor"]


# --- the controller ---


@pytest.fixture
def made(tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Makes the actor's object in this process."""
    monkeypatch.setattr(RayLauncher, "start_broker", lambda launcher, broker_id: None)
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    return lambda: actor_class(told(spec_in(tmp_path)))


def end(controller: Any) -> None:
    """Let go of its log."""
    controller._ask(controller._node.close)


class ProcessEnded(BaseException):
    pass


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> None:
    def exit_now(code: int) -> None:
        raise ProcessEnded(code)

    monkeypatch.setattr("os._exit", exit_now)
    exchange(monkeypatch, "_FAILED_RESTART_SECONDS", 0.0)


def test_a_controller_restarted_while_a_node_is_away_has_its_brokers_wait_for_it(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any]
) -> None:
    homes = spec_in(tmp_path).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.0", 0], "1": ["10.0.0.1", 0]}))
    ray.alive = _NODES[:1]
    first = made()
    with pytest.raises(PlacementError, match=r"10\.0\.0\.1"):
        first.start_brokers(1.0)
    end(first)
    ray.restarted = True
    second = made()
    assert second._ask(lambda: second._server._starts.wanted) == {0, 1}
    assert second._launcher._specs[1][1].address == "10.0.0.1"
    assert second._server.decided.homes[1] == Home("10.0.0.1")
    assert not homes.exists(), "it stands in the metadata now"
    end(second)


def test_a_broker_whose_directory_has_been_made_meanwhile_is_not_placed_elsewhere(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any]
) -> None:
    homes = spec_in(tmp_path).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.0", 0, ""], "1": ["10.0.0.1", 0, ""]}))
    ray.restarted, ray.alive = False, [*_NODES, Node(f"{7:056x}", "10.0.0.7", 2.0)]
    controller = made()
    controller._place_brokers(2)
    broker = BrokerRecord(BrokerInfo(1, "10.0.0.1", 9092, None, 0))
    controller._ask(controller._server.publisher.commit, [broker, BrokerDirectoryRecord(1, Directory("d"))])
    controller._place_elsewhere(1)
    assert controller._launcher.node_of(1) == _NODES[1].node_id
    assert controller._server.decided.directories == {1: Directory("d")}
    end(controller)


@pytest.mark.conformance("N-A-12")
def test_a_controller_hears_of_drained_nodes_and_has_nothing_started_there(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(monkeypatch, "told_draining_nodes", lambda: {_NODES[1].node_id: 7})
    controller = made()
    controller._place_brokers(2)
    brokers = [BrokerRecord(BrokerInfo(i, f"10.0.0.{i}", 9092, None, 0)) for i in range(2)]
    controller._ask(controller._server.publisher.commit, brokers)
    controller._drain_look.look()
    assert [each.drained_until_ms for each in controller._ask(controller._server.status).brokers] == [None, 7]
    assert controller._server.decided.draining == {1}
    assert controller._launcher._drained == {_NODES[1].node_id}
    controller._drain_look.end()
    end(controller)


@pytest.mark.parametrize("lost", [True, False], ids=["its node is gone", "its node is there, and said to be off"])
def test_a_broker_that_was_replaced_is_placed_on_another_node_and_stays_there(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], lost: bool
) -> None:
    homes = spec_in(tmp_path).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.0", 0, ""], "1": ["10.0.0.1", 0, ""]}))
    third = Node(f"{7:056x}", "10.0.0.7", 2.0)
    ray.restarted, ray.alive = False, [*_NODES, third]
    controller = made()
    controller._place_brokers(2)
    broker = BrokerRecord(BrokerInfo(1, "10.0.0.1", 9092, None, 0))
    awaited = BrokerDirectoryRecord(1, Directory("d", awaited=True))
    controller._ask(controller._server.publisher.commit, [broker, awaited])
    if lost:
        ray.alive = [_NODES[0], third]
    controller._place_elsewhere(1)
    assert controller._launcher.node_of(1) == third.node_id
    assert controller._server.decided.homes == {0: Home("10.0.0.0"), 1: Home("10.0.0.7")}
    moved = controller._server.decided.directories[1]
    assert (moved.awaited, moved.id != "d") == (True, True), "one that was made where it was is not taken for it"
    ray.alive = _NODES  # the node that it was given is lost, too, before it has registered; all is started anew
    controller._place_brokers(2)
    assert controller._launcher.node_of(1) == _NODES[1].node_id
    end(controller)


def test_where_data_is_can_be_read_by_builds_before_labels_and_is_read_from_them(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any]
) -> None:
    """They take the first for an address, and would wait for a node at the address `disk-0`."""
    older_log(tmp_path / "controller")
    homes = spec_in(tmp_path).homes_file
    homes.write_text(json.dumps({"0": ["10.0.0.1", 0], "1": ["10.0.0.8", 0, "disk-1"]}))
    ray.alive = [replace(_NODES[0], name="disk-1"), replace(_NODES[1], name="disk-0")]
    controller = made()
    controller._place_brokers(2)
    assert [controller._launcher.node_of(each) for each in (0, 1)] == [_NODES[1].node_id, _NODES[0].node_id]
    written = {"0": ["10.0.0.1", 0, "disk-0"], "1": ["10.0.0.0", 0, "disk-1"]}
    assert json.loads(homes.read_text()) == written
    ray.restarted, ray.alive = True, [Node(f"{8:056x}", "10.0.0.8", 2.0)]
    end(controller)
    again = made()
    assert json.loads(homes.read_text()) == written, "of nodes that are away, all stays noted"
    end(again)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_brokers_with_data_stay_on_their_nodes_though_a_host_is_given(tmp_path: Path, ray: FakeRay, host: str) -> None:
    """They were placed anew at each start, and since new ones keep off the head, elsewhere."""
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    spec = replace(spec_in(tmp_path, 1), host=host)
    spec.homes_file.write_text(json.dumps({"0": ["10.0.0.0", 0]}))
    ray.alive = [replace(_NODES[0], head=True), _NODES[1]]
    controller = actor_class(told(spec))
    controller._place_brokers(1)
    assert controller._launcher.node_of(0) == _NODES[0].node_id
    ray.alive = _NODES[1:]  # a cluster on one machine, which has another address now
    controller._place_brokers(1)
    assert controller._launcher.node_of(0) == _NODES[1].node_id
    end(controller)


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
    tmp_path: Path, ray: FakeRay, host: str | None, listeners: str, at: int
) -> None:
    """It was placed on a node where nobody reaches this address."""
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    ray.alive = [replace(_NODES[0], head=True), _NODES[1]]
    config = {"listeners": listeners} if listeners else {}
    controller = actor_class(told(replace(spec_in(tmp_path, 1), host=host, port=None, config=config)))
    controller._place_brokers(1)
    assert controller._launcher.node_of(0) == _NODES[at].node_id
    end(controller)


@pytest.mark.usefixtures("exits")
def test_only_a_restarted_controller_that_cannot_start_leaves_it_to_the_next(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: Any) -> None:
        raise OSError(28, "no space left")

    exchange(monkeypatch, "StandaloneLog", refused)
    with pytest.raises(ClusterError, match="its disk is full: make room there"):
        made()
    ray.restarted = True
    with pytest.raises(ProcessEnded, match="1"):
        made()


@pytest.mark.usefixtures("exits")
def test_a_controller_that_is_restarted_on_another_disk_makes_no_new_cluster(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The next node at its address may have an empty one."""
    ray.restarted = True
    with pytest.raises(ProcessEnded, match="1"):
        made()
    assert "this node has not the disk of the one that the controller was on" in caplog.text
    assert list((tmp_path / "controller").iterdir()) == []


@pytest.mark.usefixtures("exits")
def test_a_cluster_in_which_nobody_may_do_anything_is_not_started_but_goes_on_where_it_runs(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XB-44."""
    monkeypatch.setattr(RayLauncher, "start_broker", lambda launcher, broker_id: None)
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    spec = replace(spec_in(tmp_path), config=config)
    with pytest.raises(ClusterError, match=r"set super\.users"):
        actor_class(told(spec))
    ray.restarted = True
    end(actor_class(told(spec)))


def test_where_the_data_is_is_on_the_disk_before_it_is_believed(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "no space left")

    homes = spec_in(tmp_path).homes_file
    homes.write_text("{}")
    controller = made()
    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", full)
        with pytest.raises(OSError, match="no space left"):
            controller.start_brokers(1.0)
    assert controller._server.decided.homes == {}
    assert homes.exists()
    end(controller)


def test_brokers_added_have_ids_of_their_own_and_fail_for_their_own_reasons(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = made()
    controller._ask(controller._server.expect, [0, 1, 2])  # 2 has not come up yet
    controller._launcher.errors[2] = "its port is in use"
    asked: list[list[int]] = []
    monkeypatch.setattr(controller._server, "ready", lambda ids: asked.append(ids) is None)
    assert controller.add_brokers(2, 1.0) == [3, 4]
    assert controller.add_brokers(1, 1.0) == [5]
    assert asked == [[3, 4], [5]]
    monkeypatch.setattr(controller._server, "ready", lambda ids: controller._launcher.errors.update({6: "no"}))
    with pytest.raises(RuntimeError, match=r"^no$"):
        controller.add_brokers(1, 1.0)
    assert sorted(controller._server.decided.homes) == list(range(7))
    end(controller)


@pytest.mark.conformance("N-D-05")
def test_a_broker_that_was_removed_is_in_no_later_start_and_its_id_is_not_used_again(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = made()
    controller._ask(controller._server.expect, controller._place_brokers(3))
    commit = controller._server.publisher.commit
    controller._ask(commit, [BrokerRecord(BrokerInfo(i, "h", 9092 + i, None, 0)) for i in range(3)])
    config = BrokerConfig.from_mapping({"offsets.topic.replication.factor": "1"})
    controller._ask(controller._server.reconfigure, config)
    controller.remove_broker(2, None)
    assert controller.removal(2).status is not None, "it waits for the brokers to register"
    controller._ask(commit, [UnregisterBrokerRecord(2)])
    assert controller.removal(2).removed
    end(controller)
    monkeypatch.setattr(ActiveController, "ready", lambda *_: True)
    controller = made()
    controller._spec = replace(controller._spec, brokers=3)
    controller.start_brokers(1.0)
    assert controller._ask(lambda: controller._server._starts.wanted) == {0, 1}
    assert controller.left_out() == [2]
    assert controller.add_brokers(1, 1.0) == [3]
    assert sorted(controller._server.decided.homes) == [0, 1, 3]
    end(controller)


@pytest.mark.conformance("XE-07")
@pytest.mark.parametrize("host", [None, "0.0.0.0", "::", "127.0.0.1"])
def test_brokers_find_the_controller_at_the_nodes_address_wherever_clients_may_come(
    tmp_path: Path, ray: FakeRay, host: str | None
) -> None:
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    controller = actor_class(told(replace(spec_in(tmp_path), host=host)))
    assert controller.join_info()[0] == "127.0.0.1"
    (bound,) = controller._node.acceptor.listening.sockets
    assert bound.getsockname()[0] == "127.0.0.1"
    end(controller)


@pytest.mark.conformance("XE-33")
def test_what_starts_the_processes_names_the_secret_and_does_not_have_it(tmp_path: Path) -> None:
    spec = replace(spec_in(tmp_path), config={"coterie.secret.file": str(tmp_path / "secret")})
    broker = BrokerSpec(0, "127.0.0.1", (), str(tmp_path), "", spec.config)
    start = BrokerStart(OWN, broker, "coterie-c", LogPlace(str(tmp_path), "c")).encoded()
    for sent in (pickle.dumps(spec), pickle.dumps(broker), told(spec), start):
        assert b"coterie.secret.file" in sent
        assert b"00" * 32 not in sent
        assert bytes(32) not in sent


def test_a_controller_does_not_start_for_a_build_that_it_has_no_version_in_common_with(
    tmp_path: Path, ray: FakeRay
) -> None:
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    with pytest.raises(
        VersionError, match=r"the one that has it started \(build 99\) speaks versions 98 to 99: install"
    ):
        actor_class(told(spec_in(tmp_path), Spoken(98, 99, "99")))


@pytest.mark.conformance("XE-34", "N-D-07")
def test_the_secret_itself_is_handed_out_only_where_its_file_was_not_named(
    ray: FakeRay, made: Callable[[], Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(monkeypatch, "asks_for_token", lambda: True)
    controller = made()
    assert controller.join_info()[2] == Secrets(bytes(32)).marks
    with caplog.at_level("WARNING"):
        assert controller.hand_out_secret(1) == Secrets(bytes(32))
    assert "broker 1 has no " in caplog.text
    assert bytes(32).hex() not in caplog.text
    controller._spec = replace(controller._spec, config={"coterie.secret.file": "/etc/secret"})
    with pytest.raises(PermissionError, match=r"coterie\.secret\.file=/etc/secret is set: no secret goes through Ray"):
        controller.hand_out_secret(1)
    end(controller)


@pytest.mark.conformance("XE-34", "N-D-07")
def test_no_secret_goes_through_a_ray_that_asks_for_no_token(
    ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(monkeypatch, "asks_for_token", lambda: False)
    controller = made()
    with pytest.raises(
        PermissionError, match=r"asks for no token .*: no secret goes .*/secret on the node of broker 1"
    ):
        controller.hand_out_secret(1)
    end(controller)


def test_what_the_loop_changes_is_read_on_the_loop(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = made()
    readers = []
    for name in ("ready", "status", "in_sync_everywhere"):
        real = getattr(ActiveController, name)

        def read(server: ActiveController, *arguments: Any, real: Any = real) -> Any:
            readers.append((real.__name__, threading.current_thread().name))
            return real(server, *arguments) or True

        monkeypatch.setattr(ActiveController, name, read)

    def registered(epoch: int) -> None:
        controller._server.publisher.commit([BrokerRecord(BrokerInfo(0, "h", 1, None, epoch))])

    registered(0)
    assert controller.status().brokers[0].id == 0
    controller._wait_for_brokers(1.0, [0])

    async def closed(server: ActiveController, broker_id: int) -> None:
        registered(1)

    exchange(monkeypatch, "_close_broker", closed)
    controller.restart_broker(0, 1.0)
    assert readers == [(name, "coterie-controller") for name in ("status", "ready", "in_sync_everywhere")]
    end(controller)


def test_what_was_changed_while_a_cluster_ran_holds_until_it_is_started_as_a_whole(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any]
) -> None:
    controller = made()
    controller._ask(controller._server.expect, controller._place_brokers(2))
    controller._launcher.registered(1, {"PLAINTEXT": 40001})
    changed = Changed({"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:7000"}, {LINKS: "both"})
    controller.reconfigure(changed)

    def told(controller: Any) -> BrokerSpec:
        return controller._launcher._specs[1][0]  # type: ignore[no-any-return]

    doors = [(door.listener, door.port) for door in told(controller).doors]
    assert doors == [("PLAINTEXT", 40001), ("SSL", 7001)], "it keeps the port that nothing chooses"
    assert told(controller).config == changed.effective
    assert controller._server.config.link_security is LinkSecurity.BOTH
    spec, brokers = controller.in_force()
    assert (spec.config, spec.transition, spec.port, brokers) == (changed.config, changed.transition, 0, 2)
    assert not spec.everywhere
    controller.restarted_all()
    assert controller.in_force()[0].everywhere
    controller._launcher.registered(1, {"SSL": 9})
    assert [door.port for door in told(controller).doors] == [40001, 7001], "a process with older settings says nothing"
    end(controller)
    ray.restarted = True  # with its first arguments
    again = made()
    assert told(again).config == changed.effective
    end(again)
    ray.restarted = False
    anew = made()
    anew._place_brokers(2)
    assert told(anew).config == {}
    end(anew)


def test_the_controller_waits_for_a_cut_off_broker_as_long_as_that_was_told_before_a_roll(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any]
) -> None:
    name = "coterie.broker.isolated.ms"
    controller = made()

    def waits_ms(controller: Any) -> int:
        return int(controller._server.config.integer(name))

    controller.reconfigure(Changed({name: "5000"}, former={name: "60000"}))
    assert waits_ms(controller) == 60_000
    end(controller)
    ray.restarted = True
    again = made()
    assert waits_ms(again) == 60_000, "its next process, too"
    again.restarted_all()
    assert waits_ms(again) == 5_000
    end(again)


def test_a_broker_that_was_cut_off_and_comes_back_as_it_was_is_restarted_all_the_same(
    ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for one that had started with the new settings."""
    controller = made()
    of_before = BrokerInfo(0, "h", 1, None, 0, pid=7, process_started=1)

    def commit(broker: BrokerInfo) -> None:
        controller._server.publisher.commit([BrokerRecord(broker)])

    controller._ask(commit, replace(of_before, alive=False))
    closed: list[int] = []

    async def close(server: ActiveController, broker_id: int) -> None:
        closed.append(broker_id)
        commit(replace(of_before, epoch=2, pid=8))

    exchange(monkeypatch, "_close_broker", close)
    monkeypatch.setattr(ActiveController, "start_again", lambda *_: commit(replace(of_before, epoch=1)))
    controller.restart_broker(0, 60.0)
    assert closed == [0]
    end(controller)


@pytest.mark.conformance("XE-03")
def test_links_do_not_change_to_certificates_that_the_controller_cannot_read(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any]
) -> None:
    controller = made()
    files = {OWN_STORE: str(tmp_path / "keys.pem"), OWN_TRUST: str(tmp_path / "trusted.pem")}
    controller.reconfigure(Changed(files))  # nobody connects in TLS
    with pytest.raises(TlsError, match=r"keys\.pem and .* cannot be used: No such file"):
        controller.reconfigure(Changed({**files, LINKS: "tls"}, {LINKS: "both"}))
    assert controller._server.config.link_security is LinkSecurity.PROOF
    assert settings_in_force.kept(tmp_path) == Changed(files)
    end(controller)


@pytest.mark.conformance("N-C-07")
def test_changed_settings_are_found_in_the_log_until_the_cluster_is_started_as_a_whole(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any]
) -> None:
    write_private(tmp_path / POOLS_KEY, bytes(range(32)).hex())

    def partitions(controller: Any) -> tuple[int, bytes]:
        found = controller._server.config.integer("num.partitions"), controller._server.decided.pools.key
        end(controller)
        return found

    first = made()
    first.reconfigure(Changed({"num.partitions": "3"}))
    end(first)
    (tmp_path / POOLS_KEY).unlink()
    ray.restarted = True
    for stale in (None, Changed({"num.partitions": "7"})):
        settings_in_force.drop(tmp_path)
        if stale is not None:
            settings_in_force.keep(tmp_path, stale)
        again = made()
        assert again.in_force()[0].config == {"num.partitions": "3"}
        assert partitions(again) == (3, bytes(range(32))), "what is in the log counts, and not a file of another time"
    ray.restarted = False
    assert partitions(made()) == (1, bytes(range(32)))
    ray.restarted = True
    assert partitions(made()) == (1, bytes(range(32)))


def test_a_change_after_which_nobody_may_do_anything_is_refused(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    actor_class = Controller.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    controller = actor_class(told(replace(spec_in(tmp_path), config=config)))
    with pytest.raises(ClusterError, match=r"set super\.users"):
        controller.reconfigure(Changed({"authorizer.class.name": config["authorizer.class.name"]}))
    assert controller._spec.config == config
    end(controller)


def test_a_broker_that_does_not_run_is_started_and_one_that_cannot_start_says_why(
    tmp_path: Path, ray: FakeRay, made: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = made()
    controller._place_brokers(1)
    away = BrokerInfo(0, "h", 1, None, 0, alive=False)
    controller._ask(controller._server.publisher.commit, [BrokerRecord(away)])
    controller._ask(controller._server.expect, [0])
    exchange(monkeypatch, "_FAILING_SECONDS", 0.0)
    started = threading.Event()

    def start(launcher: RayLauncher, broker_id: int) -> None:
        launcher.errors[broker_id] = "no certificate"
        started.set()

    monkeypatch.setattr(RayLauncher, "start_broker", start)
    controller._launcher.errors[0] = "of an earlier try"
    with pytest.raises(RuntimeError, match=r"^broker 0 does not start: no certificate$"):
        controller.restart_broker(0, 60.0)
    assert started.is_set()
    end(controller)
