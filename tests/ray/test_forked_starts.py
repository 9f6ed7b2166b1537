"""Processes forked from a warm one: Ray treats them as any other, and without the warm one they start plainly."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from actors.cluster import Cluster
from tests.ray.support import assert_gone, commit, committed, consumer, descendants, full_status, topic, up, wait_until
from tests.support.ray_variables import without_ray

_IN_ENVIRONMENTS = """
import os, ray
ray.init("{address}", log_to_driver=False)
say = ray.remote(num_cpus=0)(lambda: os.environ["N"])
print(*ray.get([say.options(runtime_env={{"env_vars": {{"N": str(n)}}}}).remote() for n in range(3)]))
"""
_DIED = (ray.exceptions.ActorDiedError, ray.exceptions.ActorUnavailableError)


@ray.remote(num_cpus=0, max_restarts=-1)
class Probe:
    """An actor that says what it has become."""

    def describe(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "group": os.getpgid(0),
            "random_id": ray.ObjectRef.from_random().hex(),
            "exit_code": subprocess.run(["false"], check=False).returncode,
            "job": os.environ["RAY_JOB_ID"],
        }

    def multiply(self, size: int) -> float:
        """The sum of a product that is large enough for numpy to compute it in several threads."""
        import numpy as np  # not in a driver that only describes

        return float((np.ones((size, size)) @ np.ones((size, size))).sum())


def described(actor: Any) -> dict[str, Any] | None:
    """An actor's description of itself; None while it is being restarted."""
    with contextlib.suppress(*_DIED):
        found: dict[str, Any] = ray.get(actor.describe.remote(), timeout=60)
        return found
    return None


def servers(pid: int) -> list[psutil.Process]:
    """The fork servers among a process's descendants: their parent is a raylet, which a worker of theirs has not."""
    found = []
    for process in descendants(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "fork_server.server" in " ".join(process.cmdline()) and process.parent().name() == "raylet":
                found.append(process)
    return found


def titles(process: psutil.Process) -> list[str]:
    """The titles of a process's children."""
    return [line[0].strip() for child in process.children() if (line := command(child))]


def command(process: psutil.Process) -> list[str]:
    """Its command line; empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def folder_of(server: psutil.Process) -> Path:
    """The folder of a fork server's socket."""
    return next(Path(word) for word in server.cmdline() if Path(word).name.startswith("coterie-fork-"))


def parents(status: dict[str, Any]) -> set[int]:
    """The parents of a cluster's processes."""
    brokers = status["brokers"]
    pids = [status["controller_pid"], *(broker["pid"] for broker in brokers)]
    # One that sleeps has no process, and no pid.
    pids += [pid for broker in brokers for shard in broker["shards"] if (pid := shard["pid"]) is not None]
    return {psutil.Process(pid).ppid() for pid in pids}


@pytest.fixture
def start_probe(embedded_ray: None) -> Iterator[Callable[..., Any]]:
    """Start a probe, with these options of Ray's; all are killed at the end."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Any:
            actor = Probe.options(**options).remote()
            stack.callback(ray.kill, actor)
            return actor

        yield start


@pytest.fixture
def probe(start_probe: Callable[..., Any]) -> Any:
    return start_probe()


def test_a_clusters_processes_are_forked_from_one(shared: Cluster) -> None:
    [server] = servers(os.getpid())
    assert parents(full_status(shared)) == {server.pid}
    assert server.num_threads() == 1


def test_helpers_of_ray_that_are_of_no_use_do_not_run(shared: Cluster) -> None:
    scripts = {Path(word).name for process in descendants(os.getpid()) for word in command(process)[:3]}
    assert "gcs_server" in scripts, "Ray's processes are seen"
    assert not {"log_monitor.py", "monitor.py", "dashboard.py"} & scripts


def agents(pid: int) -> set[str]:
    """The titles of Ray's agents among a process's descendants. A stand-in for one has no title."""
    return {title for process in descendants(pid) if (title := "".join(command(process)[:1]).strip()).endswith("Agent")}


def test_an_agent_of_ray_comes_when_it_is_called(tmp_path: Path) -> None:
    with up(tmp_path / "data") as running:
        assert agents(running.process.pid) == set()
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "data" / "ray-token")}
        code = _IN_ENVIRONMENTS.format(address=running.ray_address)
        done = subprocess.run(
            [sys.executable, "-c", code], env=without_ray() | token, capture_output=True, text=True, check=False
        )
        assert done.stdout.split() == ["0", "1", "2"], done.stderr
        assert agents(running.process.pid) == {"ray::RuntimeEnvAgent"}
        family = descendants(running.process.pid)
        assert running.end(signal.SIGTERM)[0] == 0
        assert_gone(family)


def test_forked_actors_share_nothing_they_must_not(start_probe: Callable[..., Any]) -> None:
    actors = [start_probe() for _ in range(3)]
    found = [ray.get(actor.describe.remote()) for actor in actors]
    [server] = servers(os.getpid())
    assert {one["parent"] for one in found} == {server.pid}
    assert len({one["random_id"] for one in found}) == 3
    assert len({one["group"] for one in found} | {os.getpgid(server.pid)}) == 4
    assert {one["exit_code"] for one in found} == {1}  # its own children are waited for
    assert {one["job"] for one in found} == {ray.get_runtime_context().get_job_id()}


def test_a_forked_actor_loads_no_library_that_the_server_has_not(probe: Any) -> None:
    described = ray.get(probe.describe.remote())
    libraries = [
        {part.path for part in psutil.Process(pid).memory_maps() if ".so" in part.path}
        for pid in (described["pid"], described["parent"])
    ]
    assert libraries[0] <= libraries[1]
    assert any("libarrow" in path for path in libraries[1]), "Ray imports it wherever it connects"


def test_a_forked_actor_computes_in_threads_that_were_not_forked(probe: Any) -> None:
    assert ray.get(probe.multiply.remote(600), timeout=60) == 600**3


def test_a_forked_actor_that_dies_is_restarted_and_leaves_no_zombie(probe: Any) -> None:
    before = ray.get(probe.describe.remote())
    os.kill(before["pid"], signal.SIGKILL)
    after = wait_until(lambda: described(probe), what="a restart")
    assert after["pid"] != before["pid"]
    assert after["parent"] == before["parent"]
    wait_until(lambda: not psutil.pid_exists(before["pid"]), what="the end of the one before")


@pytest.mark.parametrize("restarts", [False, True])
def test_ray_kills_a_forked_actor(probe: Any, restarts: bool) -> None:
    before = ray.get(probe.describe.remote())
    ray.kill(probe, no_restart=not restarts)
    wait_until(lambda: not psutil.pid_exists(before["pid"]), what="its end")
    if restarts:
        after = wait_until(lambda: described(probe), what="a restart")
        assert after["pid"] != before["pid"]


def test_a_worker_with_an_environment_of_its_own_is_not_forked(start_probe: Callable[..., Any]) -> None:
    actor = start_probe(runtime_env={"env_vars": {"COTERIE_TEST": "1"}})
    [server] = servers(os.getpid())
    assert ray.get(actor.describe.remote())["parent"] == server.ppid()


def test_without_the_server_processes_start_plainly_and_it_is_said_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data) as running:
        [server] = servers(running.process.pid)
        folder, raylet = folder_of(server), server.parent()
        with contextlib.closing(consumer(running.servers, "g")) as group:
            commit(group, topic(running.servers, "t", 1), 7)
            # Ray waits for a minute for a process that is killed before it has registered: so none may be on its way.
            single = ("ray::Broker.serve", "ray::Controller", "ray::Monitor.serve")
            settled = [*["ray::OffsetsPartition.serve"] * 3, *single]
            wait_until(lambda: sorted(titles(server)) == sorted(settled), what="the partition and two spares")
            forked = server.children()
            server.kill()
            for process in forked:  # brokers and shards are started again, and so is the controller
                process.kill()
            assert_gone(forked)
            assert committed(group, "t", 1) == [7]
        lines = (data / "logs" / "starts.log").read_text().splitlines()
        assert len(lines) == 1
        assert "started plainly" in lines[0]
        assert {"ray::OffsetsPartition.serve", "ray::Broker.serve", "ray::Controller"} <= set(titles(raylet))
        assert servers(running.process.pid) == []
    assert not folder.exists()


def test_the_server_and_its_processes_end_with_a_ray_that_is_killed(tmp_path: Path) -> None:
    with up(tmp_path / "data") as running:
        [server] = servers(running.process.pid)
        folder, ours = folder_of(server), [server, *server.children()]
        family = descendants(running.process.pid)
        running.process.kill()
        running.process.wait()
        assert_gone(ours)
        for process in family:  # Ray's agents outlive it for minutes
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    assert not folder.exists()


def test_processes_start_plainly_where_that_is_wanted(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--config", "coterie.actor.start=plain") as running:
        assert servers(running.process.pid) == []
        with contextlib.closing(consumer(running.servers, "g")) as group:
            commit(group, topic(running.servers, "t", 1), 7)
            assert committed(group, "t", 1) == [7]
        assert not (tmp_path / "data" / "logs" / "starts.log").exists()
