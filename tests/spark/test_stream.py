"""A Spark job as a consumer group, on RayDP: its records, commits and shares, and its errors on bad input."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from actors.client import Admin, Consumer, TopicPartition
from actors.client.errors import DataLossError, TopicRecreatedError, UnknownTopicOrPartitionError
from actors.cluster import Cluster
from actors.members.pool import ConsumerPool
from spark_bridge.batch import Batch
from spark_bridge.once import OnceFiles, OnceTable
from spark_bridge.stream import GroupStream
from tests.spark.streams import PARTITIONS, Seen, committed, ends, make_topic, run, running, send, stream
from tests.spark.support import await_topic, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_SOURCE = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
)


def test_a_job_reads_what_is_there_and_the_next_one_what_is_new(
    spark: SparkSession, each_servers: str, topic_name: str
) -> None:
    servers = each_servers
    make_topic(servers, topic_name)
    schemas = []
    seen = Seen(lambda df, batch: schemas.append(df.schema.simpleString()))
    old = send(servers, topic_name, range(1000))
    query = run(spark, servers, topic_name, seen)
    assert sorted(seen.values) == sorted(old)
    assert set(schemas) == {KAFKA_SOURCE + ">"}
    assert committed(servers, topic_name) == ends(servers, topic_name)
    assert sum(progress["numInputRows"] for progress in query.recent_progress) == 1000
    assert query.exception() is None
    assert not query.is_active

    new = send(servers, topic_name, range(1000, 1100))
    again = Seen()
    run(spark, servers, topic_name, again)
    assert sorted(again.values) == sorted(new)
    assert [r for batch in again.batches for r in batch.ranges if r.from_offset < 250] == []


def test_a_running_query_takes_new_records_and_limits_its_batches(
    spark: SparkSession, cluster: Cluster, topic_name: str
) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    old = send(servers, topic_name, range(100))
    seen = Seen()
    with running(stream(spark, servers, topic_name, seen, maxOffsetsPerTrigger=40, minPartitions=8)) as query:
        wait_until(lambda: len(seen.values) == 100, what="the records that were there")
        new = send(servers, topic_name, range(100, 120))
        wait_until(lambda: len(seen.values) == 120, what="the new records")
        wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="their commit")
        assert query.is_active
        wait_until(lambda: query.status["message"] == "Waiting for data to arrive", what="a trigger without records")
    assert sorted(seen.values) == sorted(old + new)
    assert max(progress["numInputRows"] for progress in query.recent_progress) <= 40
    with Admin(bootstrap_servers=servers) as admin:
        (group,) = admin.describe_consumer_groups([f"g-{topic_name}"])
    assert group.state == "Empty"  # it has left, and nobody waits for its session to end


def test_a_group_without_commits_begins_where_it_is_told_and_a_new_partition_at_its_beginning(
    spark: SparkSession, cluster: Cluster, topic_name: str
) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name, 2)
    with Admin(bootstrap_servers=servers) as admin:
        send_two = [0, 1, 4, 5]  # partitions 0 and 1
        send(servers, topic_name, send_two)
        seen = Seen()
        run(spark, servers, topic_name, seen, startingOffsets="latest")
        assert seen.values == []
        admin.create_partitions({topic_name: PARTITIONS})
    await_topic(servers, topic_name, PARTITIONS)
    new = send(servers, topic_name, range(8, 12))
    run(spark, servers, topic_name, seen, startingOffsets="latest")
    assert sorted(seen.values) == sorted(new)


def test_headers_come_when_they_are_asked_for(spark: SparkSession, cluster: Cluster, topic_name: str) -> None:
    from actors.client import Producer

    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic_name, b"v", headers=[("a", b"1"), ("a", None)]).get(20)
    rows: list[Any] = []
    run(spark, servers, topic_name, lambda df, _: rows.extend(df.collect()), includeHeaders="true")
    assert [(h["key"], h["value"]) for h in rows[0]["headers"]] == [("a", b"1"), ("a", None)]


def test_two_jobs_and_a_pool_share_a_group(spark: SparkSession, cluster: Cluster, topic_name: str) -> None:
    servers, group = cluster.bootstrap_servers, f"g-{topic_name}"
    make_topic(servers, topic_name)
    values = set(send(servers, topic_name, range(400)))
    one, two = Seen(), Seen()
    # One member each: with more members than partitions, the pool would rightly have nothing.
    with contextlib.ExitStack() as jobs:  # a failure below must not leave them running
        first, second = (
            jobs.enter_context(running(stream(spark, servers, topic_name, seen, members=1, maxOffsetsPerTrigger=40)))
            for seen in (one, two)
        )
        pool = jobs.enter_context(ConsumerPool(topic_name, group, lambda record: None, 1, bootstrap_servers=servers))
        wait_until(lambda: all(s.assignment for s in pool.status()), what="the pool's share")
        wait_until(lambda: shares(servers, group) == [1, 1, 2], what="a share for each")
        wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="all that was there")
        # The pool's own count is a little behind its commits.
        wait_until(lambda: len(one.values) + len(two.values) + pool.handled() >= 400, what="all that was there")
        before = pool.handled()
        extra = set(send(servers, topic_name, range(400, 800)))
        wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="everything committed")
        mine, yours = extra.intersection(one.values), extra.intersection(two.values)
        wait_until(lambda: len(mine) + len(yours) + pool.handled() - before >= 400, what="everything handled")
        assert shares(servers, group) == [1, 1, 2]
    assert first.exception() is None
    assert second.exception() is None
    # Each had the records of the partitions it held, and nobody had another's.
    assert not mine & yours
    assert {len(mine), len(yours), len(extra - mine - yours)} == {100, 200}
    assert set(one.values) | set(two.values) <= values | extra


def shares(servers: str, group: str) -> list[int]:
    """The numbers of partitions of a group's members, sorted."""
    with Admin(bootstrap_servers=servers) as admin:
        (found,) = admin.describe_consumer_groups([group])
    return sorted(len(member.assignment) for member in found.members)


def test_an_empty_trigger_calls_nobody(spark: SparkSession, cluster: Cluster, topic_name: str) -> None:
    make_topic(cluster.bootstrap_servers, topic_name)
    seen = Seen()
    run(spark, cluster.bootstrap_servers, topic_name, seen)
    assert seen.batches == []


# --- bad input and errors ---


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, cluster: Cluster, topic_name: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=topic_name):
        stream(spark, cluster.bootstrap_servers, topic_name, Seen()).start()
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert topic_name not in admin.list_topics()


def test_a_function_that_raises_ends_the_query_and_commits_nothing(
    spark: SparkSession, cluster: Cluster, topic_name: str
) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    values = send(servers, topic_name, range(80))
    mine = ZeroDivisionError("mine")

    def fail(df: DataFrame, batch: Batch) -> None:
        if int(batch) == 1:
            raise mine

    query = stream(spark, servers, topic_name, Seen(fail), maxOffsetsPerTrigger=40).trigger(available_now=True).start()
    with pytest.raises(ZeroDivisionError) as caught:
        query.await_termination(120)
    assert caught.value is mine
    assert query.exception() is mine
    assert committed(servers, topic_name) == dict.fromkeys(range(PARTITIONS), 10)
    again = Seen()
    run(spark, servers, topic_name, again)
    assert sorted(again.values) == sorted(values[40:])


@pytest.mark.parametrize("fail", [True, False])
def test_records_deleted_before_they_were_read(
    spark: SparkSession, cluster: Cluster, topic_name: str, fail: bool
) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    send(servers, topic_name, range(40))
    run(spark, servers, topic_name, Seen(), maxOffsetsPerTrigger=40)
    values = send(servers, topic_name, range(40, 80))
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic_name, 0): 15})
    seen = Seen()
    query = stream(spark, servers, topic_name, seen, failOnDataLoss=fail).trigger(available_now=True).start()
    if fail:
        with pytest.raises(DataLossError, match=rf"{topic_name}-0.*offset 10.*15 to 20.*failOnDataLoss"):
            query.await_termination(120)
        assert committed(servers, topic_name)[0] == 10
    else:
        assert query.await_termination(120)
        lost = {b"%d" % n for n in range(40, 60, PARTITIONS)}
        assert set(seen.values) == set(values) - lost


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_deleted_and_created_again_was_read_from_where_the_old_one_ended(
    spark: SparkSession, cluster: Cluster, topic_name: str, fail: bool
) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    old = send(servers, topic_name, range(40))
    seen = Seen()
    with running(stream(spark, servers, topic_name, seen, failOnDataLoss=fail)) as query:
        wait_until(lambda: len(seen.values) == len(old), what="the old records")
        wait_until(lambda: committed(servers, topic_name) == ends(servers, topic_name), what="their commit")
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics([topic_name])
        make_topic(servers, topic_name)
        new = send(servers, topic_name, range(1000, 1100))
        if fail:
            with pytest.raises(TopicRecreatedError, match="set failOnDataLoss to false"):
                query.await_termination(120)
        else:
            wait_until(lambda: set(new) <= set(seen.values), what="every record of the new topic")
            assert sorted(seen.values) == sorted(old + new)


def test_a_stop_in_mid_batch_commits_nothing(spark: SparkSession, cluster: Cluster, topic_name: str) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    values = send(servers, topic_name, range(40))
    begun = threading.Event()

    def linger(df: DataFrame, batch: Batch) -> None:
        begun.set()
        df.mapInPandas(_forever, df.schema).count()

    with running(stream(spark, servers, topic_name, linger)) as query:
        wait_until(begun.is_set, what="the batch")
    assert query.exception() is None
    assert committed(servers, topic_name) == dict.fromkeys(range(PARTITIONS), 0)
    again = Seen()
    run(spark, servers, topic_name, again)
    assert sorted(again.values) == sorted(values)


def _forever(frames: Any) -> Any:
    for _ in frames:
        threading.Event().wait()
    yield from ()


def test_a_partition_taken_away_in_mid_batch_is_not_committed(
    spark: SparkSession, cluster: Cluster, topic_name: str
) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    values = send(servers, topic_name, range(40))
    held: list[dict[int, bool]] = []
    gone: set[int] = set()

    def share(df: DataFrame, batch: Batch) -> None:
        if int(batch) > 0:  # partitions that were taken away come back, perhaps before the query is stopped
            return
        other = Consumer(
            topic_name,
            bootstrap_servers=servers,
            group_id=f"g-{topic_name}",
            partition_assignment_strategy=["cooperative-sticky"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        with other:
            wait_until(lambda: other.poll(100) or other.assignment(), what="the other member's share")
            gone.update(tp.partition for tp in other.assignment())
            held.append({r.partition: r.held for r in batch.ranges})

    with running(stream(spark, servers, topic_name, Seen(share), revoke_wait_ms=0, maxOffsetsPerTrigger=40)) as query:
        wait_until(lambda: query.last_progress, what="the first batch")
    assert held[0] == {n: n not in gone for n in range(PARTITIONS)}
    assert gone
    first = query.recent_progress[0]["sources"][0]
    assert first["notCommitted"] == sorted((topic_name, n) for n in gone)
    again = Seen()
    run(spark, servers, topic_name, again)
    repeated = {r.partition for batch in again.batches for r in batch.ranges if r.from_offset == 0}
    assert repeated <= gone
    assert set(again.values) <= set(values)


# --- sinks ---


def test_a_repeated_batch_is_written_once(
    spark: SparkSession, cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    values = send(servers, topic_name, range(100))
    sink = OnceFiles(tmp_path / "out")

    def write_then_fail(df: DataFrame, batch: Batch) -> None:
        assert sink.write(df, batch, lambda new: new.select("value")) == sum(
            r.until_offset - r.from_offset for r in batch.ranges
        )
        raise KeyError("after the write, before the commit")

    with (
        running(stream(spark, servers, topic_name, write_then_fail, maxOffsetsPerTrigger=60)) as query,
        pytest.raises(KeyError),
    ):
        query.await_termination(120)
    run(spark, servers, topic_name, lambda df, batch: sink.write(df, batch, lambda new: new.select("value")))
    assert sorted(bytes(row["value"]) for row in sink.read(spark).collect()) == sorted(values)
    assert sum(sink.offsets().values()) == 100


def test_a_table_shows_what_was_entered(spark: SparkSession, cluster: Cluster, topic_name: str, tmp_path: Path) -> None:
    servers, table = cluster.bootstrap_servers, f"t_{topic_name.replace('-', '_')}"
    make_topic(servers, topic_name)
    send(servers, topic_name, range(100))
    sink = OnceTable(table, tmp_path / "table")

    def totals(new: DataFrame) -> DataFrame:
        return new.groupBy("partition").agg(f.count("*").alias("records"))

    run(spark, servers, topic_name, lambda df, b: sink.write(df, b, totals), maxOffsetsPerTrigger=60)
    # A writer that died between the data and its entry has left data that nobody must see.
    spark.range(5).selectExpr("cast(id as int) partition", "id records").write.parquet(
        str(tmp_path / "table" / "data" / "_write=orphan")
    )
    sink.repair(spark)
    assert spark.table(table).agg(f.sum("records")).first()[0] == 100
    spark.sql(f"DROP TABLE {table}")


def test_of_two_writers_at_once_the_second_leaves_out_what_the_first_wrote(spark: SparkSession, tmp_path: Path) -> None:
    from actors.client.records import OffsetRange

    df = spark.range(10).selectExpr("'t' topic", "0 partition", "id offset")
    first, second = OnceFiles(tmp_path), OnceFiles(tmp_path)
    batch = Batch(0, (OffsetRange("t", 0, 0, 8),), frozenset)
    longer = Batch(0, (OffsetRange("t", 0, 0, 10),), frozenset)

    def with_another_first(new: DataFrame) -> DataFrame:
        first.write(df, batch)
        return new

    assert second.write(df, longer, with_another_first) == 2
    assert sorted(row["offset"] for row in second.read(spark).collect()) == list(range(10))


def test_a_pattern_finds_topics(spark: SparkSession, cluster: Cluster, name: str) -> None:
    servers = cluster.bootstrap_servers
    for n in range(2):
        make_topic(servers, f"{name}-p-{n}")
    values = send(servers, f"{name}-p-0", range(20)) + send(servers, f"{name}-p-1", range(20, 40))
    seen = Seen()
    options = {"subscribePattern": f"{name}-p-.*", "startingOffsets": "earliest"}
    built = GroupStream(spark, group_id=f"g-{name}", bootstrap_servers=servers, options=options).foreach_batch(seen)
    assert built.trigger(available_now=True).start().await_termination(120)
    assert sorted(seen.values) == sorted(values)
