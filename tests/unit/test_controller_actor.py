"""The controller's actor and its launcher, with a Ray that the test plays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors import controller as module
from actors.broker_server import BrokerSpec
from actors.controller import ControllerSpec, RayLauncher
from actors.process import code_version
from placement.nodes import Node

_NODES = [Node(f"{i:056x}", f"10.0.0.{i}", 2.0) for i in range(2)]


class Actor:
    """A process that is started, named as Ray knows it."""

    def __init__(self, name: str = "") -> None:
        self.name = name


class Started:
    """Does for the class of an actor."""

    made: list[Actor]

    def __init__(self, made: list[Actor], name: str = "") -> None:
        self.made, self.name = made, name

    def options(self, **options: Any) -> Started:
        return Started(self.made, options["name"])

    def remote(self, *arguments: Any) -> Actor:
        self.made.append(Actor(self.name))
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
    monkeypatch.setattr(module, "alive_nodes", fake.nodes)
    monkeypatch.setattr(module, "Broker", Started(fake.made))
    monkeypatch.setattr(module, "log_to", lambda folder, name: None)
    return fake


def spec_in(folder: Path, brokers: int = 2) -> ControllerSpec:
    (folder / "controller").mkdir(exist_ok=True)
    (folder / "secret").write_text("00" * 32)
    return ControllerSpec("c", str(folder), None, brokers, 0, "", str(folder / "secret"), {}, code_version())


def launcher_in(folder: Path) -> tuple[RayLauncher, list[int]]:
    """A launcher with broker 0, and which starts it has said failed."""
    launcher, failed = RayLauncher(spec_in(folder)), list[int]()
    launcher.start_failed = failed.append
    launcher.add(BrokerSpec(0, "10.0.0.0", "10.0.0.0", 0, 0, "", "", {}), _NODES[0])
    return launcher, failed


# --- the launcher ---


def test_a_start_that_ray_refuses_has_failed(tmp_path: Path, ray: FakeRay) -> None:
    launcher, failed = launcher_in(tmp_path)
    ray.alive = []
    launcher._start_broker(0)
    assert (failed, launcher.errors) == ([0], {0: "the GCS is busy"})


def test_a_start_of_which_nothing_can_be_learned_has_failed(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(launcher: RayLauncher, actor: Actor) -> None:
        raise ConnectionError("no way to Ray")

    monkeypatch.setattr(RayLauncher, "_started", lost)
    launcher, failed = launcher_in(tmp_path)
    actor = launcher._brokers[0] = Actor()
    launcher._await_broker(0, actor)
    assert (failed, launcher.errors) == ([0], {0: "no way to Ray"})


def test_of_two_processes_for_one_broker_the_former_is_ended(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayLauncher, "_await_broker", lambda launcher, broker_id, actor: None)
    launcher, failed = launcher_in(tmp_path)
    for _ in range(2):
        launcher._start_broker(0)
    assert [actor.name[:9] for actor in ray.made] == ["broker-0-"] * 2
    assert ray.killed == ray.made[:1]
    assert launcher._brokers == {0: ray.made[1]}
    assert failed == []


def test_a_stop_ends_the_shards_that_ray_knows(tmp_path: Path, ray: FakeRay) -> None:
    launcher, _ = launcher_in(tmp_path)
    ray.named = ["broker-0-7-1", "shard-0-7-1", "shard-1-7-2", "controller"]
    launcher.stop(1.0)
    assert [actor.name for actor in ray.killed] == ["shard-0-7-1", "shard-1-7-2"]
