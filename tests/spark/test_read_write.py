"""`read_topic` and `write_topic` on executors: what is written is read, and what cannot be is said in one line."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from actors.client import Admin, OffsetAndMetadata, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import DataLossError, UnknownTopicOrPartitionError
from actors.client.records import OffsetRange
from placement.hashing import partition_for_key
from spark_bridge.columns import spark_schema
from spark_bridge.options import OptionError
from spark_bridge.read import read_topic
from spark_bridge.source import Reading, ranges_dataframe
from spark_bridge.write import ColumnError, write_topic
from tests.spark.support import await_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PARTITIONS = 3


@pytest.fixture
def topic(servers: str, admin: Admin, topic_name: str) -> str:
    admin.create_topics([NewTopic(topic_name, PARTITIONS, 1)])
    await_topic(servers, topic_name, PARTITIONS)
    return topic_name


def send(servers: str, topic: str, count: int, partition: int | None = None, **settings: Any) -> None:
    columns = {
        "key": pa.array([b"k%d" % n for n in range(count)]),
        "value": pa.array([b"v%d" % n for n in range(count)]),
        "timestamp": pa.array([1_700_000_000_000 + n * 1000 for n in range(count)]),
    }
    with Producer(bootstrap_servers=servers, **settings) as producer:
        producer.send_arrow(topic, pa.RecordBatch.from_pydict(columns), partition)


def values(df: Any) -> list[bytes]:
    return sorted(bytes(row["value"]) for row in df.select("value").collect())


def test_what_is_written_is_read(spark: SparkSession, servers: str, topic: str) -> None:
    rows = spark.range(0, 5_000, 1, 4).select(
        F.concat(F.lit("key-"), "id").alias("key"),
        F.when(F.col("id") % 10 > 0, F.concat(F.lit("value-"), "id")).alias("value"),
        F.when(
            F.col("id") % 3 == 0,
            F.array(F.struct(F.lit("h").alias("key"), F.encode(F.col("id").cast("string"), "utf-8").alias("value"))),
        ).alias("headers"),
        F.lit("of no interest").alias("note"),
    )
    written = write_topic(rows, servers, topic, options={"kafka.compression.type": "lz4"})
    assert written.records == 5_000
    assert sum(written.by_partition.values()) == 5_000
    assert {tp.topic for tp in written.by_partition} == {topic}
    df = read_topic(spark, topic, servers, include_headers=True, min_partitions=6)
    assert df.schema == spark_schema(headers=True)
    assert df.rdd.getNumPartitions() >= 6
    found = {int(bytes(row["key"])[4:]): row for row in df.collect()}
    assert sorted(found) == list(range(5_000))
    for number, row in found.items():
        assert row["value"] == (b"value-%d" % number if number % 10 else None)
        assert row["partition"] == partition_for_key(b"key-%d" % number, PARTITIONS)
        assert row["headers"] == ([("h", b"%d" % number)] if number % 3 == 0 else None)
        assert row["timestampType"] == 0
    places = {(row["partition"], row["offset"]) for row in found.values()}
    assert places == {(tp.partition, n) for tp, count in written.by_partition.items() for n in range(count)}


def test_topics_and_partitions_of_the_rows(spark: SparkSession, servers: str, admin: Admin, topic: str) -> None:
    other = f"{topic}-other"
    admin.create_topics([NewTopic(other, 1, 1)])
    await_topic(servers, other, 1)
    rows = spark.createDataFrame(
        [(topic, 2, "a"), (topic, 0, "b"), (other, 0, "c"), (topic, None, "d")],
        "topic string, partition int, value string",
    )
    written = write_topic(rows, servers)
    assert written.records == 4
    assert written.by_partition[TopicPartition(other, 0)] == 1
    assert written.by_partition[TopicPartition(topic, 2)] >= 1
    both = read_topic(spark, [topic, other], servers)
    assert {(r["topic"], bytes(r["value"])) for r in both.collect()} == {
        (topic, b"a"),
        (topic, b"b"),
        (other, b"c"),
        (topic, b"d"),
    }
    assert write_topic(rows.limit(0), servers).records == 0


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        ("key string", "t", "required attribute 'value' not found"),
        ("value int", "t", "value attribute unsupported type int"),
        ("value string, key array<string>", "t", "key attribute unsupported type array<string>"),
        ("value string, partition string", "t", "partition attribute unsupported type string"),
        ("value string, headers map<string,string>", "t", "headers attribute unsupported type map<string,string>"),
        ("value string", None, "topic option is required when no 'topic' attribute"),
        ("value string, topic int", None, "topic attribute unsupported type int"),
    ],
)
def test_columns_that_cannot_be_written_are_named(
    spark: SparkSession, servers: str, schema: str, given: str | None, said: str
) -> None:
    with pytest.raises(ColumnError) as failed:
        write_topic(spark.createDataFrame([], schema), servers, given)
    assert said in str(failed.value)


def test_missing_topics_are_named_and_never_made(spark: SparkSession, servers: str, admin: Admin, name: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=f"topic '{name}' does not exist"):
        read_topic(spark, name, servers)
    with pytest.raises(UnknownTopicOrPartitionError, match=f"topic '{name}' does not exist"):
        write_topic(spark.createDataFrame([("v",)], "value string"), servers, name)
    with pytest.raises(OptionError, match="bootstrap_servers"):
        read_topic(spark, name)
    assert name not in admin.list_topics()


def test_what_the_executors_meet_reaches_the_caller(spark: SparkSession, servers: str, topic: str) -> None:
    rows = spark.createDataFrame([(None, "v")], "topic string, value string")
    with pytest.raises(PythonException, match="null topic present in the data"):
        write_topic(rows, servers)
    rows = spark.createDataFrame([(9, "v")], "partition int, value string")
    with pytest.raises(PythonException, match=f"topic {topic} has no partition 9"):
        write_topic(rows, servers, topic)
    reading = Reading(servers, poll_timeout_ms=5000)
    with pytest.raises(PythonException, match="offsets 0 to 5 are wanted, but the log has 0 to 0"):
        ranges_dataframe(spark, [OffsetRange(topic, 0, 0, 5)], reading).collect()
    assert ranges_dataframe(spark, [], reading).collect() == []


def test_the_same_offsets_however_often_it_is_evaluated(spark: SparkSession, servers: str, topic: str) -> None:
    send(servers, topic, 30)
    df = read_topic(spark, topic, servers)
    before = values(df)
    assert len(before) == 30
    send(servers, topic, 30)
    assert values(df) == before
    assert len(values(read_topic(spark, topic, servers))) == 60


def test_bounds_by_offset_time_and_group(spark: SparkSession, servers: str, admin: Admin, topic: str) -> None:
    send(servers, topic, 100, partition=0, batch_size=200)
    by_offset = read_topic(
        spark, topic, servers, starting_offsets={topic: {"0": 10, "1": -2, "2": -2}}, ending_offsets="latest"
    )
    assert len(values(by_offset)) == 90
    tenth = datetime.datetime.fromtimestamp(1_700_000_010, datetime.UTC)
    options = {"startingOffsetsByTimestampStrategy": "latest"}
    by_time = read_topic(
        spark, topic, servers, starting_timestamp=tenth, ending_timestamp=1_700_000_020_000, options=options
    )
    assert values(by_time) == sorted(b"v%d" % n for n in range(10, 20))
    admin.alter_consumer_group_offsets(f"{topic}-group", {TopicPartition(topic, 0): OffsetAndMetadata(95)})
    assert len(values(read_topic(spark, topic, servers, group_id=f"{topic}-group"))) == 5
    admin.delete_records({TopicPartition(topic, 0): 50})
    with pytest.raises(DataLossError, match=f"{topic}-0: offsets 10 to 100 are wanted, but the log has 50 to 100"):
        read_topic(spark, topic, servers, starting_offsets={topic: {"0": 10, "1": -2, "2": -2}})
    assert len(values(read_topic(spark, topic, servers, fail_on_data_loss=False))) == 50
    with pytest.raises(PythonException, match="offsets 10 to 100 are wanted"):
        by_offset.collect()


def test_every_column_keeps_its_value_through_spark(spark: SparkSession, servers: str, topic: str) -> None:
    send(servers, topic, 3, partition=1)
    rows = read_topic(spark, topic, servers).withColumn("ms", F.unix_millis("timestamp")).orderBy("offset").collect()
    assert [(bytes(r["key"]), bytes(r["value"]), r["topic"], r["partition"], r["offset"], r["ms"]) for r in rows] == [
        (b"k%d" % n, b"v%d" % n, topic, 1, n, 1_700_000_000_000 + n * 1000) for n in range(3)
    ]
