"""`RangeReader` and `Producer.send_arrow` against real brokers, with librdkafka on the other side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.client import Admin, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import DataLossError
from actors.client.records import OffsetRange
from tests.compat import peers
from tests.compat.peers import Peer
from tests.compat.processes import end_family
from tests.compat.raw import await_topics
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

everywhere = against("kfake", "kafka", "coterie")
COUNT = 3_000


def make(kafka: Peer, name: str, partitions: int = 4, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
    await_topics(kafka.bootstrap_servers, {name: partitions})


def ends(kafka: Peer, name: str, partitions: int = 4, at: str = "latest") -> dict[int, int]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        found = admin.list_offsets({TopicPartition(name, n): at for n in range(partitions)})
    return {tp.partition: offset.offset for tp, offset in found.items() if offset is not None}


def arrow(start: int = 0, count: int = COUNT) -> pa.RecordBatch:
    numbers = range(start, start + count)
    headers = [[("n", b"%d" % n), ("none", None)] if n % 7 == 0 else None for n in numbers]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "key": pa.array([b"key-%d" % n for n in numbers]),
        "value": pa.array([None if n % 11 == 0 else b"%06d " % n + b"abcd" * (n % 40) for n in numbers], pa.binary()),
        "headers": pa.array(headers, kind),
        "timestamp": pa.array([1_700_000_000_000 + n for n in numbers], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def write(kafka: Peer, topic: str, batch: pa.RecordBatch, **settings: Any) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        futures = producer.send_arrow(topic, batch)
        assert sum(future.get(30).record_count for future in futures) == batch.num_rows


def read(kafka: Peer, ranges: list[OffsetRange], **settings: Any) -> list[dict[str, Any]]:
    with RangeReader(kafka.bootstrap_servers, headers=True, **settings) as reader:
        return [row for batch in reader.read(ranges) for row in batch.to_pylist()]


def consumed(kafka: Peer, topic: str, count: int) -> Iterator[Any]:
    """The records that librdkafka reads from the beginning."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic})
    beginning = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, n, beginning) for n in range(4)])
    try:
        found: list[Any] = []
        wait_until(lambda: found.extend(consumer.consume(10_000, 0.5)) or len(found) >= count, what="all records")
        return iter(found)
    finally:
        consumer.close()


@everywhere
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_arrow_sends_everybody_reads(kafka: Peer, name: str, compression: str | None) -> None:
    make(kafka, name)
    batch = arrow()
    write(kafka, name, batch, batch_size=20_000, compression_type=compression)
    theirs = [(m.key(), m.value(), m.headers() or [], m.timestamp()[1]) for m in consumed(kafka, name, COUNT)]
    assert sorted(theirs, key=lambda row: row[3]) == expected_rows(batch)


def expected_rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [
        (row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or []], row["timestamp"])
        for row in batch.to_pylist()
    ]


@everywhere
def test_ranges_of_what_librdkafka_wrote(kafka: Peer, name: str) -> None:
    import confluent_kafka

    make(kafka, name)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": "snappy", "partitioner": "murmur2_random"}
    )
    written: dict[tuple[int, int], Any] = {}

    def remember(error: Any, message: Any) -> None:
        assert error is None
        written[message.partition(), message.offset()] = (message.key(), message.value(), message.timestamp()[1])

    for row in arrow().to_pylist():
        headers = [(h["key"], h["value"]) for h in row["headers"] or []]
        producer.produce(name, row["value"], row["key"], timestamp=row["timestamp"], headers=headers, callback=remember)
    assert producer.flush(30) == 0
    cut = [OffsetRange(name, n, 3, end - 5) for n, end in ends(kafka, name).items()]
    found = read(kafka, cut, max_partition_fetch_bytes=10_000)
    assert len(found) == sum(each.size for each in cut)
    for row in found:
        stamp = round(row["timestamp"].timestamp() * 1000)
        assert written[row["partition"], row["offset"]] == (row["key"], row["value"], stamp)
        assert row["topic"] == name
        assert row["timestampType"] == 0
        number = int(row["key"][4:])
        assert (row["headers"] or []) == (
            [{"key": "n", "value": b"%d" % number}, {"key": "none", "value": None}] if number % 7 == 0 else []
        )


@everywhere
def test_keys_go_where_librdkafkas_murmur2_sends_them(kafka: Peer, name: str) -> None:
    import confluent_kafka

    make(kafka, name)
    write(kafka, name, arrow())
    ours = {row["key"]: row["partition"] for row in read(kafka, [OffsetRange(name, *e) for e in spans(kafka, name)])}
    make(kafka, f"{name}-theirs")
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    theirs: dict[bytes, int] = {}
    for key in ours:
        producer.produce(f"{name}-theirs", b"", key, callback=lambda _, m: theirs.update({m.key(): m.partition()}))
    assert producer.flush(30) == 0
    assert ours == theirs
    assert len(ours) == COUNT


def spans(kafka: Peer, name: str) -> list[tuple[int, int, int]]:
    return [(n, 0, end) for n, end in ends(kafka, name).items()]


@against("kafka", "coterie")
def test_log_append_time_is_the_brokers(kafka: Peer, name: str) -> None:
    make(kafka, name, 1, message_timestamp_type="LogAppendTime")
    write(kafka, name, arrow(count=50))
    rows = read(kafka, [OffsetRange(name, 0, 10, 40)])
    assert len(rows) == 30
    assert {row["timestampType"] for row in rows} == {1}
    assert min(row["timestamp"].timestamp() for row in rows) > 1_750_000_000


@everywhere
def test_records_that_were_deleted_are_told_with_both_offsets(kafka: Peer, name: str) -> None:
    make(kafka, name, 1)
    write(kafka, name, arrow(count=100))
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(name, 0): 40})
    wanted = [OffsetRange(name, 0, 10, 60)]
    with pytest.raises(DataLossError, match=f"{name}-0: offsets 10 to 60 are wanted, but the log has 40 to 100"):
        read(kafka, wanted)
    assert [row["offset"] for row in read(kafka, wanted, fail_on_data_loss=False)] == list(range(40, 60))
    with pytest.raises(DataLossError, match="the log has 40 to 100"):
        read(kafka, [OffsetRange(name, 0, 90, 120)], request_timeout_ms=4_000)  # half of it is waited for more records


@against("kafka")
def test_aborted_transactions_are_left_out(kafka: Peer, name: str) -> None:
    import confluent_kafka

    make(kafka, name, 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(name, b"%d-%d" % (number, n))
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    end = 6 * 11  # with the last one's marker, which is written after its answer
    wait_until(lambda: ends(kafka, name, 1)[0] >= end, what="the last marker")
    assert ends(kafka, name, 1)[0] == end
    found = read(kafka, [OffsetRange(name, 0, 0, end)], isolation_level="read_committed")
    assert [row["value"] for row in found] == [b"%d-%d" % (number, n) for number in (0, 2, 4) for n in range(10)]
    assert len(read(kafka, [OffsetRange(name, 0, 0, end)])) == 60


def test_a_range_survives_a_restart_of_all_brokers(tmp_path: Path) -> None:
    """Also while nothing is reading: the next fetch finds the broker gone, and then back."""
    (port,) = peers.free_ports(1)
    with peers.coterie(tmp_path, brokers=1, port=port) as cluster, ThreadPoolExecutor(1) as beside:
        kafka = cluster.peer()
        make(kafka, "t", 1)
        write(kafka, "t", arrow(), batch_size=2_000)
        with RangeReader(kafka.bootstrap_servers, max_partition_fetch_bytes=4_000) as reader:
            batches = reader.read([OffsetRange("t", 0, 0, COUNT)])
            found = [*next(batches).column("offset").to_pylist()]
            end_family(cluster.kill())
            rest = beside.submit(lambda: [each for batch in batches for each in batch.column("offset").to_pylist()])
            cluster.start()
            assert len(found) < COUNT
            assert found + rest.result() == list(range(COUNT))


def test_what_compaction_left_is_read_and_every_range_ends(tmp_path: Path) -> None:
    quick = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
    with peers.coterie(tmp_path, brokers=1, config=quick) as cluster:
        kafka = cluster.peer()
        make(kafka, "t", 1, cleanup_policy="compact", internal_segment_bytes="2000")
        keys = pa.array([b"key-%d" % (n % 5) for n in range(1000)])
        batch = pa.RecordBatch.from_pydict({"key": keys, "value": pa.array([b"%04d" % n for n in range(1000)])})
        write(kafka, "t", batch, batch_size=500)
        everything = [OffsetRange("t", 0, 0, 1000)]
        rows = wait_until(lambda: len(found := read(kafka, everything)) < 500 and found, what="compaction")
        offsets = [row["offset"] for row in rows]
        assert offsets == sorted(set(offsets))
        assert [row["value"] for row in rows] == [b"%04d" % offset for offset in offsets]
        assert {row["key"]: row["offset"] for row in rows} == {b"key-%d" % n: 995 + n for n in range(5)}
        parts = [OffsetRange("t", 0, start, start + 7) for start in range(0, 1000, 7) if start + 7 <= 1000]
        found = [row["offset"] for row in read(kafka, parts)]
        # Compaction may have gone on meanwhile: nothing new, nothing out of place, and the newest of all.
        assert set(found) <= set(offsets)
        assert found == sorted(found)
