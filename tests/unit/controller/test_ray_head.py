"""One line says whether the loss of Ray's head ends the cluster, and what to set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ray.exceptions import GetTimeoutError

from actors.controller import ray_head
from actors.controller.ray_head import said

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


def test_a_node_that_does_not_answer_is_asked_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task waited for its node as long as the program ran."""

    def late(asked: str, timeout: float) -> None:
        raise GetTimeoutError(asked)

    cancelled: list[str] = []
    monkeypatch.setattr("ray.get", late)
    monkeypatch.setattr("ray.cancel", cancelled.append)
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address="h:1"))
    monkeypatch.setattr(ray_head, "alive_nodes", lambda: [SimpleNamespace(head=True)])
    controller = SimpleNamespace(ray_environment=SimpleNamespace(remote=lambda: "task"))
    assert ray_head.HeadLook().line(controller) == said("h:1", None, None)
    assert cancelled == ["task"]


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
    assert ray_head.environment() == {"RAY_gcs_storage": "rocksdb"}
