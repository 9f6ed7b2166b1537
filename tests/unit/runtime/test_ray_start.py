"""A Ray of our own that does not start: one line gives the reason and the port. No Ray is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import ray

from actors.runtime import private, ray_runtime

TAKEN = """Failed to start GCS.  Last 1 lines of error files:
[2026-11-23 06:08:13,856 C 28685 28685] (gcs_server) grpc_server.cc:134:  An unexpected system state has occurred. \
Check failed: server_ Failed to start the grpc server. The specified port is 23875. This means that Ray's core \
components will not be able to function correctly."""

SLOW = "The current node timed out during startup. This could happen because some of the raylet failed to startup."


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that gives our message for an error of ray.init."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_GCS_SERVER_PORT", raising=False)

    def refused(error: Exception) -> str:
        def init(**options: object) -> None:
            raise error

        monkeypatch.setattr(ray, "init", init)
        with pytest.raises(ray_runtime.ClusterError) as caught:
            ray_runtime.start_embedded(tmp_path / "ray-token", folder=Path("/somewhere"))
        return str(caught.value)

    return refused


LOGS = "its logs are in /somewhere/session_latest/logs"


def test_a_port_that_somebodys_connection_has_taken_each_time_since_ray_chose_it_is_named(refused: Any) -> None:
    """Ray's own words were a "bug in Ray", over twenty lines."""
    why = "3 times a port that it chose itself was taken meanwhile, the last was 23875: start again"
    assert refused(RuntimeError(TAKEN)) == f"Ray does not start: {why}; {LOGS}"


@pytest.mark.parametrize("failures", [[RuntimeError(TAKEN)] * 2, [Exception(SLOW)] * 2])
def test_a_ray_whose_port_was_taken_meanwhile_or_that_was_slow_is_started_again(
    failures: list[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_GCS_SERVER_PORT", raising=False)
    outcomes: list[Exception | None] = [*failures, None]

    def init(**options: object) -> None:
        if error := outcomes.pop(0):
            raise error

    monkeypatch.setattr(ray, "init", init)
    ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    assert not outcomes


def test_a_ray_that_is_started_again_asks_for_the_same_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start had the token in the user's home, which no command on the cluster's data directory gave."""
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    asked: list[str | None] = []

    def init(**options: object) -> None:
        asked.append(os.environ.get("RAY_AUTH_TOKEN_PATH"))
        if len(asked) == 1:
            raise Exception(SLOW)

    monkeypatch.setattr(ray, "init", init)
    ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    ray_runtime.end()
    assert asked == [str(tmp_path / "ray-token")] * 2


def test_another_failure_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    tried: list[object] = []

    def init(**options: object) -> None:
        tried.append(options)
        raise OSError("no space left")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ray_runtime.ClusterError):
        ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    assert len(tried) == 1


def test_a_port_that_the_environment_chose_is_named_with_the_variable(
    refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_GCS_SERVER_PORT", "23875")
    why = "port 23875, which RAY_GCS_SERVER_PORT chose, is taken: choose another, or unset it"
    assert refused(RuntimeError(TAKEN)) == f"Ray does not start: {why}"


@pytest.mark.parametrize(
    "error", [OSError("no space\nleft."), RuntimeError("no space\nleft."), Exception("no space\nleft.")]
)
def test_another_reason_is_the_first_line_of_rays(refused: Any, error: Exception) -> None:
    assert refused(error) == f"Ray does not start: no space; {LOGS}"


def test_a_machine_too_busy_for_rays_half_minute_is_one_line(refused: Any) -> None:
    """Ray raises a bare Exception, which `coterie up` took for a bug of its own."""
    assert refused(Exception(SLOW)) == f"Ray does not start: {SLOW.rstrip('.')}; {LOGS}"


def test_what_is_no_failure_of_rays_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")

    def init(**options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(KeyboardInterrupt):
        ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)


def test_ray_is_told_to_be_calm_but_for_what_the_user_has_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "250")
    monkeypatch.delenv("RAY_event_stats", raising=False)
    seen: dict[str, str] = {}
    monkeypatch.setattr(ray, "init", lambda **options: seen.update(os.environ))
    ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    assert (seen["RAY_event_stats"], seen["RAY_memory_monitor_refresh_ms"]) == ("false", "250")
    assert "RAY_event_stats" not in os.environ


@pytest.mark.conformance("N-B-01")
def test_a_ray_that_ends_with_its_program_keeps_nothing_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the settings of a lasting head in the environment it started the actors of the program before."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    lasting = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": "/kept", "RAY_REDIS_ADDRESS": "redis:6379"}
    for name, value in lasting.items():
        monkeypatch.setenv(name, value)
    seen: dict[str, str] = {}
    monkeypatch.setattr(ray, "init", lambda **options: seen.update(os.environ))
    ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    assert seen
    assert not seen.keys() & lasting.keys()
    assert {name: os.environ[name] for name in lasting} == lasting, "a `ray start` from here has them"


@pytest.mark.conformance("XE-25")
def test_who_has_taken_a_variable_before_ray_starts_is_told_that_ray_will_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its actors would look for it in vain, where they would have it if Ray had been started first."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr(ray, "init", lambda **options: None)
    monkeypatch.setenv("THE_PASSWORD", "swordfish")
    ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    assert "THE_PASSWORD" not in caplog.text
    assert private.take_variable("THE_PASSWORD") == "swordfish"
    ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    (said,) = [record.getMessage() for record in caplog.records if "THE_PASSWORD" in record.getMessage()]
    assert "sasl_password_file" in said
    assert "swordfish" not in said
    caplog.clear()
    monkeypatch.setenv("THE_PASSWORD", "set again")
    ray_runtime.start_embedded(tmp_path / "ray-token", folder=tmp_path)
    assert "THE_PASSWORD" not in caplog.text
