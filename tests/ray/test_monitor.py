"""The Monitor as an actor: it comes by itself, answers drivers, and is replaced when it dies, unnoticed by groups."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.cluster import Cluster, ClusterError
from actors.links.member_process import kind_and_process
from actors.links.views import GetGroupHistory, GetOverview, GetSeen, Overview, RebalanceView
from actors.members.pool import ConsumerPool
from tests.ray.handlers import Recorder
from tests.ray.support import topic, wait_until


def shown(cluster: Cluster) -> Overview | None:
    """What the Monitor shows, if it answers now."""
    with contextlib.suppress(ClusterError):
        return cluster.view(GetOverview())
    return None


def monitor_pid(cluster: Cluster) -> int:
    """Its process, once it has come."""
    return int(wait_until(lambda: cluster.status()["monitor"]["pid"], what="a Monitor"))


def rebalances(cluster: Cluster, group: str) -> tuple[RebalanceView, ...]:
    """Those that the Monitor knows of a group."""
    return cluster.view(GetGroupHistory(group, 0, 1 << 60)).rebalances


def test_a_monitor_that_is_killed_is_replaced_and_no_group_notices(shared: Cluster, name: str, tmp_path: Path) -> None:
    first = monitor_pid(shared)
    seen = wait_until(lambda: shown(shared), what="its first look")
    assert [broker.id for broker in seen.brokers] == [0, 1, 2]
    assert {broker.pid for broker in seen.brokers} == set(shared.broker_pids().values())
    servers = shared.bootstrap_servers
    with ConsumerPool(
        topic(servers, name, 1), name, Recorder, 1, bootstrap_servers=servers, handler_args=(str(tmp_path),)
    ) as pool:
        (told,) = wait_until(lambda: rebalances(shared, name), what="the pool's rebalance")
        (member,) = pool.status()
        (process,) = told.processes.values()
        assert kind_and_process(process) == ("pool", f"pid {member.pid} on node {member.node_id[:12]}")
        before = [shared.group_status(name, broker.id) for broker in seen.brokers]
        os.kill(first, signal.SIGKILL)
        second = wait_until(lambda: (pid := monitor_pid(shared)) != first and pid, what="another Monitor")
        again = wait_until(lambda: shown(shared), what="its first look")
        assert second != first
        assert any((event.kind, event.subject) == ("death", "monitor") for event in again.events)
        assert shared.view(GetSeen()).problems == ()
        assert [shared.group_status(name, broker.id) for broker in again.brokers] == before
        assert rebalances(shared, name) == (told,), "the brokers remember it, too"


def test_a_cluster_runs_without_a_monitor(start: Callable[..., Cluster]) -> None:
    with start(coterie_monitor="false") as cluster:
        assert cluster.status()["monitor"] is None
        with pytest.raises(ClusterError, match=r"coterie\.monitor=false"):
            cluster.view(GetSeen())
