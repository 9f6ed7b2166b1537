"""Pools that outlive their program: deaths of every kind, new versions, wishes. Nothing lost, nothing done by two."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray import cloudpickle

from actors.client import Admin, Producer
from actors.client.admin.types import NewTopic
from actors.cluster import Cluster
from actors.controller.securing import PROPERTIES
from actors.members.autoscale import Autoscale
from actors.members.deployment.at_home import administrator_settings
from actors.members.deployment.deployed import DeployedPool
from actors.members.deployment.description import PoolState
from actors.members.deployment.names import NAMESPACE
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.pool import ConsumerPool, PoolError
from tests.ray.fed import PARTITIONS, SIZE, Fed, Stopping, all_at_work, deploy, kill_supervisor, members_of, newer
from tests.ray.handlers import Broken, Newer, Unstartable, Witnessed, by_two, handled
from tests.ray.support import FAST, ROOT, assert_gone, descendants, produce, topic, up, wait_until
from tests.support.ray_variables import without_ray


@pytest.fixture(scope="module")
def cluster(start: Callable[..., Cluster]) -> Iterator[Cluster]:
    with start(brokers=3) as cluster:
        yield cluster
        assert DeployedPool.deployed(cluster.bootstrap_servers) == [], "each test stops its pool"


@pytest.fixture
def fed(cluster: Cluster, name: str, tmp_path: Path) -> Fed:
    made = Fed(cluster.bootstrap_servers, name, tmp_path)
    made.feed(100)
    return made


@pytest.fixture
def pool(fed: Fed) -> Iterator[DeployedPool]:
    """A pool at work on `fed`, and stopped at the end."""
    with contextlib.closing(Stopping(deploy(fed))) as stopping:
        assert stopping.pool.wait(all_at_work, 150), stopping.pool.describe()
        yield stopping.pool


def rebalances(cluster: Cluster, group: str) -> list[str]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        (described,) = admin.describe_consumer_groups([group])
    status = cluster.group_status(group, described.coordinator.id)
    assert status is not None
    return [each.reason for each in status.rebalances if not each.reason.startswith("gave up partitions")]


# --- deaths ---


def test_a_killed_supervisor_has_a_successor_whose_members_take_the_same_places(
    cluster: Cluster, fed: Fed, pool: DeployedPool
) -> None:
    with fed:
        before = pool.describe()
        reasons = rebalances(cluster, fed.name)
        family = [psutil.Process(member.pid) for member in before.members]
        killed = kill_supervisor(pool)
        assert_gone(family, 30)
        assert pool.wait(lambda found: found.supervisor_pid not in (None, killed), 150)
        assert pool.wait(all_at_work, 150), pool.describe()
    fed.nothing_lost_and_nothing_by_two()
    after = pool.describe()
    assert [member.assignment for member in after.members] == [member.assignment for member in before.members]
    assert rebalances(cluster, fed.name) == reasons


def test_killed_members_and_a_killed_broker_lose_nothing(cluster: Cluster, fed: Fed, pool: DeployedPool) -> None:
    with fed:
        victim = pool.describe().members[0]
        os.kill(victim.pid, signal.SIGKILL)
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            (described,) = admin.describe_topics(["__coterie_pools"])
        os.kill(cluster.broker_pids()[described.partitions[0].leader], signal.SIGKILL)
        assert pool.wait(lambda found: found.members[0].pid != victim.pid and all_at_work(found), 150), pool.describe()
        pool.scale(3)  # it waits until the topic of pools has a leader again
        assert pool.wait(lambda found: len(found.members) == 3 and all_at_work(found), 150), pool.describe()
    fed.nothing_lost_and_nothing_by_two()


# --- versions ---


def test_a_new_version_rolls_through_the_members_without_a_rebalance(
    cluster: Cluster, fed: Fed, pool: DeployedPool
) -> None:
    assert pool.wait(timeout_s=150)
    reasons = rebalances(cluster, fed.name)
    with fed:
        before = pool.describe()
        deploy(fed, Newer)
        assert pool.wait(lambda found: found.running_version == 2 and found.state is PoolState.RUNNING, 150)
        found = pool.describe()
        assert found.rollout is not None
        assert (found.rollout.from_version, found.rollout.to_version, found.rollout.done) == (1, 2, SIZE)
        assert not {member.pid for member in found.members} & {member.pid for member in before.members}
    fed.nothing_lost_and_nothing_by_two()
    assert len(handled(fed.folder)) == len(fed.values), "each once: every member finished what it had in hand"
    assert newer(fed.folder) == {member.pid for member in pool.describe().members}
    assert rebalances(cluster, fed.name) == reasons


def test_a_pool_of_the_classic_protocol_goes_over_to_the_newer_one_by_a_version_while_it_works(
    cluster: Cluster, fed: Fed
) -> None:
    with contextlib.closing(Stopping(deploy(fed, group_protocol="classic"))) as stopping:
        pool = stopping.pool
        assert pool.wait(all_at_work, 150), pool.describe()
        assert type_of(cluster, fed.name) == "classic"
        with fed:
            deploy(fed, Newer)
            assert pool.wait(lambda found: found.running_version == 2 and all_at_work(found), 150), pool.describe()
            assert pool.wait(timeout_s=150)
        assert type_of(cluster, fed.name) == "consumer"
        fed.nothing_lost_and_nothing_by_two()
        assert len(handled(fed.folder)) == len(fed.values), "each once: every member finished what it had in hand"


def type_of(cluster: Cluster, group: str) -> str:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return admin.describe_consumer_groups([group])[0].type


@pytest.mark.parametrize("handler", [Broken, Unstartable])
def test_a_version_that_does_not_work_is_rolled_back_and_says_why(fed: Fed, pool: DeployedPool, handler: type) -> None:
    assert pool.wait(timeout_s=150)
    why = {Broken: "this version is broken", Unstartable: "no model here"}[handler]
    with fed:
        deploy(fed, handler, max_retries=0)
        with pytest.raises(PoolError, match=rf"version 2 .* was rolled back: member 0: .*{why}"):
            pool.wait(timeout_s=150)
        assert pool.wait(lambda found: found.state is PoolState.RUNNING and all_at_work(found), 150), pool.describe()
        found = pool.describe()
        assert (found.version, found.running_version) == (2, 1)
        killed = kill_supervisor(pool)
        assert pool.wait(lambda now: now.supervisor_pid not in (None, killed) and all_at_work(now), 150)
        assert pool.describe().running_version == 1, "the successor does not try it again"
    fed.nothing_lost_and_nothing_by_two()


class Pwned:
    """Unpickled, it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def rolled_back(pool: DeployedPool, version: int) -> Any:
    """The description, once that version has been given up."""
    found = pool.describe()
    return found if found.version == version and found.rollout and found.rollout.rolled_back else None


def test_what_somebody_else_has_written_to_the_topic_is_never_unpickled(fed: Fed, pool: DeployedPool) -> None:
    """Without ACLs, whoever reaches a broker may write to that topic; only Ray's token lets anyone run code."""
    assert pool.wait(timeout_s=150)
    topic_of_pools = PoolsTopic(fed.servers)
    record = topic_of_pools.read().pool(fed.name)
    assert record is not None
    trace = fed.folder / "pwned"
    forged = replace(record.deployment, id="forged", version=2, body=cloudpickle.dumps(Pwned(trace)))
    for each in (forged, replace(forged, at_home=False, seal=b"")):
        topic_of_pools.write(fed.name, each)
        found = wait_until(lambda: rolled_back(pool, 2), what="the forged version is refused")
        assert "version 2 was not deployed by a program on this Ray" in found.rollout.rolled_back
        assert (found.running_version, found.state) == (1, PoolState.RUNNING)
        topic_of_pools.write(fed.name, record.deployment)
        wait_until(lambda: pool.describe().version == 1, what="the version before is back")
    topic_of_pools.write("planted", replace(forged, incarnation="planted"))
    with pytest.raises(PoolError, match="was not deployed by a program on this Ray"):
        DeployedPool.revive(fed.servers, "planted")
    assert DeployedPool.revive(fed.servers) == [], "and it keeps no other pool from being brought back"
    DeployedPool("planted", fed.servers).stop()
    assert not trace.exists()


def test_a_sealed_record_that_somebody_writes_again_runs_nothing(fed: Fed) -> None:
    """WRITE on the topic ran a replaced version, a twin under another name, and a stopped pool once more."""
    pool, topic_of_pools = deploy(fed), PoolsTopic(fed.servers)
    with contextlib.closing(Stopping(pool)):
        assert pool.wait(timeout_s=150)
        first = topic_of_pools.read().pool(fed.name)
        deploy(fed, Newer)
        assert pool.wait(timeout_s=150)
        second = topic_of_pools.read().pool(fed.name)
        assert first is not None
        assert second is not None
        topic_of_pools.write(fed.name, first.deployment)
        found = wait_until(lambda: rolled_back(pool, 1), what="the replaced version is refused")
        assert "version 1 was replaced by version 2" in found.rollout.rolled_back
        assert found.running_version == 2
        topic_of_pools.write("twin", second.deployment)
        with pytest.raises(PoolError, match="on this Ray under this name"):
            DeployedPool.revive(fed.servers, "twin")
        DeployedPool("twin", fed.servers).stop()
        assert deploy(fed).wait(timeout_s=90)
        assert pool.describe().version == 3, "versions are counted from the newest one"
    topic_of_pools.write(fed.name, second.deployment)
    assert DeployedPool.deployed(fed.servers) == [], "who has read of its end does not believe in it"


def test_a_stopped_pool_does_not_run_again_when_the_topic_has_forgotten_its_end(fed: Fed) -> None:
    """As compaction does: what was written last is all that is left."""
    topic_of_pools = PoolsTopic(fed.servers)
    with contextlib.closing(Stopping(deploy(fed))) as stopping:
        assert stopping.pool.wait(timeout_s=150)
        record = topic_of_pools.read().pool(fed.name)
        assert record is not None
    with Admin(bootstrap_servers=fed.servers) as admin:
        admin.delete_topics(["__coterie_pools"])
    topic_of_pools.create()
    topic_of_pools.write(fed.name, record.deployment)
    assert [each.name for each in DeployedPool.deployed(fed.servers)] == [fed.name]
    with pytest.raises(PoolError, match="version 1 is of a pool that was stopped: it is not run"):
        DeployedPool.revive(fed.servers, fed.name)
    DeployedPool(fed.name, fed.servers).stop()


# --- wishes ---


def test_scale_pause_resume_and_restart(cluster: Cluster, fed: Fed, pool: DeployedPool) -> None:
    with fed:
        pool.scale(3)
        assert pool.wait(lambda found: len(found.members) == 3 and all_at_work(found), 150), pool.describe()
        pool.pause()
        assert pool.wait(lambda found: found.state is PoolState.PAUSED and not found.members, 150)
        wait_until(lambda: members_of(fed.servers, fed.name) == 0, what="an empty group")
        kill_supervisor(pool)  # a wish outlives whoever is to fulfil it
        pool.resume()
        assert pool.wait(lambda found: len(found.members) == 3 and all_at_work(found), 150), pool.describe()
        assert pool.wait(timeout_s=150)
        before = pool.describe()
        pool.restart()
        assert pool.wait(
            lambda found: (
                found.state is PoolState.RUNNING
                and not {member.pid for member in found.members} & {member.pid for member in before.members}
            ),
            90,
        ), pool.describe()
    fed.nothing_lost_and_nothing_by_two()


def test_a_stopped_pool_is_gone_and_its_name_is_free(cluster: Cluster, fed: Fed) -> None:
    pool = deploy(fed)
    assert pool.wait(all_at_work, 150), pool.describe()
    assert [found.name for found in DeployedPool.deployed(fed.servers)] == [fed.name]
    found = pool.describe()
    family = [psutil.Process(pid) for pid in (found.supervisor_pid, *(member.pid for member in found.members)) if pid]
    pool.stop()
    assert_gone(family)
    assert members_of(fed.servers, fed.name) == 0
    assert DeployedPool.deployed(fed.servers) == []
    for wish in (pool.describe, pool.pause, lambda: pool.scale(1), pool.stop):
        with pytest.raises(PoolError, match="there is no pool called"):
            wish()
    with pytest.raises(PoolError, match="there is no pool called"):
        ConsumerPool.attach(fed.name, bootstrap_servers=fed.servers)
    again = deploy(fed, size=1)
    assert again.wait(timeout_s=60)
    assert (again.describe().version, again.describe().size) == (1, 1)
    again.stop()


def test_a_deployed_pool_follows_its_load(fed: Fed) -> None:
    policy = Autoscale(max_size=3, target_lag=40, stabilization_s=2, interval_s=0.5)
    fed.feed(400)
    pool = deploy(fed, size=None, autoscale=policy, handler_args=(str(fed.folder), 0.01), max_poll_records=10)
    assert pool.wait(lambda found: found.size > 1, 150), pool.describe()
    with pytest.raises(PoolError, match="follows its load"):
        pool.scale(1)
    fed.nothing_lost_and_nothing_by_two()
    pool.stop()


def test_what_makes_no_sense_is_refused(fed: Fed, pool: DeployedPool) -> None:
    more: dict[str, Any] = {"handler_args": (str(fed.folder),), "bootstrap_servers": fed.servers}
    with pytest.raises(PoolError, match="would be another pool"):
        ConsumerPool.deploy(fed.name, fed.name, "another", Witnessed, 1, **more)
    with pytest.raises(PoolError, match="instance_prefix is not for deployed pools"):
        deploy(fed, instance_prefix="x")
    with pytest.raises(PoolError, match="a pool's name"):
        ConsumerPool.deploy("a/b", fed.name, fed.name, Witnessed, 1, bootstrap_servers=fed.servers)
    with pytest.raises(PoolError, match=r"max\.message\.bytes=\d+ of topic __coterie_pools"):
        deploy(fed, handler_args=(os.urandom(2 << 20),))
    with pytest.raises(PoolError, match="at least 1"):
        pool.scale(0)
    assert pool.describe().version == 1


# --- everything killed ---


def program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ray.deploying", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=without_ray(), stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_pool_outlives_its_program_and_everything_killed_it_begins_again_with_its_cluster(
    tmp_path_factory: pytest.TempPathFactory, name: str, tmp_path: Path
) -> None:
    data_dir = tmp_path_factory.mktemp("d")
    values = {b"v%05d" % number for number in range(300)}
    with up(data_dir) as running:
        topic(running.servers, name, PARTITIONS)
        produce(running.servers, name, sorted(values)[:100])
        deploying = program("deploy", str(data_dir), name, str(tmp_path), "2")
        assert said(deploying) == "deployed"
        deploying.kill()
        deploying.wait(60)
        produce(running.servers, name, sorted(values)[100:200])
        wait_until(lambda: set(handled(tmp_path)) == set(sorted(values)[:200]), what="all handled")
        family = descendants(running.process.pid)
        for process in [psutil.Process(running.process.pid), *family]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        running.process.wait(60)
        assert_gone(family)
    with up(data_dir) as running:  # on other ports
        produce(running.servers, name, sorted(values)[200:])
        wait_until(lambda: set(handled(tmp_path)) == values, what="all handled")
        looking = program("look", str(data_dir), name)
        assert said(looking) == "Running 1 2 2"
        assert looking.wait(60) == 0
        running.end(signal.SIGTERM)
    assert by_two(tmp_path) == []


def test_a_pool_of_a_secure_cluster_logs_in_by_reference_and_begins_again_with_it(
    embedded_ray: None, tmp_path_factory: pytest.TempPathFactory, name: str, tmp_path: Path
) -> None:
    data_dir = tmp_path_factory.mktemp("s")
    password = tmp_path / "password"
    password.touch(0o600)

    def begin() -> tuple[Cluster, dict[str, Any]]:
        cluster = Cluster.start(1, name=name, data_dir=data_dir, port=0, config=FAST, secure=True)
        return cluster, {
            "bootstrap_servers": cluster.bootstrap_servers,
            **administrator_settings(data_dir / PROPERTIES),
        }

    def write(settings: dict[str, Any], *values: bytes) -> None:
        with Producer(**settings) as producer:
            for future in [producer.send(name, value) for value in values]:
                future.get()

    cluster, settings = begin()
    with cluster:
        with Admin(**settings) as admin:
            admin.create_topics([NewTopic(name, 1)])
        write(settings, b"first")
        password.write_text(settings.pop("sasl_plain_password").reveal())
        given = {**settings, "sasl_password_file": str(password)}
        pool = ConsumerPool.deploy(name, name, name, Witnessed, 1, handler_args=(str(tmp_path),), **given)
        assert pool.wait(lambda found: found.handled == 1, 150), pool.describe()
        family = [psutil.Process(member.pid) for member in pool.describe().members]
    assert_gone(family)
    cluster, settings = begin()  # on another port
    with cluster:
        write(settings, b"second")
        # The first may come again: the cluster has stopped as soon as it was handled, perhaps before its commit.
        wait_until(lambda: [*dict.fromkeys(handled(tmp_path))] == [b"first", b"second"], what="handled")
        security = {setting: value for setting, value in settings.items() if setting != "bootstrap_servers"}
        ConsumerPool.attach(name, bootstrap_servers=settings["bootstrap_servers"], **security).stop()


def example(data_dir: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "examples/deployed_pool.py", *arguments, "--data-dir", str(data_dir)]
    environment = without_ray() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def test_the_example_deploys_looks_scales_and_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    data_dir = tmp_path_factory.mktemp("e")
    with up(data_dir) as running:
        assert example(data_dir, "deploy")[0].startswith("counting: Running, version 1, ")
        wait_until(lambda: example(data_dir, "look")[0] == "counting: Running, version 1, 1000 records handled")
        _, *members = example(data_dir, "scale", "3")
        assert [line.split(",")[0] for line in members] == ["  0: Running", "  1: Running", "  2: Running"]
        assert example(data_dir, "stop") == []
        assert DeployedPool.deployed(running.servers) == []


def test_no_actor_of_a_pool_is_left(cluster: Cluster) -> None:
    """The last of this file: every test has stopped its pool."""
    wait_until(lambda: not [a for a in ray.util.list_named_actors(True) if a["namespace"] == NAMESPACE], 30)
