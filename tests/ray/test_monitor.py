"""The Monitor as an actor: it comes by itself, answers drivers, and is replaced when it dies, unnoticed by groups."""

from __future__ import annotations

import contextlib
import os
import signal
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from actors.cluster import Cluster, ClusterError
from actors.links.member_process import kind_and_process
from actors.links.views import ClassicRebalanceView, GetGroupHistory, GetOverview, GetSeen, Overview
from actors.members.pool import ConsumerPool
from tests.compat.prometheus import metrics_url
from tests.ray.handlers import Recorder
from tests.ray.support import produce, topic, wait_until


def shown(cluster: Cluster) -> Overview | None:
    """The Monitor's overview; None if it does not answer now."""
    with contextlib.suppress(ClusterError):
        return cluster.view(GetOverview())
    return None


def monitor_pid(cluster: Cluster) -> int:
    """The Monitor's pid, once it has come."""
    return int(wait_until(lambda: cluster.status()["monitor"]["pid"], what="a Monitor"))


def rebalances(cluster: Cluster, group: str) -> tuple[ClassicRebalanceView, ...]:
    """The rebalances of a group that the Monitor knows."""
    return cluster.view(GetGroupHistory(group, 0, 1 << 60)).rebalances


def test_a_monitor_that_is_killed_is_replaced_and_no_group_notices(shared: Cluster, name: str, tmp_path: Path) -> None:
    first = monitor_pid(shared)
    assert psutil.Process(first).nice() == 10, "brokers and shards come first"
    seen = wait_until(lambda: shown(shared), what="its first look")
    assert [broker.id for broker in seen.brokers] == [0, 1, 2]
    assert {broker.pid for broker in seen.brokers} == set(shared.broker_pids().values())
    servers = shared.bootstrap_servers
    with ConsumerPool(
        topic(servers, name, 1),
        name,
        Recorder,
        1,
        bootstrap_servers=servers,
        handler_args=(str(tmp_path),),
    ) as pool:
        (told,) = wait_until(lambda: rebalances(shared, name), what="the pool's rebalance")
        (member,) = pool.status()
        (process,) = told.processes.values()
        assert kind_and_process(process) == ("pool", f"pid {member.pid} on node {member.node_id[:12]}")
        before = [shared.group_status(name, broker.id) for broker in seen.brokers]
        os.kill(first, signal.SIGSTOP)
        produce(servers, name, [b"v%d" % number for number in range(20)])
        wait_until(lambda: pool.handled() == 20, what="records that are handled while the Monitor stands still")
        os.kill(first, signal.SIGKILL)
        second = wait_until(lambda: (pid := monitor_pid(shared)) != first and pid, what="another Monitor")
        again = wait_until(lambda: shown(shared), what="its first look")
        assert second != first
        assert any((event.kind, event.subject) == ("death", "monitor") for event in again.events)
        assert shared.view(GetSeen()).problems == ()
        assert [shared.group_status(name, broker.id) for broker in again.brokers] == before
        assert rebalances(shared, name) == (told,), "the brokers remember it, too"


def by_member(cluster: Cluster, group: str) -> dict[str, Counter[str]]:
    """The metrics of pools in a group: by metric, and there by member."""
    with urllib.request.urlopen(metrics_url(Path(cluster.status()["data_dir"])), timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found: dict[str, Counter[str]] = {}
    for sample in (each for family in families for each in family.samples if each.name.startswith("coterie_pool")):
        if sample.labels["consumergroup"] == group:
            found.setdefault(sample.name, Counter())[sample.labels.get("member", "")] = sample.value
    return found


def test_what_a_pools_members_do_is_among_the_metrics(shared: Cluster, name: str, tmp_path: Path) -> None:
    servers = shared.bootstrap_servers
    produce(servers, topic(servers, name, 6), [b"v%d" % number for number in range(60)])
    with ConsumerPool(
        name, name, Recorder, 2, bootstrap_servers=servers, handler_args=(str(tmp_path), 0.01), instance_prefix=name
    ) as pool:
        wait_until(lambda: pool.handled() == 60, what="records that were handled")

        def told() -> dict[str, Counter[str]] | None:
            found = by_member(shared, name)
            return found if found and found["coterie_pool_member_handled_total"].total() == 60 else None

        found = wait_until(told, what="its metrics") or {}
        assert found["coterie_pool_members"] == {"": 2}
        assert found["coterie_pool_member_handled_total"].keys() == {f"{name}-0", f"{name}-1"}
        assert found["coterie_pool_member_busy_seconds_total"].total() >= 0.6
        assert found["coterie_pool_member_restarts_total"].total() == 0
    wait_until(lambda: not by_member(shared, name), what="an end of them")


def test_a_cluster_runs_without_a_monitor(start: Callable[..., Cluster]) -> None:
    with start(coterie_monitor="false") as cluster:
        assert cluster.status()["monitor"] is None
        with pytest.raises(ClusterError, match=r"coterie\.monitor=false"):
            cluster.view(GetSeen())
