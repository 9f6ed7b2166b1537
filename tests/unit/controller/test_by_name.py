"""A driver starts, finds and ends a cluster's actors by their names, on a Ray that the test plays."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError

from actors.controller.by_name import actors_of, end_actors, find_controller, spec_of, start_controller
from actors.controller.driver_ray import ActorName
from actors.controller.preparation import prepare_folder
from actors.controller.spec import ControllerStart
from actors.log.folder_lock import FolderLock
from actors.runtime.ray_runtime import ClusterError
from tests.support.fake_driver_ray import FakeActor, FakeDriverRay, in_turn, raising, refused, silent, unavailable

CONTROLLER, BROKER, SHARD = (ActorName("coterie-c", name) for name in ("controller", "broker-0-1", "shard-0-1"))
ADDRESSES = [("10.0.0.1", 9092)]
Start = Callable[[FakeDriverRay], tuple[Any, list[tuple[str, int]]]]


# --- to find it ---


def test_a_controller_that_answers_is_found_with_its_brokers_addresses() -> None:
    controller = FakeActor(addresses=lambda: ADDRESSES)
    ray = FakeDriverRay({CONTROLLER: controller})
    assert find_controller(ray, "c") == (controller, False, ADDRESSES)
    assert controller.calls[0].waited == [10.0]


def test_a_cluster_of_another_name_is_not_there() -> None:
    others = {ActorName(namespace, "controller"): FakeActor(addresses=list) for namespace in ("coterie-cc", "c")}
    with pytest.raises(ClusterError) as raised:
        find_controller(FakeDriverRay(others), "c")
    assert str(raised.value) == (
        "no cluster called 'c' runs on this Ray (ValueError); start one with `coterie up --ray-address ... --name c`"
    )


@pytest.mark.parametrize("error", [GetTimeoutError("no answer"), ActorDiedError(), unavailable(), refused("a bug")])
def test_a_controller_that_does_not_answer_is_not_reached_though_its_processes_run(error: RayError) -> None:
    found = {CONTROLLER: FakeActor(addresses=raising(error)), BROKER: FakeActor(), ActorName("other", "x"): FakeActor()}
    with pytest.raises(ClusterError) as raised:
        find_controller(FakeDriverRay(found), "c")
    assert str(raised.value) == (
        f"the controller of cluster 'c' cannot be reached ({type(error).__name__}), though 2 of its processes run: "
        "bring its Ray node back, or end them with `coterie down c`"
    )


# --- to end what is left of it ---


def test_all_actors_of_one_cluster_are_ended_and_no_others() -> None:
    others = {ActorName("coterie-d", "controller"): FakeActor(), ActorName("x", "broker-0-1"): FakeActor()}
    ray = FakeDriverRay({SHARD: FakeActor(), CONTROLLER: FakeActor(), BROKER: FakeActor(), **others})
    assert end_actors(ray, "c") == 2, "the controller is not counted"
    assert actors_of(ray, "c") == []
    assert ray.names() == list(others)


def test_the_controller_is_the_first_to_be_ended() -> None:
    """It would start what dies again."""
    killed: list[str] = []

    class Noted(FakeActor):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def kill(self) -> None:
            killed.append(self.name)

    end_actors(FakeDriverRay({each: Noted(each.name) for each in (BROKER, CONTROLLER, SHARD)}), "c")
    assert killed == ["controller", "broker-0-1", "shard-0-1"]


def test_an_actor_that_has_died_meanwhile_is_not_counted() -> None:
    class Late(FakeDriverRay):
        def find(self, name: ActorName) -> FakeActor:
            if name == SHARD:
                raise ValueError(name)
            return super().find(name)

    assert end_actors(Late({BROKER: FakeActor(), SHARD: FakeActor()}), "c") == 1


# --- to start it ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data directory."""
    return tmp_path


@pytest.fixture
def start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start cluster `c` in the folder."""
    secret = prepare_folder(folder)
    with tempfile.TemporaryDirectory(prefix="s-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)  # the folder of sockets has to have a short path
        yield lambda ray: start_controller(ray, spec_of("c", folder, secret, None, 3, 0, {"num.partitions": "2"}))


def test_a_controller_is_told_its_arguments_and_starts_the_brokers(start: Start, folder: Path) -> None:
    ray = FakeDriverRay()
    ray.next = FakeActor(addresses=list, start_brokers=lambda: ADDRESSES)
    assert start(ray) == (ray.next, ADDRESSES)
    spec = ControllerStart.decoded(ray.told[CONTROLLER]).spec
    assert (spec.name, spec.data_dir, spec.brokers, spec.config) == ("c", str(folder), 3, {"num.partitions": "2"})
    assert ray.next.asked == [("addresses",), ("start_brokers", 120.0)]
    assert [call.waited for call in ray.next.calls] == [[120.0], [None]]
    assert not ray.next.killed


def test_a_living_name_is_refused_and_nothing_is_started(start: Start) -> None:
    ray = FakeDriverRay({CONTROLLER: FakeActor()})
    with pytest.raises(ClusterError, match="a cluster called 'c' runs on this Ray already: stop it with `coterie down"):
        start(ray)
    assert not ray.told
    assert ray.actors[CONTROLLER].asked == []


def test_a_controller_that_ray_never_starts_is_given_up(start: Start) -> None:
    ray = FakeDriverRay()
    ray.next = FakeActor(addresses=silent)
    with pytest.raises(ClusterError, match="Ray has not started the controller within 120 s: see `ray status` for"):
        start(ray)
    assert ray.next.killed
    assert ray.next.asked == [("addresses",)], "one that never ran cannot stop"


def test_a_process_that_ends_while_the_brokers_start_is_told_of_with_its_log(start: Start, folder: Path) -> None:
    """Ray's "the actor is temporarily unavailable: RPC error: Socket closed" was all that `coterie up` said."""
    ray = FakeDriverRay({BROKER: FakeActor()})
    ray.next = FakeActor(addresses=list, start_brokers=raising(unavailable()))
    with pytest.raises(ClusterError) as raised:
        start(ray)
    assert str(raised.value) == (
        "the controller's process ended while it started the brokers: start the cluster again, and if it does so "
        f"again, see {folder}/logs/controller.log"
    )
    assert ray.names() == [], "what it had started is ended, too"


def test_the_reason_why_a_controller_cannot_start_is_handed_on(start: Start) -> None:
    ray = FakeDriverRay()
    text = "The actor died because of an error raised in its creation task, x\nactors.ClusterError: the log is damaged"
    ray.next = FakeActor(addresses=raising(RayActorError("0", text, actor_init_failed=True)), stop=silent)
    with pytest.raises(ClusterError, match=r"^the log is damaged$"):
        start(ray)
    assert ray.next.killed


def test_the_reason_why_a_broker_does_not_start_is_handed_on_and_the_others_are_stopped(start: Start) -> None:
    ray = FakeDriverRay()
    failed = refused("broker 1: its port is taken")
    ray.next = FakeActor(addresses=list, start_brokers=raising(failed), stop=lambda: None)
    with pytest.raises(ClusterError, match=r"^broker 1: its port is taken$"):
        start(ray)
    assert ray.next.asked[-1] == ("stop",)
    assert ray.next.killed


def test_a_start_that_is_broken_off_leaves_nothing_behind(start: Start) -> None:
    """A detached actor outlives the program."""
    ray = FakeDriverRay()
    ray.next = FakeActor(addresses=list, start_brokers=raising(KeyboardInterrupt()), stop=raising(unavailable()))
    with pytest.raises(KeyboardInterrupt):
        start(ray)
    assert ray.next.asked[-1] == ("stop",)
    assert ray.next.killed


# --- a data directory that another cluster has ---


@pytest.fixture
def locked(folder: Path) -> Iterator[None]:
    (folder / "controller").mkdir(exist_ok=True)
    lock = FolderLock(folder / "controller", 0.0)
    yield
    lock.release()


def test_a_data_directory_in_use_is_refused_by_the_name_of_its_cluster(
    start: Start, folder: Path, locked: None
) -> None:
    other = FakeActor(status=lambda: SimpleNamespace(name="d", data_dir=str(folder)))
    ray = FakeDriverRay({ActorName("coterie-d", "controller"): other})
    with pytest.raises(ClusterError, match=r"is in use by cluster 'd' on this Ray: stop that cluster \(coterie down d"):
        start(ray)
    assert not ray.told
    assert other.calls[0].waited == [2.0]


def test_controllers_with_another_directory_or_that_are_busy_or_not_ours_do_not_matter(
    start: Start, folder: Path, locked: None
) -> None:
    """One that ends has the directory for a moment more; the new controller waits for it."""
    there = SimpleNamespace(name="x", data_dir=str(folder))
    strangers = {ActorName("other", "controller"): FakeActor(status=lambda: there), BROKER: FakeActor()}
    busy = {ActorName("coterie-e", "controller"): FakeActor(status=in_turn(GetTimeoutError("no answer")))}
    elsewhere = FakeActor(status=lambda: SimpleNamespace(name="f", data_dir="/elsewhere"))
    ray = FakeDriverRay({**strangers, **busy, ActorName("coterie-f", "controller"): elsewhere})
    ray.next = FakeActor(addresses=list, start_brokers=lambda: ADDRESSES)
    assert start(ray)[1] == ADDRESSES
