"""A driver connects to a cluster, leaves it and ends it. With each goes the Ray that was joined for it, if any."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError

from actors.cluster import Cluster, ClusterError
from actors.controller.at_ray import bring_pools_back, joined
from actors.controller.driver_ray import ActorName
from tests.support.fake_driver_ray import FakeActor, FakeDriverRay, Method, raising, refused, silent, unavailable

CONTROLLER, BROKER = ActorName("coterie-c", "controller"), ActorName("coterie-c", "broker-0-1")
ADDRESS = "10.0.0.9:6379"


def running(*, connected: bool = False, **methods: Method) -> FakeDriverRay:
    """A Ray with cluster `c`."""
    usual: dict[str, Method] = {"addresses": lambda: [("10.0.0.1", 9092), ("10.0.0.2", 9093)], "stop": lambda: None}
    actors = {CONTROLLER: FakeActor(**{**usual, **methods}), BROKER: FakeActor()}
    return FakeDriverRay(actors, connected=connected)


# --- to connect, and to leave ---


def test_a_program_joins_the_clusters_ray_and_leaves_it_and_the_cluster_goes_on() -> None:
    ray = running()
    with Cluster.connect(ADDRESS, "c", ray=ray) as cluster:
        assert cluster.bootstrap_servers == "10.0.0.1:9092,10.0.0.2:9093"
        assert cluster.ray_address == ADDRESS
        assert (ray.joined, ray.left) == ([(ADDRESS, None)], 0)
    assert ray.left == 1
    cluster.disconnect()
    assert ray.left == 1
    assert len(ray.names()) == 2


def test_a_program_that_was_connected_stays_so() -> None:
    ray = running(connected=True)
    Cluster.connect(name="c", ray=ray).disconnect()
    assert ray.left == 0


@pytest.mark.parametrize("error", [None, ActorDiedError(), GetTimeoutError("no answer"), unavailable()])
@pytest.mark.parametrize("connected", [False, True])
def test_a_cluster_that_cannot_be_connected_to_leaves_this_program_as_it_was(
    error: RayError | None, connected: bool
) -> None:
    ray = (
        FakeDriverRay(connected=connected) if error is None else running(connected=connected, addresses=raising(error))
    )
    with pytest.raises(ClusterError, match="no cluster called 'c'" if error is None else "cannot be reached"):
        Cluster.connect(ADDRESS, "c", ray=ray)
    assert ray.left == (0 if connected else 1)


def test_a_question_that_a_monitor_or_controller_cannot_answer_is_a_cluster_error() -> None:
    cluster = Cluster.connect(name="c", ray=running(connected=True, view=silent, status=raising(refused("a bug"))))
    with pytest.raises(ClusterError, match="the cluster's Monitor does not answer"):
        cluster.view(object())  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match=r"^a bug$"):
        cluster.status()


# --- to end it ---


def test_a_cluster_is_stopped_in_order_and_what_it_has_not_got_to_is_ended() -> None:
    ray = running()
    assert Cluster.end(ADDRESS, "c", ray=ray) == 0
    assert ray.actors[CONTROLLER].asked == [("addresses",), ("stop",)]
    assert (ray.names(), ray.left) == ([], 1)


def test_what_is_left_of_a_cluster_without_a_controller_is_ended_and_counted() -> None:
    """Nobody found its brokers: they served on for ever."""
    ray = running()
    ray.actors[CONTROLLER].kill()
    assert Cluster.end(ADDRESS, "c", ray=ray) == 1
    assert (ray.names(), ray.left) == ([], 1)


def test_a_controller_that_does_not_answer_is_ended_with_the_rest() -> None:
    ray = running(addresses=silent)
    assert Cluster.end(ADDRESS, "c", ray=ray) == 1
    assert "stop" not in dict.fromkeys(method for method, *_ in ray.actors[CONTROLLER].asked)
    assert ray.names() == []


def test_a_cluster_that_is_not_there_cannot_be_ended() -> None:
    ray = FakeDriverRay({ActorName("coterie-d", "controller"): FakeActor()}, connected=False)
    with pytest.raises(ClusterError, match="no cluster called 'c'"):
        Cluster.end(ADDRESS, "c", ray=ray)
    assert (len(ray.names()), ray.left) == (1, 1)


@pytest.mark.parametrize(
    ("error", "said"),
    [(GetTimeoutError("no answer"), "not stop in order within 5 s"), (RayError("a bug"), "not stop in order: a bug")],
)
def test_a_cluster_that_does_not_stop_in_order_is_ended_before_that_is_said(error: RayError, said: str) -> None:
    ray = running(stop=raising(error))
    controller = ray.actors[CONTROLLER]
    cluster = Cluster("c", controller, [("h", 1)], owns_ray=True, owner=True, ray=ray)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=said):
            cluster.stop()
        assert (controller.killed, ray.left) == (True, 1)
        cluster.stop()
    assert (controller.asked, ray.left) == ([("stop",)], 1)


# --- to be at Ray ---


def test_a_ray_is_started_only_for_a_folder_without_an_address_by_who_is_connected_to_none(tmp_path: Path) -> None:
    ray = FakeDriverRay(connected=False)
    assert joined(ray, None, tmp_path, may_start=True, warm=["a"])
    assert (ray.embedded, ray.joined) == ([(tmp_path, ["a"])], [])
    for connected, address, folder, may_start in (
        (False, ADDRESS, tmp_path, True),
        (False, None, tmp_path, False),
        (False, None, None, True),
        (True, None, tmp_path, True),
    ):
        ray = FakeDriverRay(connected=connected)
        assert joined(ray, address, folder, may_start=may_start) is not connected
        assert (ray.embedded, ray.joined) == ([], [(address, folder)])


@pytest.mark.parametrize("has_topic", [lambda: False, silent, raising(unavailable()), raising(refused("a bug"))])
def test_a_cluster_without_pools_or_that_cannot_say_brings_none_back(has_topic: Method, tmp_path: Path) -> None:
    controller = FakeActor(has_topic=has_topic)
    assert bring_pools_back(controller, "h:1", tmp_path) is None
    assert controller.calls[0].waited == [10.0]
