"""One line says whether the loss of Ray's head ends the cluster, and what to set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.controller.gcs_environment import environment
from actors.controller.ray_head import HeadLook, said
from tests.support.fake_driver_ray import FakeActor, FakeDriverRay, in_turn, raising, silent, unavailable
from tests.support.fake_ray import NODES

STORE = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": "/data/gcs"}
LONG, REDIS = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}, {"RAY_REDIS_ADDRESS": "redis:6379"}
SETTINGS = ("RAY_gcs_storage=rocksdb", "RAY_gcs_storage_path=", "RAY_gcs_rpc_server_reconnect_timeout_s=600")


@pytest.mark.conformance("N-A-03")
@pytest.mark.parametrize("head", [{}, {"RAY_gcs_storage": "memory"}, {"RAY_REDIS_ADDRESS": ""}, LONG])
@pytest.mark.parametrize(("other", "within"), [({}, 60), (LONG, 600)])
def test_a_head_that_keeps_nothing_is_warned_of_with_what_to_set(
    head: dict[str, str], other: dict[str, str], within: int
) -> None:
    """It said 60 s where the nodes wait for ten minutes."""
    line = said("h:1", head, other)
    assert line.startswith(
        f"warning: the Ray at h:1 keeps its state in memory: with its head, all nodes are lost, within {within} s. "
    )
    assert all(each in line for each in SETTINGS)


HEAD, OTHER = replace(NODES[1], head=True), NODES[0]


def test_a_node_that_does_not_answer_is_asked_no_longer() -> None:
    """The task waited for its node as long as the program ran."""
    ray = FakeDriverRay()
    ray.alive, ray.run_as = [OTHER, HEAD], silent
    assert "its head did not say" in HeadLook(ray).line(FakeActor())
    assert [(task.waited, task.given_up) for task in ray.tasks] == [([5.0], True)] * 2


def test_a_head_that_is_lost_meanwhile_does_not_say_and_is_not_waited_for() -> None:
    ray = FakeDriverRay()
    ray.alive, ray.run_as = [OTHER, HEAD], raising(unavailable())
    assert "its head did not say" in HeadLook(ray).line(FakeActor())
    assert not any(task.given_up for task in ray.tasks)


def test_a_head_and_another_node_are_looked_at_while_the_cluster_starts() -> None:
    ray = FakeDriverRay()
    ray.alive, ray.run_as = [OTHER, HEAD], in_turn(STORE, LONG)
    look = HeadLook(ray)
    assert len(ray.tasks) == 2
    assert look.line(FakeActor()) == said(ray.address, STORE, LONG)


def test_a_controller_on_the_head_is_asked_instead_of_a_task() -> None:
    ray = FakeDriverRay()
    ray.alive = [HEAD]
    assert HeadLook(ray).line(FakeActor(ray_environment=lambda: REDIS)) == said(ray.address, REDIS, None)
    assert ray.tasks == []


def test_a_head_is_looked_at_by_a_task_where_the_controller_may_be_elsewhere() -> None:
    """Of several, another one than that on this node may lead."""
    ray = FakeDriverRay()
    ray.alive, ray.run_as = [HEAD], lambda: REDIS
    look = HeadLook(ray, controller_here=False)
    assert look.line(FakeActor()) == said(ray.address, REDIS, None)


@pytest.mark.conformance("N-A-04")
@pytest.mark.parametrize(
    ("head", "other", "within"),
    [(STORE | LONG, None, "600"), (STORE, LONG, "600"), (STORE | LONG, LONG | STORE, "600")],
)
def test_a_head_that_keeps_its_state_may_be_lost_for_as_long_as_the_other_nodes_wait(
    head: dict[str, str], other: dict[str, str] | None, within: str
) -> None:
    assert said("h:1", head, other) == (
        "the Ray at h:1 keeps its state in /data/gcs of its head: keep that, and its head may be lost and come back "
        f"within {within} s"
    )


@pytest.mark.conformance("N-A-04")
@pytest.mark.parametrize("other", [{}, {"RAY_gcs_rpc_server_reconnect_timeout_s": "30"}])
def test_nodes_that_end_before_a_head_can_be_back_are_warned_of(other: dict[str, str]) -> None:
    """Also if the head's own environment has the setting: it is each node's."""
    line = said("h:1", STORE | LONG, other)
    assert line.startswith("warning: the Ray at h:1 keeps its state in /data/gcs of its head: ")
    assert f"but only for {other.get('RAY_gcs_rpc_server_reconnect_timeout_s', '60')} s" in line
    assert line.endswith("RAY_gcs_rpc_server_reconnect_timeout_s=600 for every node")


def test_a_redis_is_a_store() -> None:
    assert said("h:1", REDIS | LONG, None).startswith("the Ray at h:1 keeps its state in a Redis: ")


def test_a_time_that_is_no_number_counts_as_the_default() -> None:
    assert "only for 60 s" in said("h:1", STORE | {"RAY_gcs_rpc_server_reconnect_timeout_s": "long"}, None)


def test_a_head_that_does_not_answer_is_not_said_to_be_safe_or_unsafe() -> None:
    line = said("h:1", None, LONG)
    assert line.startswith("the Ray at h:1: its head did not say whether the cluster survives the loss of it. ")
    assert all(each in line for each in SETTINGS)


def test_every_line_is_one_line() -> None:
    for head in (None, {}, STORE, REDIS | LONG):
        assert "\n" not in said("h:1", head, None)


def test_only_what_concerns_the_gcs_leaves_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*STORE, *LONG, *REDIS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_gcs_storage", "rocksdb")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert environment() == {"RAY_gcs_storage": "rocksdb"}
