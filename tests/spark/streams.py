"""Helpers of GroupStream's tests: topics with records, a function that remembers its batches, committed offsets."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from actors.client import Admin, Consumer, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from spark_bridge.batch import Batch
from spark_bridge.query import GroupQuery
from spark_bridge.stream import GroupStream
from tests.spark.support import await_topic

PARTITIONS = 4
# A member that a test kills is missed soon; a rebalance is heard of at once.
QUICK = {"startingOffsets": "earliest", "kafka.session.timeout.ms": 6000, "kafka.heartbeat.interval.ms": 200}


def make_topic(servers: str, topic: str, partitions: int = PARTITIONS) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    await_topic(servers, topic, partitions)


def send(servers: str, topic: str, numbers: Iterable[int]) -> list[bytes]:
    """Produce records b"0", b"1", … to the partition of their remainder; their values."""
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        sent = [(b"%d" % n, producer.send(topic, b"%d" % n, partition=n % PARTITIONS)) for n in numbers]
        producer.flush(60)
        for _, future in sent:
            future.get(0)
    return [value for value, _ in sent]


class Seen:
    """A batch function: collects the values, and the batches."""

    def __init__(self, then: Callable[[DataFrame, Batch], Any] = lambda df, batch: None) -> None:
        self.values: list[bytes] = []
        self.batches: list[Batch] = []
        self._then = then
        self._lock = threading.Lock()

    def __call__(self, df: DataFrame, batch: Batch) -> None:
        found = [bytes(row["value"]) for row in df.select("value").collect()]
        with self._lock:
            self.values += found
            self.batches.append(batch)
        self._then(df, batch)


def stream(
    spark: SparkSession,
    servers: str,
    topic: str,
    function: Callable[..., Any],
    group: str = "",
    members: int | None = None,
    **options: Any,
) -> GroupStream:
    named = QUICK | {name.replace("_", "."): value for name, value in options.items()}
    return GroupStream(spark, [topic], group or f"g-{topic}", servers, named, members).foreach_batch(function)


@contextlib.contextmanager
def running(stream: GroupStream) -> Iterator[GroupQuery]:
    """A query that is stopped in any case: one that goes on disturbs every test after it. A failure shows it."""
    query = stream.start()
    try:
        yield query
    except BaseException as error:
        error.add_note(f"the query: {query.status}, {query.exception()!r}, {query.recent_progress[-2:]}")
        raise
    finally:
        query.stop()


def run(
    spark: SparkSession, servers: str, topic: str, function: Callable[..., Any], group: str = "", **options: Any
) -> GroupQuery:
    """A query that reads the records there are now, and has ended."""
    with running(stream(spark, servers, topic, function, group, **options).trigger(available_now=True)) as query:
        assert query.await_termination(120)
    return query


def committed(servers: str, topic: str, group: str = "") -> dict[int, int]:
    """The committed offset of each partition that has one."""
    partitions = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    with Admin(bootstrap_servers=servers) as admin:
        found = admin.list_consumer_group_offsets(group or f"g-{topic}", partitions)
    return {tp.partition: at.offset for tp, at in found.items() if at is not None}


def ends(servers: str, topic: str) -> dict[int, int]:
    partitions = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    with Consumer(bootstrap_servers=servers, enable_auto_commit=False) as reader:
        return {tp.partition: at for tp, at in reader.end_offsets(partitions).items()}
