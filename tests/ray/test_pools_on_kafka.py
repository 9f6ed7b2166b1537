"""A deployed pool whose records, and whose own topic, are at Apache Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from actors.cluster import Cluster
from actors.members.deployment.deployed import DeployedPool
from actors.members.deployment.description import PoolState
from tests.compat.apache_kafka import apache_kafka
from tests.compat.peers import UnavailableError
from tests.ray.fed import SIZE, Fed, Stopping, all_at_work, deploy, kill_supervisor, members_of, newer
from tests.ray.handlers import Newer
from tests.ray.support import assert_gone, wait_until


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        try:
            peer = stack.enter_context(apache_kafka(tmp_path_factory.mktemp("kafka")))
        except UnavailableError as reason:
            pytest.skip(f"Apache Kafka cannot run here: {reason}")
        yield peer.bootstrap_servers


def test_it_outlives_its_supervisor_rolls_pauses_and_stops(
    shared: Cluster, kafka: str, name: str, tmp_path: Path
) -> None:
    """Of the cluster of ours only the Ray is used."""
    fed = Fed(kafka, name, tmp_path, replicas=1)
    fed.feed(100)
    pool = deploy(fed)
    with contextlib.closing(Stopping(pool)):
        assert pool.wait(all_at_work, 150), pool.describe()
        assert [found.name for found in DeployedPool.deployed(kafka)] == [name]
        assert name not in [found.name for found in DeployedPool.deployed(shared.bootstrap_servers)]
        with fed:
            a_killed_supervisor_has_a_successor(pool)
            pool.scale(3)
            assert pool.wait(lambda now: len(now.members) == 3 and all_at_work(now), 150), pool.describe()
            deploy(fed, Newer, size=SIZE)
            assert pool.wait(lambda now: now.running_version == 2 and now.state is PoolState.RUNNING, 150)
            found = pool.describe()
            assert len(found.members) == SIZE
            wait_until(
                lambda: newer(tmp_path) == {member.pid for member in found.members}, 60, "the new version's work"
            )
            pool.pause()
            assert pool.wait(lambda now: now.state is PoolState.PAUSED and not now.members, 150), pool.describe()
            assert members_of(kafka, name) == 0
            pool.resume()
            assert pool.wait(all_at_work, 150), pool.describe()
        fed.nothing_lost_and_nothing_by_two()
    assert DeployedPool.deployed(kafka) == []
    assert members_of(kafka, name) == 0


def a_killed_supervisor_has_a_successor(pool: DeployedPool) -> None:
    """Its members end, and others take the same places."""
    before = pool.describe()
    family = [psutil.Process(member.pid) for member in before.members]
    killed = kill_supervisor(pool)
    assert_gone(family, 30)
    assert pool.wait(lambda now: now.supervisor_pid not in (None, killed) and all_at_work(now), 150)
    assert [member.assignment for member in pool.describe().members] == [m.assignment for m in before.members]
