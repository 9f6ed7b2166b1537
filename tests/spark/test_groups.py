"""Groups as DataFrames: where they stand, and their history out of `__consumer_offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from spark_bridge.groups import lag, offsets_history, summarise_groups
from tests.spark.support import await_topic, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def topic(servers: str, admin: Admin, topic_name: str) -> str:
    """Two partitions with 100 records in each."""
    admin.create_topics([NewTopic(topic_name, 2, 1)])
    await_topic(servers, topic_name, 2)
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in range(200):
            producer.send(topic_name, b"v", partition=number % 2)
    return topic_name


def test_lag_of_a_living_group_and_of_one_without_members(
    spark: SparkSession, servers: str, admin: Admin, topic: str, name: str
) -> None:
    alive, asleep = f"{name}-alive", f"{name}-asleep"
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_consumer_group_offsets(asleep, {first: OffsetAndMetadata(30)})
    with Consumer(topic, group_id=alive, bootstrap_servers=servers, client_id="c", auto_offset_reset="earliest") as one:
        wait_until(lambda: one.poll(100) is None or len(one.assignment()) == 2, what="an assignment")
        one.commit({first: OffsetAndMetadata(100), second: OffsetAndMetadata(60)})
        df = lag(spark, [alive, asleep], servers)
        rows = {(r["group"], r["partition"]): r for r in df.collect()}
        member = one.group_metadata().member_id
    assert df.columns == [
        *("group", "topic", "partition", "current_offset", "log_end_offset", "lag"),
        *("consumer_id", "host", "client_id", "group_instance_id", "state"),
    ]
    assert len(rows) == 3
    for partition, offset in ((0, 100), (1, 60)):
        row = rows[alive, partition]
        assert (row["topic"], row["current_offset"], row["log_end_offset"]) == (topic, offset, 100)
        assert (row["lag"], row["state"], row["consumer_id"], row["client_id"]) == (100 - offset, "Stable", member, "c")
    row = rows[asleep, 0]
    assert (row["current_offset"], row["lag"], row["state"], row["consumer_id"]) == (30, 70, "Empty", None)
    everyone = {r["group"] for r in lag(spark, bootstrap_servers=servers).select("group").collect()}
    assert everyone >= {alive, asleep}
    assert lag(spark, [], servers).collect() == []


def test_lag_of_a_deleted_topic_is_unknown(
    spark: SparkSession, servers: str, admin: Admin, topic: str, name: str
) -> None:
    """As long as the group has an offset there; when it has gone with its topic, there is no row any more."""
    kept = f"{topic}-kept"
    admin.create_topics([NewTopic(kept, 1, 1)])
    await_topic(servers, kept, 1)
    at = {TopicPartition(topic, 0): OffsetAndMetadata(3), TopicPartition(kept, 0): OffsetAndMetadata(0)}
    admin.alter_consumer_group_offsets(name, at)

    def rows() -> dict[str, tuple[int | None, ...]]:
        found = lag(spark, [name], servers).collect()
        assert {r["group"] for r in found} == {name}
        return {r["topic"]: (r["current_offset"], r["log_end_offset"], r["lag"]) for r in found}

    assert rows() == {topic: (3, 100, 97), kept: (0, 0, 0)}
    admin.delete_topics([topic])
    await_topic(servers, topic, 0)

    def gone() -> bool:
        found = rows()
        assert found.pop(kept) == (0, 0, 0)
        assert found in ({}, {topic: (3, None, None)})
        return not found

    wait_until(gone, what="the offset to go with its topic")


def test_history_and_its_summary(spark: SparkSession, servers: str, admin: Admin, topic: str, name: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for commit in ({first: 10}, {first: 40, second: 5}, {first: 25}, {first: 70}):
        admin.alter_consumer_group_offsets(name, {tp: OffsetAndMetadata(at, "note") for tp, at in commit.items()})
    admin.delete_consumer_group_offsets(name, [second])
    history = offsets_history(spark, servers, group_ids=[name])
    rows = history.orderBy("log_offset").collect()
    assert [(r["partition"], r["offset"], r["tombstone"]) for r in rows] == [
        (0, 10, False),
        *[(0, 40, False), (1, 5, False)],
        (0, 25, False),
        (0, 70, False),
        (1, None, True),
    ]
    assert {(r["group"], r["topic"]) for r in rows} == {(name, topic)}
    assert {r["metadata"] for r in rows if not r["tombstone"]} == {"note"}
    assert all(r["timestamp"] is not None and r["log_timestamp"] is not None for r in rows)
    assert len({r["log_partition"] for r in rows}) == 1
    (row,) = summarise_groups(spark, servers, group_ids=[name]).collect()
    assert (row["group"], row["topic"], row["partitions"]) == (name, topic, 2)
    assert (row["commits"], row["tombstones"], row["rewinds"]) == (5, 1, 1)
    assert row["progress"] == 30 + 45
    assert row["seconds"] == pytest.approx((row["last_commit"] - row["first_commit"]).total_seconds())
    stretches = summarise_groups(spark, servers, group_ids=[name], interval="1 hour").collect()
    assert sum(r["progress"] for r in stretches) == 75
    assert all(r["until"] > r["from"] for r in stretches)
    assert offsets_history(spark, servers, group_ids=[f"{name}-nobody"]).count() == 0
