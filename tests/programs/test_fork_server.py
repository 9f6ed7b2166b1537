"""The fork server, with a raylet and workers that only look like Ray's: when it forks and when it must not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from actors.runtime.fork_server import executable
from tests.ray.support import ROOT, assert_gone, wait_until

WORKER = """
import json, os, signal, sys
told = {
    "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgid(0), "arguments": sys.argv[1:], "name": __name__,
    "folder": os.getcwd(), "job": os.environ["RAY_JOB_ID"], "path": os.getcwd() in sys.path and "" not in sys.path,
    "warm": "json.tool" in sys.modules, "chld": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
}
print(json.dumps(told), flush=True)
"""
ENDING = """
import atexit
class Freed:
    def __del__(self, write=os.write):
        write(1, b"freed")
sys.kept = Freed()
atexit.register(print, "by its exit function")
"""
THREAD = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
DRAW = "import ray; ray.ObjectRef.from_random()"


class Node:
    """A machine's Ray: a raylet that does nothing, and workers that say what they are and end."""

    def __init__(self, folder: Path, *warm: str) -> None:
        self.folder = folder
        self.worker = folder / "default_worker.py"
        self.worker.write_text(WORKER)
        self.log = folder / "logs" / "starts.log"
        self.raylet = subprocess.Popen(["sleep", "600"])
        prepared = executable.prepare(["json.tool", *warm], self.log)
        assert prepared is not None
        self.fork_server = prepared
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, **variables: str) -> dict[str, Any]:
        """Start a worker as a raylet does, in a process group of its own. Returns what the worker says."""
        out = self.folder / f"out-{len(self.started)}"
        command = [str(executable.executable_in(self.fork_server)), str(self.worker), "a", "b c"]
        long = {"LONG": "x" * 100_000}  # it takes several reads
        environment = {**os.environ, **long, "RAY_RAYLET_PID": str(self.raylet.pid), "PYTHONPATH": str(self.folder)}
        number = {"RAY_JOB_ID": str(len(self.started))}
        with out.open("wb") as file:
            self.started.append(
                subprocess.Popen(
                    command, env=environment | number | variables, cwd=self.folder, stdout=file, process_group=0
                )
            )
        wait_until(lambda: b"\n" in out.read_bytes(), what="a worker's word")
        told: dict[str, Any] = json.loads(out.read_bytes().splitlines()[0])
        return told

    def said(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def end(self) -> None:
        server = [psutil.Process(one.pid) for one in self.started if one.poll() is None]
        self.raylet.kill()
        self.raylet.wait()
        for one in self.started:
            one.wait(60)
        assert_gone(server)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes = []

    def make(*warm: str) -> Node:
        nodes.append(Node(tmp_path, *warm))
        return nodes[-1]

    yield make
    for one in nodes:
        one.end()
        executable.remove(one.fork_server)


def test_workers_are_forked_as_if_they_had_been_started(node: Callable[..., Node]) -> None:
    machine = node()
    told = [machine.start() for _ in range(3)]
    server = machine.started[0].pid
    assert [one["parent"] for one in told] == [server] * 3
    assert [one["job"] for one in told] == ["0", "1", "2"]
    assert [one["group"] for one in told] == [started.pid for started in machine.started]
    assert os.getpgid(server) == os.getpgid(machine.raylet.pid)
    for one in told:
        assert one["arguments"] == ["a", "b c"]
        assert one["folder"] == str(machine.folder)
        assert (one["name"], one["path"], one["warm"], one["chld"]) == ("__main__", True, True, True)
    assert machine.said() == []


def test_a_forked_worker_ends_by_its_exit_functions_and_frees_nothing(node: Callable[..., Node]) -> None:
    """Freeing all that it shares with the server took longer than its start."""
    machine = node()
    machine.worker.write_text(WORKER + ENDING)
    told = machine.start()
    wait_until(lambda: not psutil.pid_exists(told["pid"]), what="its end")
    _, *said = (machine.folder / "out-0").read_text().splitlines()
    assert said == ["by its exit function"]


def test_a_worker_in_another_environment_is_started_plainly(node: Callable[..., Node]) -> None:
    machine = node()
    machine.start()
    told = [machine.start(RAY_AUTH_TOKEN="other"), machine.start(RAY_AUTH_TOKEN="other"), machine.start()]
    assert [one["pid"] for one in told[:2]] == [started.pid for started in machine.started[1:3]]
    assert [one["warm"] for one in told] == [False, False, True]
    [line] = machine.said()
    assert "started plainly" in line
    assert "differs in RAY_AUTH_TOKEN" in line


@pytest.mark.parametrize(("module", "reason"), [(THREAD, "1 threads"), (DRAW, "drawn a random id")])
def test_no_worker_is_forked_after_imports_that_forbid_it(
    module: str, reason: str, node: Callable[..., Node], tmp_path: Path
) -> None:
    (tmp_path / "warm_one.py").write_text(module)
    machine = node("warm_one")
    told = [machine.start(), machine.start()]
    assert [one["warm"] for one in told] == [False, False]
    assert reason in machine.said()[0]


def test_a_server_that_cannot_import_is_done_without(node: Callable[..., Node]) -> None:
    machine = node("no_such_module")
    assert [machine.start()["warm"], machine.start()["warm"]] == [False, False]
    assert len(machine.said()) == 1


def test_a_killed_server_is_done_without(node: Callable[..., Node]) -> None:
    machine = node()
    assert machine.start()["warm"]
    machine.started[0].kill()
    machine.started[0].wait()
    assert [machine.start()["warm"], machine.start()["warm"]] == [False, False]
    assert len(machine.said()) == 1


def test_everything_else_runs_in_the_real_python(node: Callable[..., Node]) -> None:
    command = [
        executable.executable_in(node().fork_server),
        "-c",
        "import sys; print(sys.executable, sys.argv[1:])",
        "a b",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{sys.executable} ['a b']"


@pytest.mark.parametrize("helper", ["_private/log_monitor.py", "autoscaler/_private/monitor.py"])
def test_a_helper_that_an_embedded_ray_has_no_use_for_does_not_run(node: Callable[..., Node], helper: str) -> None:
    script = Path(ray.__file__).parent / helper
    assert script.exists()
    done = subprocess.run([executable.executable_in(node().fork_server), "-u", script, "--help"], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_dashboard_runs_if_it_shows_something(node: Callable[..., Node]) -> None:
    python = executable.executable_in(node().fork_server)
    script = Path(ray.__file__).parent / "dashboard" / "dashboard.py"
    minimal, full = (
        subprocess.run([python, script, *more, "--help"], capture_output=True, text=True, check=True).stdout
        for more in (["--host=127.0.0.1", "--minimal"], ["--host=127.0.0.1"])
    )
    assert minimal == ""
    assert "usage: dashboard.py" in full


def test_where_nothing_may_be_executed_no_server_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as on a file system that is mounted noexec
    log = tmp_path / "starts.log"
    assert executable.prepare([], log) is None
    assert "nothing may be executed" in log.read_text()


@pytest.mark.parametrize(
    "modules",
    [
        "actors.controller.actor",
        "actors.broker.actor, actors.broker.server",
        "actors.offsets_partition.actor, actors.offsets_partition.process",
    ],
)
def test_a_cluster_process_imports_nothing_that_it_does_not_use(modules: str) -> None:
    heavy = "{'pyarrow', 'pandas', 'numpy', 'pyspark', 'rich', 'click'}"
    code = f"import sys, {modules}; print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"


def test_the_server_ends_with_the_raylet_and_takes_the_folder_with_it(node: Callable[..., Node]) -> None:
    machine = node()
    machine.start()
    machine.end()
    assert not machine.fork_server.exists()
