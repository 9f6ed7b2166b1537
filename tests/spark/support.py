"""Helpers of the tests on Spark: settings that start it fast, its processes, and the helpers of the tests on Ray."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import ray

from tests.ray.support import (
    FAST,
    ROOT,
    assert_gone,
    await_topic,
    coterie,
    descendants,
    full_status,
    produce,
    topic,
    wait_until,
)
from tests.support.ray_variables import TOKEN, without_ray

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "FAST",
    "FAST_JVM",
    "FAST_SPARK",
    "JOB_SERVER",
    "SMALL",
    "assert_gone",
    "await_topic",
    "coterie",
    "descendants",
    "executor_nodes",
    "executor_pids",
    "full_status",
    "jvms",
    "produce",
    "run_python",
    "run_scenario",
    "topic",
    "wait_until",
]

# They halve the start of a JVM, and cost speed later: for tests and demos. The last two are for tests alone: the JVM
# then does not verify the classes of Spark and Ray, which takes an eighth of the rest.
FAST_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
FAST_SPARK = {
    "spark.driver.extraJavaOptions": FAST_JVM,
    "spark.executor.extraJavaOptions": FAST_JVM,
    "spark.ray.raydp_app_master.extraJavaOptions": FAST_JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
SMALL = "512m"

_RAYLET = ("(raylet)", "\x1b[33m(raylet)", "\x1b[36m(raylet)")
"""The prefixes of a line that Ray's driver hands on from its raylet, with colours or without."""

JOB_SERVER = Path(sys.prefix) / "jobs"
"""The folder of the packages that Ray's job server needs beyond Ray; `make setup` puts them there (ray[default])."""


def executor_pids(spark: SparkSession) -> dict[str, int]:
    """Process id of each living executor's JVM, by the name of its actor; SIGKILL to one is an executor's death."""
    return {actor["Name"]: actor["Pid"] for actor in _executors()}


def executor_nodes(spark: SparkSession) -> dict[str, str]:
    """Ray node id of each living executor, by the name of its actor."""
    return {actor["Name"]: actor["Address"]["NodeID"] for actor in _executors()}


def _executors() -> list[dict[str, object]]:
    actors = ray._private.state.actors().values()
    return [a for a in actors if a["Name"].startswith("raydp-executor-") and a["State"] == "ALIVE"]


def jvms() -> list[psutil.Process]:
    """The living JVMs below this process."""
    found = []
    for process in descendants(os.getpid()):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if process.name() == "java" and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, without this process's Ray; it must end well and leave no process behind."""
    inherited = {name: value for name, value in without_ray().items() if name != "JAVA_HOME"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=ROOT,
            env={**inherited, "PYTHONFAULTHANDLER": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        seen: dict[int, psutil.Process] = {}
        finished = threading.Event()

        def watch() -> None:
            while not finished.wait(0.5):
                seen.update({child.pid: child for child in descendants(process.pid)})

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            out, _ = process.communicate(timeout=350)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # it says where its threads are
            process.wait(30)
            errors.seek(0)
            pytest.fail(f"{arguments} still ran after 350 s:\n{errors.read()[-8000:]}")
        finally:
            finished.set()
            watcher.join()
            process.kill()
        errors.seek(0)
        err = errors.read()
    assert process.returncode == 0, (out[-1000:], err[-3000:])
    assert_gone(seen.values())
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of a program and its JVMs, without those of Ray's raylet about processes that ended unexpectedly."""
    return [line for line in done.stdout.splitlines() if not line.startswith(_RAYLET)]


def run_scenario(scenario: str, **environment: str) -> dict[str, Any]:
    """The result of a function of scenarios.py in a process of its own, and its standard error."""
    code = f"import json; from tests.spark import scenarios; print(json.dumps(scenarios.{scenario}))"
    # Ray's ten seconds are not enough for a busy machine.
    patient = {"RAY_raylet_start_wait_time_s": "60"}
    done = run_python("-c", code, **(TOKEN | patient | environment))
    lines = said(done)
    assert len(lines) == 1, f"the JVMs are quiet: {lines[:5]}"
    return {**json.loads(lines[0]), "stderr": done.stderr}
