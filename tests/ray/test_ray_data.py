"""Bounded Ray Data jobs as members of a group: each goes on where the last one ended, and commits on success only."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors.client import Consumer, TopicPartition
from actors.client.errors import ConfigurationError, UnknownTopicOrPartitionError
from actors.cluster import Cluster
from actors.ray_data import SCHEMA, GroupRead, read_group
from tests.ray.support import consumer, produce, topic, wait_until

PARTITIONS = 3


def job(cluster: Cluster, name: str, **more: Any) -> GroupRead:
    return read_group(name, f"g-{name}", bootstrap_servers=cluster.bootstrap_servers, **more)


def fill(cluster: Cluster, name: str, first: int, until: int) -> list[bytes]:
    values = [b"%d" % n for n in range(first, until)]
    produce(cluster.bootstrap_servers, name, values)
    return values


def values_of(read: GroupRead) -> list[bytes]:
    return sorted(row["value"] for row in read.dataset.take_all())


def lag(cluster: Cluster, name: str) -> int:
    partitions = [TopicPartition(name, n) for n in range(PARTITIONS)]
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=f"g-{name}") as client:
        committed, ends = client.committed_offsets(partitions), client.end_offsets(partitions)
    return sum(ends[tp] - (at.offset if at is not None else 0) for tp, at in committed.items())


def test_a_job_reads_everything_and_the_next_one_what_is_new(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    old = fill(shared, name, 0, 1000)
    with job(shared, name) as read:
        assert read.dataset.schema().base_schema == SCHEMA
        assert values_of(read) == sorted(old)
    assert lag(shared, name) == 0
    new = fill(shared, name, 1000, 1500)
    with job(shared, name) as read:
        assert values_of(read) == sorted(new)
    with job(shared, name) as read:
        assert values_of(read) == []


def test_a_job_that_fails_commits_nothing(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    old = fill(shared, name, 0, 300)
    seen = []

    def fail(read: GroupRead) -> None:
        seen.extend(values_of(read))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), job(shared, name) as read:
        fail(read)
    assert seen == sorted(old)
    assert lag(shared, name) == len(old)
    with job(shared, name) as read:
        assert values_of(read) == sorted(old)


def test_what_nobody_read_is_not_committed(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    old = fill(shared, name, 0, 300)
    with job(shared, name):
        pass
    assert lag(shared, name) == len(old)


def test_another_member_shares_the_work(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    fill(shared, name, 0, 300)
    other = consumer(shared.bootstrap_servers, f"g-{name}", **{"partition.assignment.strategy": "cooperative-sticky"})
    other.subscribe([name])
    wait_until(lambda: other.poll(0.1) and other.assignment(), what="the first member's assignment")
    entered = threading.Event()
    found: list[int] = []

    def run() -> None:
        with job(shared, name) as read:
            found.extend(r.partition for r in read.ranges)
            entered.set()
            read.dataset.count()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not entered.is_set():
            other.poll(0.05)
        owned = {tp.partition for tp in other.assignment()}
        assert found
        assert owned.isdisjoint(found)
        while thread.is_alive():
            other.poll(0.05)
    finally:
        thread.join(60)
        other.close()


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"auto_offset_reset": "none"}, ConfigurationError, "auto_offset_reset='none'"),
        ({"sesion_timeout_ms": 1}, ConfigurationError, "sesion_timeout_ms"),
        ({}, UnknownTopicOrPartitionError, "there is no topic"),
    ],
)
def test_bad_input_is_named(shared: Cluster, name: str, more: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text), job(shared, name, **more):
        pass
