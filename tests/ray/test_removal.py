"""A broker is removed while clients write and commit, and the controller dies meanwhile: nothing is lost."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from confluent_kafka.admin import AdminClient

from actors.cluster import Cluster, ClusterError
from tests.ray.support import (
    assert_gone,
    committed,
    consumer,
    full_status,
    patient,
    produce,
    read_all,
    topic,
    wait_until,
)
from tests.ray.traffic import Committer, Writer

Start = Callable[..., Cluster]

SETTINGS = {
    "coterie_monitor": "false",
    "offsets_topic_num_partitions": "3",
    "offsets_topic_replication_factor": "2",
}
SLOW = 4_000  # bytes a second: so it is under way for as long as the test needs


@pytest.mark.conformance("N-D-05")
def test_a_broker_is_removed_under_load_though_the_controller_dies_and_nothing_is_lost(
    start: Start, name: str, tmp_path: Path
) -> None:
    with start(brokers=3, data_dir=tmp_path, **SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        topic(servers, name, 6, factor=2, min_insync_replicas="1")
        topic(servers, f"{name}-three", 1, factor=3)
        with pytest.raises(ClusterError, match=f"topic {name}-three has replication factor 3, and 2 brokers would be"):
            cluster.remove_broker(0)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics([f"{name}-three"])[f"{name}-three"].result(60)
        produce(servers, name, [b"%d-%s" % (number, bytes(1_000)) for number in range(500)])
        group = f"g-{name}"
        with Writer(servers, name) as writer, Committer(consumer(servers, group), name) as committer:
            wait_until(lambda: committer.last > 20 and len(writer.acknowledged) > 100, what="traffic")
            victim, pid = _coordinator(cluster)
            _removed_while_the_controller_dies(cluster, victim)
            now, written = committer.last, len(writer.acknowledged)
            wait_until(lambda: committer.last > now + 5 and len(writer.acknowledged) > written + 50, what="traffic")
        assert_gone([pid])
        assert writer.failed == 0
        servers = cluster.bootstrap_servers
        assert len(servers.split(",")) == 2
        stored = read_all(servers, name, len(writer.acknowledged) + 500)
        assert writer.acknowledged - stored == set()
        assert len(stored - writer.acknowledged) >= 500
        assert patient(lambda: committed(consumer(servers, group), name, 1))[0] >= committer.last
        found = patient(lambda: AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10))
        assert victim not in found.brokers
        held = [part.replicas for each in found.topics.values() for part in each.partitions.values()]
        assert all(victim not in replicas and len(replicas) == 2 for replicas in held)
        cluster.remove_broker(victim)  # it is gone already
        assert cluster.add_brokers(1) == [3], "and not its id again"
    with start(brokers=3, data_dir=tmp_path, **SETTINGS) as cluster:
        assert [broker["id"] for broker in full_status(cluster)["brokers"]] == sorted({0, 1, 2, 3} - {victim})
        assert any(note.startswith(f"broker {victim} was removed, and not started") for note in cluster.notes)


def _removed_while_the_controller_dies(cluster: Cluster, victim: int) -> None:
    """Two calls wait for one removal: the first outlives the controller, the second ends the removal soon."""
    with ThreadPoolExecutor(1) as pool:
        follows = pool.submit(cluster.remove_broker, victim, throttle=SLOW)
        wait_until(lambda: follows.done() or _under_way(cluster, victim), what="its first moves")
        assert not follows.done(), follows.exception()
        before = cluster.status()["controller_pid"]
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: _controller_pid(cluster) not in (None, before), what="another controller")
        assert _under_way(cluster, victim), "it goes on"
        cluster.remove_broker(victim, throttle=0)
        follows.result(60)


def _coordinator(cluster: Cluster) -> tuple[int, psutil.Process]:
    """A broker that coordinates groups, and its process."""
    for broker in full_status(cluster)["brokers"]:
        if any(shard["state"] == "Active" for shard in broker["shards"]):
            return broker["id"], psutil.Process(broker["pid"])
    raise AssertionError("nobody coordinates groups")


def _under_way(cluster: Cluster, broker_id: int) -> bool:
    status: Any = cluster.removal(broker_id).status
    return status is not None and status.under_way > 0


def _controller_pid(cluster: Cluster) -> int | None:
    with contextlib.suppress(ray.exceptions.RayError):
        return int(cluster.status()["controller_pid"])
    return None
