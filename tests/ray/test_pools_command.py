"""`coterie pools` and a pool that is deployed: each verb once, on real Ray, and what is known without Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import Cluster
from actors.members.deployment.deployed import DeployedPool
from actors.members.deployment.description import PoolDescription, PoolState
from actors.members.logs.journal import advanced
from actors.members.pool import ConsumerPool
from tests.ray.handlers import Talker
from tests.ray.support import ROOT, produce, topic, wait_until


@pytest.fixture
def pool(shared: Cluster, name: str, tmp_path: Path) -> Iterator[DeployedPool]:
    """A pool of one member that has handled two records."""
    servers = shared.bootstrap_servers
    topic(servers, name, 2)
    produce(servers, name, [b"a", b"b"])
    given: dict[str, Any] = {"bootstrap_servers": servers, "handler_args": (str(tmp_path),)}
    pool = ConsumerPool.deploy(name, name, name, Talker, 1, **given)
    assert pool.wait(timeout_s=150), pool.describe()
    assert pool.wait(lambda found: found.handled >= 2, 150), pool.describe()
    yield pool
    if any(each.name == name for each in DeployedPool.deployed(servers)):
        pool.stop()


def coterie(pool: DeployedPool, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command; it has to succeed."""
    environment = os.environ | {"COTERIE_BOOTSTRAP_SERVER": pool.bootstrap_servers}
    command = [sys.executable, "-m", "actors.cli.main", "pools", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done


@pytest.fixture
def on_ray(shared: Cluster) -> tuple[str, str]:
    """The option that names the Ray of the supervisors. Its token is in the environment of this process."""
    return ("--ray-address", shared.ray_address)


def listed(pool: DeployedPool, *where: str) -> dict[str, Any] | None:
    rows = json.loads(coterie(pool, "list", "--format", "json", *where).stdout)
    return next((row for row in rows if row["pool"] == pool.name), None)


def pids(found: PoolDescription) -> set[int]:
    return {member.pid for member in found.members if member.state == "Running"}


def with_two(found: PoolDescription) -> bool:
    return found.state is PoolState.RUNNING and len(pids(found)) == 2


def test_a_pool_is_listed_scaled_paused_resumed_restarted_and_stopped(
    pool: DeployedPool, on_ray: tuple[str, str]
) -> None:
    row = listed(pool, *on_ray)
    assert row is not None
    assert (row["state"], row["wanted"], row["version"], row["size"], row["running"]) == ("Running", "Running", 1, 1, 1)
    coterie(pool, "scale", pool.name, "2")
    assert pool.wait(with_two, 150), pool.describe()
    before = pids(pool.describe())
    coterie(pool, "restart", pool.name)
    assert pool.wait(lambda found: with_two(found) and not pids(found) & before, 150), pool.describe()
    shown = json.loads(coterie(pool, "describe", pool.name, "--format", "json", *on_ray).stdout)
    assert [member["version"] for member in shown["members"]] == [1, 1]
    assert shown["rollout"]["rolled_back"] is None
    coterie(pool, "pause", pool.name)
    assert pool.wait(lambda found: found.state is PoolState.PAUSED and not found.members, 150), pool.describe()
    coterie(pool, "resume", pool.name)
    assert pool.wait(with_two, 150), pool.describe()
    assert coterie(pool, "stop", pool.name, *on_ray).stdout == f"stopped {pool.name}\n"
    assert listed(pool, *on_ray) is None


def test_its_members_lines_are_printed(pool: DeployedPool, on_ray: tuple[str, str]) -> None:
    printed = coterie(pool, "logs", pool.name, "--format", "json", *on_ray).stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    (pid,) = pids(pool.describe())
    assert sorted(line["text"] for line in lines if line["pid"] == pid and line["level"] == "stdout") == [
        "printed a",
        "printed b",
    ]
    assert {line["version"] for line in lines if line["pid"] == pid} == {1}
    assert any(f"pid {pid} begins" in line["text"] for line in lines if line["level"] == "POOL")
    (text,) = coterie(pool, "logs", pool.name, "--member", "0", "--tail", "1", *on_ray).stdout.splitlines()
    assert "talker: logged" in text
    cursor = advanced({}, pool.logs())
    assert pool.logs(after=cursor) == []
    produce(pool.bootstrap_servers, pool.name, [b"c"])
    wait_until(lambda: "printed c" in [line.text for line in pool.logs(after=cursor)], what="what came since")


def test_without_ray_the_topic_says_what_is_wished(pool: DeployedPool, tmp_path: Path) -> None:
    done = coterie(pool, "list", "--data-dir", str(tmp_path / "none"), "--format", "json")
    (row,) = [row for row in json.loads(done.stdout) if row["pool"] == pool.name]
    assert (row["wanted"], row["state"], row["version"], row["size"], row["running"]) == ("Running", None, 1, 1, None)
    assert "no cluster has been started on data directory" in done.stderr
