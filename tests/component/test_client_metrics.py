"""A consumer's metrics of its rebalances and heartbeats, once it has had some."""

from __future__ import annotations

import time

import pytest

from actors.client import Consumer
from tests.support.client_broker import broker


def test_a_consumers_metrics_show_them():
    with broker() as kafka:
        kafka.topic("t")
        with Consumer("t", group_id="g", bootstrap_servers=kafka.bootstrap_servers, heartbeat_interval_ms=20) as reader:
            names = ["join_time", "sync_time", "rebalance_latency", "heartbeat_response_time"]
            assert [reader.metrics()[f"{name}_avg"] for name in names] == [None] * 4
            deadline = time.monotonic() + 60
            while None in (found := [reader.metrics()[f"{name}_max"] for name in names]):
                assert time.monotonic() < deadline, found
                reader.poll(20)
            metrics = reader.metrics()
            assert metrics["rebalance_latency_max"] == metrics["last_rebalance_ms"] >= metrics["join_time_max"]
            assert metrics["join_time_avg"] == pytest.approx(metrics["join_time_max"])
