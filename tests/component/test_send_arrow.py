"""`Producer.send_arrow` against a broker that does what the test says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from actors.client import TopicPartition
from actors.client.errors import (
    BufferExhaustedError,
    ClosedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    SerializationError,
)
from actors.records.batch import iter_batches
from actors.wire import messages as m
from placement.hashing import partition_for_key
from tests.support.client_broker import DROP, SILENCE, ScriptedBroker
from tests.support.producing import known_partitions, producer
from tests.support.read_records import read_records


@pytest.fixture
def kafka(kafka: ScriptedBroker) -> ScriptedBroker:
    kafka.topic("t", 3)
    return kafka


def records(kafka: ScriptedBroker, partition: int) -> list[Any]:
    return list(read_records(bytes(kafka.logs[TopicPartition("t", partition)]), verify_crc=True))


def everything(kafka: ScriptedBroker) -> dict[int, list[bytes | None]]:
    return {n: [r.value for r in records(kafka, n)] for n in range(3)}


def rows(count: int, size: int = 20, **columns: Any) -> pa.RecordBatch:
    values = [(b"%08d" % n).ljust(size, b".") for n in range(count)]
    return pa.RecordBatch.from_pydict({"value": pa.array(values), **columns})


def test_rows_arrive_and_the_futures_say_where(kafka):
    keys = pa.array([b"k%d" % n for n in range(500)])
    with producer(kafka, batch_size=2_000) as writer:
        futures = writer.send_arrow("t", rows(500, key=keys))
        places = [future.get(60) for future in futures]
    assert sum(place.record_count for place in places) == 500 == sum(future.count for future in futures)
    assert all(future.is_done and future.exception is None for future in futures)
    for place in places:
        found = records(kafka, place.partition)[place.base_offset : place.base_offset + place.record_count]
        assert len(found) == place.record_count
        assert all(partition_for_key(r.key, 3) == place.partition for r in found)
    everyone = sorted(value for values in everything(kafka).values() for value in values)
    assert everyone == rows(500).column("value").to_pylist()
    assert all(values == sorted(values) for values in everything(kafka).values())


def test_batches_are_no_larger_than_asked(kafka):
    with producer(kafka, batch_size=3_000) as writer:
        writer.send_arrow("t", rows(1000, 100), partition=1)
    sizes = [end - start for start, end, _ in iter_batches(bytes(kafka.logs[TopicPartition("t", 1)]))]
    assert max(sizes) <= 3_000
    assert len(sizes) < 50


def test_a_large_row_goes_alone(kafka):
    values = pa.array([b"small", b"x" * 5_000, b"small"])
    with producer(kafka, batch_size=1_000) as writer:
        futures = writer.send_arrow("t", pa.RecordBatch.from_pydict({"value": values}), partition=0)
    assert [future.count for future in futures] == [1, 1, 1]
    assert [r.value for r in records(kafka, 0)] == values.to_pylist()


def test_rows_without_a_key_stay_together_and_move_on_with_each_batch(kafka):
    with producer(kafka, batch_size=4_000) as writer:
        places = [future.get(60) for future in writer.send_arrow("t", rows(1000, 100))]
    assert len({place.partition for place in places}) > 1
    assert 20 <= len(places) <= 50
    with producer(kafka, batch_size=4_000) as writer:
        small = [writer.send_arrow("t", rows(5, 100))[0].get(60).partition for _ in range(20)]
    assert sum(a != b for a, b in pairwise(small)) <= 4


def test_partitions_asked_for_go_before_keys(kafka):
    keys = pa.array([b"a", b"b", None, b"d"])
    asked = pa.array([2, None, 0, None], pa.int32())
    with producer(kafka) as writer:
        writer.send_arrow("t", rows(4, key=keys, partition=asked))
    assert b"00000000" in [v[:8] for v in everything(kafka)[2]]
    assert b"00000002" in [v[:8] for v in everything(kafka)[0]]
    for n, key in ((1, b"b"), (3, b"d")):
        assert b"%08d" % n in [v[:8] for v in everything(kafka)[partition_for_key(key, 3)]]


@pytest.mark.parametrize("asked", [7, -1])
def test_a_partition_that_does_not_exist_is_an_error(kafka, asked):
    with producer(kafka) as writer:
        with pytest.raises(IllegalStateError, match=f"no partition {asked}"):
            writer.send_arrow("t", rows(1), partition=asked)
        with pytest.raises(IllegalStateError, match=f"no partition {asked}"):
            writer.send_arrow("t", rows(2, partition=pa.array([0, asked])))
    assert everything(kafka) == {0: [], 1: [], 2: []}


def test_headers_times_and_nulls_arrive(kafka):
    headers = pa.array(
        [[("h", b"1"), ("n", None)], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([None, "text"]),
            "headers": headers,
            "timestamp": pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
            "of no interest": pa.array([1, 2]),
        }
    )
    with producer(kafka) as writer:
        writer.send_arrow("t", batch, partition=0, timestamp_ms=42)
    first, second = records(kafka, 0)
    assert (first.value, first.headers, first.timestamp) == (None, [("h", b"1"), ("n", None)], 1_700_000_000_123)
    assert (second.value, second.headers, second.timestamp) == (b"text", [], 42)


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_can_be_read_back(kafka, compression):
    with producer(kafka, compression_type=compression) as writer:
        writer.send_arrow("t", rows(300, 200), partition=0)
    assert everything(kafka)[0] == rows(300, 200).column("value").to_pylist()
    if compression:
        assert len(kafka.logs[TopicPartition("t", 0)]) < 30_000


@pytest.mark.parametrize("acks", [0, 1])
def test_without_idempotence_batches_are_whole_too(kafka, acks):
    with producer(kafka, acks=acks, batch_size=1_000) as writer:
        futures = writer.send_arrow("t", rows(100, 50), partition=0)
        places = [future.get(60) for future in futures]
    assert [place.base_offset for place in places] == (
        [-1] * len(places) if acks == 0 else sorted({p.base_offset for p in places})
    )
    deadline = time.monotonic() + 60
    while len(found := everything(kafka)[0]) < 100:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert found == rows(100, 50).column("value").to_pylist()


def test_a_table_is_sent_chunk_by_chunk(kafka):
    with producer(kafka) as writer:
        futures = writer.send_arrow("t", pa.Table.from_batches([rows(3), rows(3).slice(0, 0), rows(4)]), partition=0)
        assert writer.send_arrow("t", rows(0)) == []
    assert sum(future.count for future in futures) == 7


def test_order_holds_between_send_and_send_arrow(kafka):
    with producer(kafka, linger_ms=50) as writer:
        for n in range(5):
            writer.send("t", b"one %d" % n, partition=0)
            writer.send_arrow("t", pa.RecordBatch.from_pydict({"value": [b"many %d" % n]}), partition=0)
    assert everything(kafka)[0] == [b"%s %d" % (what, n) for n in range(5) for what in (b"one", b"many")]


def test_a_custom_partitioner_is_asked(kafka):
    with producer(kafka, partitioner=lambda key, everything, live: int(key)) as writer:
        writer.send_arrow("t", rows(3, key=pa.array([b"2", b"0", b"2"])))
    assert {n: len(values) for n, values in everything(kafka).items()} == {0: 1, 1: 0, 2: 2}


def test_repeats_write_nothing_twice_and_keep_the_order(kafka):
    kafka.script(m.ProduceRequest, None, DROP, None, failed(6), DROP)
    with producer(kafka, batch_size=1_000) as writer:
        futures = writer.send_arrow("t", rows(500, 50), partition=0)
        offsets = [future.get(60).base_offset for future in futures]
    assert offsets == sorted(offsets)
    assert everything(kafka)[0] == rows(500, 50).column("value").to_pylist()
    assert writer.metrics()["retries"] > 0


def test_the_first_batch_of_all_is_not_overtaken_when_it_is_sent_again(kafka):
    kafka.script(m.ProduceRequest, failed(6))
    with producer(kafka, batch_size=1_000) as writer:
        futures = writer.send_arrow("t", rows(500, 50), partition=0)
        offsets = [future.get(60).base_offset for future in futures]
    assert offsets == sorted(offsets)
    assert everything(kafka)[0] == rows(500, 50).column("value").to_pylist()


def failed(code: int) -> Callable[[Any], Any]:
    def make(request: Any) -> Any:
        part = m.ProduceResponse
        return part(
            responses=[
                part.TopicProduceResponse(
                    name=t.name,
                    partition_responses=[
                        part.PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1)
                        for p in t.partition_data
                    ],
                )
                for t in request.topic_data
            ]
        )

    return make


def test_what_a_broker_refuses_is_the_futures_error(kafka):
    kafka.script(m.ProduceRequest, failed(87))
    with producer(kafka) as writer:
        (future,) = writer.send_arrow("t", rows(3), partition=0)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            future.get(60)
        assert isinstance(future.exception, KafkaError)


def test_not_delivered_in_time_is_the_futures_error(kafka):
    kafka.script(m.ProduceRequest, *[SILENCE] * 20)
    settings = {"delivery_timeout_ms": 400, "request_timeout_ms": 300}
    with producer(kafka, **settings) as writer:
        (future,) = writer.send_arrow("t", rows(3), partition=0)
        with pytest.raises(KafkaError, match=r"delivery_timeout_ms=400|within 300 ms"):
            future.get(60)


def test_a_full_buffer_is_waited_for_and_then_an_error(kafka):
    opened = threading.Event()

    def held(request: Any) -> None:
        opened.wait(60)

    kafka.script(m.ProduceRequest, held)
    with producer(kafka, buffer_memory=20_000, batch_size=4_000, max_block_ms=3_000) as writer:
        assert known_partitions(writer, "t") == {0, 1, 2}
        with pytest.raises(BufferExhaustedError, match="buffer_memory=20000"):
            writer.send_arrow("t", rows(1000, 100), partition=0)
        assert writer.metrics()["buffered_bytes"] <= 20_000
        opened.set()
        writer.flush(60)
        sent = everything(kafka)[0]
        assert sent == rows(1000, 100).column("value").to_pylist()[: len(sent)]
        assert sum(f.count for f in writer.send_arrow("t", rows(1000, 100), partition=0)) == 1000
    assert len(everything(kafka)[0]) == len(sent) + 1000


def test_a_row_larger_than_a_request_is_refused_before_anything_is_sent(kafka):
    values = pa.array([b"small", b"x" * 20_000])
    with producer(kafka, max_request_size=10_000) as writer:
        with pytest.raises(MessageTooLargeError, match=r"row 1 .*max_request_size=10000"):
            writer.send_arrow("t", pa.RecordBatch.from_pydict({"value": values}))
    assert everything(kafka) == {0: [], 1: [], 2: []}


def test_requests_are_no_larger_than_asked(kafka):
    with producer(kafka, max_request_size=10_000, batch_size=4_000) as writer:
        writer.send_arrow("t", rows(2000, 100, key=pa.array([b"%d" % n for n in range(2000)])))
    for request in kafka.requests(m.ProduceRequest):
        assert sum(len(p.records) for t in request.topic_data for p in t.partition_data) <= 10_000


def test_other_errors_come_at_once(kafka):
    with producer(kafka, max_block_ms=200) as writer:
        assert known_partitions(writer, "t") == {0, 1, 2}
        with pytest.raises(SerializationError, match="'partition' is string"):
            writer.send_arrow("t", rows(1, partition=pa.array(["0"])))
        with pytest.raises(KafkaTimeoutError, match="'unknown' was not found"):
            writer.send_arrow("unknown", rows(1))
    with pytest.raises(ClosedError):
        writer.send_arrow("t", rows(1))
