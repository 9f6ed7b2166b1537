"""`__consumer_offsets` decoded as Spark's tasks decode it, of Apache Kafka and of Coterie; without a JVM of Spark's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from actors.client import Admin, OffsetAndMetadata, TopicPartition
from actors.client.admin.types import NewTopic
from spark_bridge.groups import OFFSETS_TOPIC, ReadOffsets
from spark_bridge.options import source_options
from spark_bridge.read import planned
from tests.compat.peers import Peer
from tests.compat.raw import await_topics
from tests.compat.support import against, wait_until


def history(kafka: Peer, group: str) -> list[dict[str, Any]]:
    options = {
        "subscribe": OFFSETS_TOPIC,
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
    }
    ranges, reading = planned(source_options(options, streaming=False))
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(len(ranges)), pa.int64())})
    task = ReadOffsets(ranges, reading, frozenset({group}))
    rows = [row for batch in task([numbers]) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["log_offset"])


@against("kafka", "coterie")
def test_commits_and_deletions_are_found(kafka: Peer, name: str) -> None:
    topic = f"{name}-topic"
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
        await_topics(kafka.bootstrap_servers, {topic: 2})
        for at in (5, 3):
            offsets = {TopicPartition(topic, n): OffsetAndMetadata(at + n, "note") for n in range(2)}
            admin.alter_consumer_group_offsets(name, offsets)
        admin.delete_consumer_group_offsets(name, [TopicPartition(topic, 1)])
    rows = wait_until(lambda: len(found := history(kafka, name)) == 5 and found, what="all records")
    assert {(row["group"], row["topic"]) for row in rows} == {(name, topic)}
    assert [row["offset"] for row in rows if row["partition"] == 0] == [5, 3]
    assert [(row["offset"], row["tombstone"]) for row in rows if row["partition"] == 1] == [
        (6, False),
        (4, False),
        (None, True),
    ]
    assert {row["metadata"] for row in rows} == {"note", None}
    assert len({row["log_partition"] for row in rows}) == 1
    assert all(row["timestamp"].timestamp() > 1_750_000_000 for row in rows)
