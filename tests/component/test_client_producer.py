"""`Producer` against a broker that does what the test says."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from actors.client import Producer, TopicPartition
from actors.client.errors import (
    BufferExhaustedError,
    ClosedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    SerializationError,
)
from actors.records.batch import iter_batches
from actors.wire import messages as m
from placement.hashing import partition_for_key
from tests.support.client_broker import DROP, SILENCE, ScriptedBroker
from tests.support.producing import T0, known_partitions, producer
from tests.support.read_records import read_records


@pytest.fixture
def kafka(kafka: ScriptedBroker) -> ScriptedBroker:
    kafka.topic("t", 3)
    return kafka


def values(kafka: ScriptedBroker, partition: int = 0) -> list[bytes | None]:
    return [r.value for r in read_records(bytes(kafka.logs[TopicPartition("t", partition)]))]


def answered(code: int) -> Callable[[Any], Any]:
    """A Produce answer with this error for everything asked."""

    def make(request: Any) -> Any:
        part = m.ProduceResponse
        topics = [
            part.TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    part.PartitionProduceResponse(index=p.index, error_code=code, base_offset=-1)
                    for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return part(responses=topics)

    return make


def test_a_record_arrives_and_its_future_knows_where(kafka):
    with producer(kafka) as writer:
        future = writer.send("t", b"v", key=b"k", headers=[("h", b"1")], partition=1, timestamp_ms=1_700_000_000_123)
        place = future.get(60)
        assert (place.topic, place.partition, place.offset) == ("t", 1, 0)
        assert (place.timestamp, place.serialized_key_size, place.serialized_value_size) == (1_700_000_000_123, 1, 1)
        assert future.succeeded()
        assert writer.send("t", None, partition=1).get(60).offset == 1
    (first, second) = read_records(bytes(kafka.logs[TopicPartition("t", 1)]))
    assert (first.key, first.value, first.headers, first.timestamp) == (b"k", b"v", [("h", b"1")], 1_700_000_000_123)
    assert second.value is None


def test_a_plain_producer_joins_no_group(kafka):
    with producer(kafka) as writer:
        writer.send("t", b"v").get(60)
    groups = (m.JoinGroupRequest, m.HeartbeatRequest, m.FindCoordinatorRequest)
    assert kafka.order(*groups) == []


def test_keys_go_where_kafkas_partitioner_sends_them(kafka):
    with producer(kafka) as writer:
        for n in range(50):
            key = b"key-%d" % n
            assert writer.send("t", b"v", key=key).get(60).partition == partition_for_key(key, 3)


def test_records_without_a_key_stay_together_and_move_on_with_each_batch(kafka):
    with producer(kafka, batch_size=2_000, linger_ms=60_000) as writer:
        futures = [writer.send("t", b"x" * 100) for _ in range(200)]
        writer.flush(60)
        places = [future.get(60) for future in futures]
    changes = sum(a.partition != b.partition for a, b in pairwise(places))
    assert 5 <= changes <= 30
    assert len({place.partition for place in places}) > 1


@pytest.mark.parametrize("compression", [None, "none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_can_be_read_back(kafka, compression):
    kafka.versions[m.ProduceRequest] = (3, 9)
    with producer(kafka, compression_type=compression, linger_ms=20) as writer:
        for n in range(200):
            writer.send("t", b"value %d" % n, partition=0)
    assert values(kafka) == [b"value %d" % n for n in range(200)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(kafka, acks):
    with producer(kafka, acks=acks) as writer:
        place = writer.send("t", b"v", partition=0).get(60)
        assert place.offset == (-1 if acks == 0 else 0)
    arrive(lambda: len(kafka.requests(m.ProduceRequest)) == 1)
    assert kafka.requests(m.ProduceRequest)[0].acks == {0: 0, 1: 1, "all": -1}[acks]


def arrive(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sequences_count_records_and_start_at_zero_in_each_partition(kafka):
    with producer(kafka) as writer:
        for size in (3, 2):
            futures = [writer.send("t", b"x", partition=0) for _ in range(size)]
            writer.flush(60)
            assert all(f.succeeded() for f in futures)
        writer.send("t", b"x", partition=1).get(60)
    headers = [header for _, _, header in iter_batches(bytes(kafka.logs[T0]))]
    assert sum(h.record_count for h in headers) == 5
    assert headers[0].base_sequence == 0
    for before, after in pairwise(headers):
        assert after.base_sequence == before.base_sequence + before.record_count
    assert {h.producer_id for h in headers} == {42}


@pytest.mark.parametrize("trouble", [answered(6), answered(7), answered(19), DROP], ids=["6", "7", "19", "drop"])
def test_what_may_pass_is_tried_again_with_the_same_sequence(kafka, trouble):
    kafka.script(m.ProduceRequest, trouble)
    with producer(kafka) as writer:
        assert writer.send("t", b"v", partition=0).get(60).offset == 0
        assert writer.metrics()["retries"] >= 1
    sent = [b for r in kafka.requests(m.ProduceRequest) for b in r.topic_data[0].partition_data]
    assert len(sent) == 2
    assert sent[0].records == sent[1].records


@pytest.mark.parametrize("idempotent", [True, False])
def test_the_order_stays_when_a_batch_fails_while_later_ones_are_on_their_way(kafka, idempotent):
    # The broker refuses with 45 what comes after a numbered batch that it does not have.
    kafka.script(m.ProduceRequest, None, answered(6), None, None, DROP, None, answered(19))
    with producer(kafka, enable_idempotence=idempotent, batch_size=150, linger_ms=1) as writer:
        futures = [writer.send("t", b"%03d" % n + b"." * 100, partition=0) for n in range(40)]
        writer.flush(60)
        assert all(f.succeeded() for f in futures)
    assert [value[:3] for value in values(kafka) if value] == [b"%03d" % n for n in range(40)]


def test_a_duplicate_counts_as_delivered(kafka):
    kafka.script(m.ProduceRequest, answered(46))
    with producer(kafka) as writer:
        assert writer.send("t", b"v", partition=0).get(60).offset == -1


def test_what_cannot_pass_is_raised_and_the_next_records_get_a_new_identity(kafka):
    kafka.script(m.ProduceRequest, answered(10))
    with producer(kafka) as writer:
        with pytest.raises(MessageTooLargeError, match="max_request_size"):
            writer.send("t", b"v", partition=0).get(60)
        assert writer.send("t", b"w", partition=0).get(60).offset == 0
    (header,) = (header for _, _, header in iter_batches(bytes(kafka.logs[T0])))
    assert (header.producer_id, header.base_sequence) == (43, 0)


def test_a_lost_batch_shows_as_out_of_order(kafka):
    kafka.script(m.ProduceRequest, answered(45))
    with producer(kafka) as writer:
        with pytest.raises(OutOfOrderSequenceNumberError, match="lost"):
            writer.send("t", b"v", partition=0).get(60)


def test_an_unknown_producer_id_is_replaced_and_the_batch_sent_again(kafka):
    kafka.script(m.ProduceRequest, answered(59))
    with producer(kafka) as writer:
        assert writer.send("t", b"v", partition=0).get(60).offset == 0
    ((_, _, header),) = iter_batches(bytes(kafka.logs[T0]))
    assert (header.producer_id, header.base_sequence) == (43, 0)


def test_delivery_is_given_up_after_its_timeout(kafka):
    kafka.script(m.ProduceRequest, *[answered(6)] * 1000)
    settings = {"delivery_timeout_ms": 300, "request_timeout_ms": 100}
    with producer(kafka, **settings) as writer:
        with pytest.raises(KafkaError):
            writer.send("t", b"v", partition=0).get(60)


def test_a_topic_that_never_appears_is_named(kafka):
    with producer(kafka, max_block_ms=200) as writer:
        with pytest.raises(KafkaTimeoutError, match=r"'nowhere'.*max_block_ms"):
            writer.send("nowhere", b"v")


def send_many(writer: Producer) -> None:
    for _ in range(100):
        writer.send("t", b"x" * 500, partition=0)


def test_a_full_buffer_waits_and_then_says_so(kafka):
    kafka.script(m.ProduceRequest, *[SILENCE] * 100)
    writer = producer(kafka, buffer_memory=4_000, max_block_ms=300)
    assert known_partitions(writer, "t") == {0, 1, 2}
    with pytest.raises(BufferExhaustedError, match="buffer_memory=4000"):
        send_many(writer)
    with pytest.raises(KafkaTimeoutError):
        writer.close(timeout=0.1)


def test_errors_of_the_caller(kafka):
    writer = producer(kafka, max_request_size=1_000)
    with pytest.raises(SerializationError, match="value_serializer"):
        writer.send("t", "text")
    with pytest.raises(IllegalStateError, match="no partition 9"):
        writer.send("t", b"v", partition=9)
    with pytest.raises(MessageTooLargeError, match="max_request_size=1000"):
        writer.send("t", b"x" * 1_000)
    writer.close()
    with pytest.raises(ClosedError):
        writer.send("t", b"v")


def test_serializers_and_callbacks(kafka):
    results: list[Any] = []
    with producer(kafka, value_serializer=str.encode, key_serializer=lambda n: b"%d" % n) as writer:
        writer.send("t", "v", key=5, partition=0).add_callback(results.append).get(60)
        kafka.script(m.ProduceRequest, answered(87))
        failing = writer.send("t", "w", partition=0).add_errback(results.append)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            failing.get(60)
    assert results[0].offset == 0
    assert "INVALID_RECORD" in str(results[1])
    assert writer.metrics()["buffered_bytes"] == 0


def test_closing_delivers_what_was_sent(kafka):
    writer = producer(kafka, linger_ms=60_000, delivery_timeout_ms=200_000)
    future = writer.send("t", b"v", partition=0)
    writer.close(60)
    assert future.get(0).offset == 0
