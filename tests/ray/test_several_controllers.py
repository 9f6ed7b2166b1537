"""Three controllers on one Ray: one leads, and when its process is killed another one does. Nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.cluster import Cluster, ClusterError
from tests.ray.support import await_topic, read_all, topic, wait_until
from tests.ray.traffic import Writer

SETTINGS = {"coterie_monitor": "false", "offsets_topic_num_partitions": "3"}


def roles(cluster: Cluster) -> dict[int, str]:
    return {each["id"]: each["role"] for each in cluster.status()["controllers"]}


def leader_of(cluster: Cluster) -> int:
    (found,) = [each for each, role in roles(cluster).items() if role == "Leader"]
    return found


@pytest.mark.conformance("N-C-10", "N-C-11")
def test_another_controller_leads_when_the_leading_ones_process_is_killed(
    start: Callable[..., Cluster], name: str, tmp_path: Path
) -> None:
    with start(brokers=2, controllers=3, data_dir=tmp_path, **SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        topic(servers, name, 2, factor=2, min_insync_replicas="1")
        assert roles(cluster) == {0: "Leader", 1: "Voter", 2: "Voter"}
        before, pids = cluster.status()["controller_pid"], cluster.broker_pids()
        epoch = cluster.status()["controller_epoch"]
        with Writer(servers, name) as writer:
            wait_until(lambda: len(writer.acknowledged) > 50, what="traffic")
            os.kill(before, signal.SIGKILL)
            topic(servers, f"{name}-after", 1, factor=2)
            now = cluster.status()
            assert now["controller_pid"] != before
            assert now["controller_epoch"] > epoch
            assert leader_of(cluster) != 0
            wait_until(lambda: _caught_up(cluster), what="the killed one catches up")
            written = len(writer.acknowledged)
            wait_until(lambda: len(writer.acknowledged) > written + 50, what="traffic")
            cluster.controllers.remove(leader_of(cluster))
            assert len(roles(cluster)) == 2
            (gone,) = {0, 1, 2} - roles(cluster).keys()
            cluster.controllers.add(gone)
            wait_until(lambda: _caught_up(cluster), what="the one that was added")
            assert sorted(roles(cluster).values()) == ["Leader", "Voter", "Voter"]
        assert writer.failed == 0
        assert cluster.broker_pids() == pids, "brokers went on"
        assert writer.acknowledged - read_all(servers, name, len(writer.acknowledged)) == set()
    with start(brokers=2, controllers=3, data_dir=tmp_path, **SETTINGS) as cluster:
        assert sorted(roles(cluster)) == [0, 1, 2]
        await_topic(cluster.bootstrap_servers, f"{name}-after", 1)
    with pytest.raises(ClusterError, match=r"one of 3 controllers.*--controllers 3"):
        start(brokers=2, data_dir=tmp_path, **SETTINGS)


def _caught_up(cluster: Cluster) -> bool:
    found = cluster.status()["controllers"]
    return len(found) == 3 and all(each["role"] != "Observer" and each["lag"] == 0 for each in found)
