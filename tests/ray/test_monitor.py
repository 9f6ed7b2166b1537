"""The Monitor as an actor: it comes by itself, answers drivers, and is replaced when it dies, unnoticed by groups."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import pytest
from confluent_kafka import Consumer

from actors.cluster import Cluster, ClusterError
from actors.links.views import GetOverview, GetSeen, Overview
from tests.ray.support import consumer, topic, wait_until


def shown(cluster: Cluster) -> Overview | None:
    """What the Monitor shows, if it answers now."""
    with contextlib.suppress(ClusterError):
        return cluster.view(GetOverview())
    return None


def monitor_pid(cluster: Cluster) -> int:
    """Its process, once it has come."""
    return int(wait_until(lambda: cluster.status()["monitor"]["pid"], what="a Monitor"))


def assigned(client: Consumer) -> Any:
    client.poll(0.1)
    return client.assignment()


def test_a_monitor_that_is_killed_is_replaced_and_no_group_notices(shared: Cluster, name: str) -> None:
    first = monitor_pid(shared)
    seen = wait_until(lambda: shown(shared), what="its first look")
    assert [broker.id for broker in seen.brokers] == [0, 1, 2]
    assert {broker.pid for broker in seen.brokers} == set(shared.broker_pids().values())
    with contextlib.closing(consumer(shared.bootstrap_servers, name)) as client:
        client.subscribe([topic(shared.bootstrap_servers, name, 1)])
        wait_until(lambda: assigned(client), what="an assignment")
        before = [shared.group_status(name, broker.id) for broker in seen.brokers]
        os.kill(first, signal.SIGKILL)
        second = wait_until(lambda: (pid := monitor_pid(shared)) != first and pid, what="another Monitor")
        again = wait_until(lambda: shown(shared), what="its first look")
        assert second != first
        assert any((event.kind, event.subject) == ("death", "monitor") for event in again.events)
        assert shared.view(GetSeen()).problems == ()
        assert [shared.group_status(name, broker.id) for broker in again.brokers] == before
        assert assigned(client), "it holds what it held"


def test_a_cluster_runs_without_a_monitor(start: Any) -> None:
    with start(coterie_monitor="false") as cluster:
        assert cluster.status()["monitor"] is None
        with pytest.raises(ClusterError, match=r"coterie\.monitor=false"):
            cluster.view(GetSeen())
