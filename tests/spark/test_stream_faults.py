"""A Spark job's group survives dead executors, members and brokers, and rebalances in the middle of a batch."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import ray
from pyspark.sql import DataFrame

from actors.client import Consumer, TopicPartition
from actors.members.pool import ConsumerPool
from spark_bridge.batch import Batch
from tests.spark.history import read_history
from tests.spark.streams import PARTITIONS, Seen, committed, ends, make_topic, run, running, send, stream
from tests.spark.support import executor_pids, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def servers(servers: str, topic_name: str) -> str:
    """The cluster's addresses, once it has the test's topic."""
    make_topic(servers, topic_name)
    return servers


class Gate:
    """Tasks on executors stop at it, in files that both sides see: `reached` waits for one, `open` lets them go on."""

    def __init__(self, folder: Path) -> None:
        self._here, self._open = folder / "here", folder / "open"
        self._here.mkdir()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for batch in batches:
            (self._here / str(os.getpid())).touch()
            while not self._open.exists():
                time.sleep(0.02)
            yield batch

    def reached(self) -> None:
        wait_until(lambda: list(self._here.iterdir()), what="a task at the gate")

    def open(self) -> None:
        self._open.touch()


def actor_pids(class_name: str) -> list[int]:
    actors = ray._private.state.actors().values()
    return [a["Pid"] for a in actors if a["ActorClassName"] == class_name and a["State"] == "ALIVE"]


def through(gate: Gate, meanwhile: Callable[[], Any]) -> Callable[[DataFrame, Batch], list[bytes]]:
    """Evaluate a batch whose tasks are held up at the gate while `meanwhile` runs; the values."""

    def evaluate(df: DataFrame, batch: Batch) -> list[bytes]:
        held = threading.Thread(target=lambda: (gate.reached(), meanwhile(), gate.open()))
        held.start()
        try:
            rows = df.mapInArrow(gate, df.schema).select("value").collect()
        finally:
            gate.open()
            held.join()
        return [bytes(row["value"]) for row in rows]

    return evaluate


def test_an_executor_killed_in_mid_batch_loses_and_repeats_nothing(
    spark: SparkSession, servers: str, topic_name: str, tmp_path: Path
) -> None:
    values = send(servers, topic_name, range(200))
    victim = next(iter(executor_pids(spark).values()))
    evaluate = through(Gate(tmp_path), lambda: os.kill(victim, signal.SIGKILL))
    seen: list[bytes] = []
    run(spark, servers, topic_name, lambda df, batch: seen.extend(evaluate(df, batch)))
    assert sorted(seen) == sorted(values)
    assert committed(servers, topic_name) == ends(servers, topic_name)


def test_a_member_killed_in_mid_batch_is_replaced_and_its_records_come_again(
    spark: SparkSession, servers: str, topic_name: str
) -> None:
    values = send(servers, topic_name, range(200))

    def kill_one(df: DataFrame, batch: Batch) -> None:
        if int(batch) == 0:
            victim, *_ = actor_pids("GroupMember")
            os.kill(victim, signal.SIGKILL)

    seen = Seen(kill_one)
    with running(stream(spark, servers, topic_name, seen)) as query:
        wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="everything committed")
    assert query.exception() is None
    assert set(seen.values) == set(values)
    again = sum(len(progress["sources"][0]["notCommitted"]) for progress in query.recent_progress)
    assert len(seen.values) == 200 + 50 * again
    assert again > 0


def test_a_broker_killed_in_mid_batch_holds_it_up_and_no_more(
    spark: SparkSession, servers: str, topic_name: str
) -> None:
    values = send(servers, topic_name, range(200))

    def kill_one(df: DataFrame, batch: Batch) -> None:
        if int(batch) == 0:
            os.kill(actor_pids("Broker")[0], signal.SIGKILL)
            assert df.count() == 200  # read again, from brokers one of which has to come back first

    seen = Seen(kill_one)
    run(spark, servers, topic_name, seen)
    assert set(seen.values) == set(values)
    assert committed(servers, topic_name) == ends(servers, topic_name)


@contextlib.contextmanager
def another_member(servers: str, topic: str) -> Iterator[list[int]]:
    """A member that joins and commits nothing; the partitions it has, once it has some."""
    stop, owned = threading.Event(), []

    def poll() -> None:
        settings: dict[str, Any] = {
            "partition_assignment_strategy": ["cooperative-sticky"],
            "enable_auto_commit": False,
        }
        with Consumer(topic, bootstrap_servers=servers, group_id=f"g-{topic}", **settings) as consumer:
            while not stop.is_set():
                consumer.poll(50)
                owned[:] = [tp.partition for tp in consumer.assignment()]

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield owned
    finally:
        stop.set()
        thread.join(30)


def test_a_rebalance_in_mid_batch_waits_for_its_end(spark: SparkSession, servers: str, topic_name: str) -> None:
    send(servers, topic_name, range(200))
    joined, finished = threading.Event(), threading.Event()
    held: list[bool] = []

    def hold(df: DataFrame, batch: Batch) -> None:
        assert joined.wait(60)
        held.extend(r.held for r in batch.ranges)
        finished.set()

    with running(stream(spark, servers, topic_name, Seen(hold), revoke_wait_ms=60_000)) as query:
        wait_until(lambda: query.status["message"].startswith("Processing"), what="a batch")
        with another_member(servers, topic_name) as owned:
            wait_until(lambda: _members(servers, topic_name) == 3, what="the other member's first generation")
            assert owned == []  # the batch holds on to everything
            joined.set()
            wait_until(lambda: owned, what="the other member's share")
            assert finished.is_set()
            assert all(held)
            # Only partitions that were let go must be committed by now; a member commits its kept share meanwhile.
            let_go = list(owned)
            at, end = committed(servers, topic_name), ends(servers, topic_name)
            assert [at[n] for n in let_go] == [end[n] for n in let_go]
            wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="everything committed")
    assert query.last_progress is not None
    assert query.last_progress["sources"][0]["notCommitted"] == []


def _members(servers: str, topic: str) -> int:
    from actors.client import Admin

    with Admin(bootstrap_servers=servers) as admin:
        (group,) = admin.describe_consumer_groups([f"g-{topic}"])
    return len(group.members) if group.state == "Stable" else 0


def test_the_history_of_a_group_under_every_fault(spark: SparkSession, servers: str, topic_name: str) -> None:
    """Each record handled at least once, commits never go back, one owner a partition in a generation."""
    group = f"g-{topic_name}"
    values = send(servers, topic_name, range(400))
    one, two = Seen(), Seen()
    pooled: set[bytes] = set()
    with contextlib.ExitStack() as jobs:
        first = jobs.enter_context(running(stream(spark, servers, topic_name, one, maxOffsetsPerTrigger=60)))
        wait_until(lambda: len(one.batches) >= 1, what="the first batch")

        os.kill(next(iter(executor_pids(spark).values())), signal.SIGKILL)
        # One member: with more members than partitions, the pool would rightly have nothing.
        other = stream(spark, servers, topic_name, two, members=1, maxOffsetsPerTrigger=60, revoke_wait_ms=0)
        second = jobs.enter_context(running(other))
        values += send(servers, topic_name, range(400, 800))
        wait_until(lambda: two.batches, what="the second job's share")
        os.kill(actor_pids("GroupMember")[0], signal.SIGKILL)
        values += send(servers, topic_name, range(800, 1200))
        os.kill(actor_pids("Broker")[0], signal.SIGKILL)
        with ConsumerPool(topic_name, group, _Keeper, 1, bootstrap_servers=servers) as pool:
            wait_until(lambda: all(s.assignment for s in pool.status()), what="the pool's share")
            values += send(servers, topic_name, range(1200, 1600))
            first.stop()  # in the middle of its work
            wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="everything committed")
            pooled.update(value for some in pool.call("values") for value in some)

    assert first.exception() is None
    assert second.exception() is None
    assert set(one.values) | set(two.values) | pooled == set(values)
    commits, double = read_history(servers, group)
    assert double == []
    assert {tp for tp in commits if tp.topic == topic_name} == {
        TopicPartition(topic_name, n) for n in range(PARTITIONS)
    }
    for tp, offsets in commits.items():
        assert offsets == sorted(offsets), tp


class _Keeper:
    """A pool's handler that keeps its records."""

    def __init__(self) -> None:
        self._values: list[bytes] = []

    def __call__(self, record: Any) -> None:
        self._values.append(record.value)

    def values(self) -> list[bytes]:
        return self._values
