"""`coterie pools` and a pool that is deployed: each verb once, on real Ray, and what is known without Ray."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from actors.cli.main import cli
from actors.cluster import Cluster
from actors.members.deployment.deployed import DeployedPool
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
    assert pool.wait(timeout_s=90), pool.describe()
    assert pool.wait(lambda found: found.handled >= 2, 90), pool.describe()
    yield pool
    if any(each.name == name for each in DeployedPool.deployed(servers)):
        pool.stop()


def coterie(pool: DeployedPool, *arguments: str) -> str:
    """What the command prints in this process, which is connected to Ray."""
    done = CliRunner().invoke(cli, ["pools", *arguments], env={"COTERIE_BOOTSTRAP_SERVER": pool.bootstrap_servers})
    assert done.exit_code == 0, (arguments, done.output)
    return done.stdout


def described(pool: DeployedPool) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(coterie(pool, "describe", pool.name, "--format", "json"))
    return found


def listed(pool: DeployedPool) -> dict[str, Any] | None:
    rows = json.loads(coterie(pool, "list", "--format", "json"))
    return next((row for row in rows if row["pool"] == pool.name), None)


def awaited(pool: DeployedPool, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = described(pool)
        return found if condition(found) else None

    found = wait_until(there, what=what)
    assert found is not None
    return found


def pids(found: dict[str, Any]) -> list[int]:
    return [member["pid"] for member in found["members"] if member["state"] == "Running"]


def test_a_pool_is_listed_scaled_paused_resumed_restarted_and_stopped(pool: DeployedPool) -> None:
    row = listed(pool)
    assert row is not None
    assert (row["state"], row["wanted"], row["version"], row["size"], row["running"]) == ("Running", "Running", 1, 1, 1)
    assert [member["version"] for member in described(pool)["members"]] == [1]
    coterie(pool, "scale", pool.name, "2")
    before = awaited(pool, lambda found: len(pids(found)) == 2 and found["state"] == "Running", "two members")
    coterie(pool, "restart", pool.name)
    after = awaited(
        pool,
        lambda found: (
            found["state"] == "Running" and len(pids(found)) == 2 and not set(pids(found)) & set(pids(before))
        ),
        "other members",
    )
    assert after["rollout"]["rolled_back"] is None
    coterie(pool, "pause", pool.name)
    awaited(pool, lambda found: found["state"] == "Paused" and not found["members"], "a pause")
    coterie(pool, "resume", pool.name)
    awaited(pool, lambda found: len(pids(found)) == 2, "two members again")
    assert coterie(pool, "stop", pool.name) == f"stopped {pool.name}\n"
    assert listed(pool) is None


def test_its_members_lines_are_printed(pool: DeployedPool) -> None:
    lines = [json.loads(line) for line in coterie(pool, "logs", pool.name, "--format", "json").splitlines()]
    pid = described(pool)["members"][0]["pid"]
    assert [line["text"] for line in lines if line["pid"] == pid and line["level"] == "stdout"] == [
        "printed a",
        "printed b",
    ]
    assert {line["version"] for line in lines if line["pid"] == pid} == {1}
    assert any(f"pid {pid} begins" in line["text"] for line in lines if line["level"] == "POOL")
    text = coterie(pool, "logs", pool.name, "--member", "0", "--tail", "1").splitlines()
    assert len(text) == 1
    assert "talker: logged b" in text[0]
    cursor = advanced({}, pool.logs())
    assert pool.logs(after=cursor) == []
    produce(pool.bootstrap_servers, pool.name, [b"c"])
    wait_until(lambda: "printed c" in [line.text for line in pool.logs(after=cursor)], what="what came since")


def test_without_ray_the_topic_says_what_is_wished(pool: DeployedPool, tmp_path: Path) -> None:
    code = "from actors.cli.main import main; main()"
    here = ["--bootstrap-server", pool.bootstrap_servers, "--data-dir", str(tmp_path / "none"), "--format", "json"]
    command = [sys.executable, "-c", code, "pools", "list", *here]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = [row for row in json.loads(done.stdout) if row["pool"] == pool.name]
    assert (row["wanted"], row["state"], row["version"], row["size"], row["running"]) == ("Running", None, 1, 1, None)
    assert "no cluster has been started on data directory" in done.stderr
