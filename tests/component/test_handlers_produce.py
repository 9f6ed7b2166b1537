"""Produce: what is appended, what is refused, and that a refused partition costs the others nothing."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from actors.records.building import build_batch
from actors.wire.errors import ErrorCode
from actors.wire.messages import InitProducerIdRequest, ProduceRequest
from placement.metadata import OFFSETS_TOPIC
from tests.support.bad_batches import BAD_BATCHES
from tests.support.handler_helpers import Broker, answer_to_a_bug, led_by
from tests.support.log_helpers import values
from tests.support.raw_batches import CODECS
from tests.support.read_records import read_records

VERSIONS = range(3, 14)


def request(broker: Broker, *parts: tuple[str, int, bytes | None], acks: int = -1, **fields: Any) -> ProduceRequest:
    topics: dict[str, list[Any]] = {}
    for topic, index, records in parts:
        topics.setdefault(topic, []).append(ProduceRequest.PartitionProduceData(index=index, records=records))
    data = []
    for topic, partitions in topics.items():
        known = broker.metadata.topics.get(topic)
        topic_id = known.id if known else b"?" * 16
        data.append(ProduceRequest.TopicProduceData(name=topic, topic_id=topic_id, partition_data=partitions))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data, **fields)


def results(response: Any) -> list[Any]:
    return [part for topic in response.responses for part in topic.partition_responses]


def codes(response: Any) -> list[int]:
    return [part.error_code for part in results(response)]


def content(broker: Broker, topic: str, index: int = 0) -> list[bytes | None]:
    return [record.value for record in read_records(broker.data_dir.logs[topic, index].read(0, 1 << 20))]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_batches_are_appended_and_answered_with_their_offsets(tmp_path: Path, version: int, acks: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    first = broker.ask(request(broker, ("t", 0, values(b"a", b"b")), ("t", 1, values(b"c")), acks=acks), version)
    second = broker.ask(request(broker, ("t", 0, values(b"d")), acks=acks), version)
    assert codes(first) == [0, 0]
    assert [part.base_offset for part in results(first)] == [0, 0]
    assert [part.base_offset for part in results(second)] == [2]
    assert results(second)[0].log_append_time_ms == -1
    assert content(broker, "t") == [b"a", b"b", b"d"]
    assert content(broker, "t", 1) == [b"c"]


def test_with_acks_0_nothing_is_answered(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    assert broker.send(request(broker, ("t", 0, values(b"a")), acks=0), 9).slot is None
    assert content(broker, "t") == [b"a"]
    assert broker.connection.transport.written == []
    assert not broker.connection.transport.aborted


def test_a_failure_with_acks_0_closes_the_connection(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.send(request(broker, ("gone", 0, values(b"a")), acks=0), 9)
    assert broker.connection.transport.aborted


@pytest.mark.parametrize("version", VERSIONS)
def test_other_acks_are_refused(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    assert codes(broker.ask(request(broker, ("t", 0, values(b"a")), acks=2), version)) == [21]
    assert ("t", 0) not in broker.data_dir.logs


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_wrong_with_one_partition_costs_the_others_nothing(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0), led_by(1), led_by(0), led_by(0))
    damaged = bytearray(values(b"x"))
    damaged[-1] ^= 1
    message = request(
        broker,
        ("t", 0, values(b"a")),
        ("t", 1, values(b"b")),
        ("t", 2, bytes(damaged)),
        ("t", 3, values(b"c")),
        ("t", 9, values(b"d")),
        ("unknown", 0, values(b"e")),
    )
    response = broker.ask(message, version)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == [
        0,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CORRUPT_MESSAGE,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        missing,
    ]
    assert [part.base_offset for part in results(response)] == [0, -1, -1, 0, -1, -1]
    assert (content(broker, "t"), content(broker, "t", 3)) == ([b"a"], [b"c"])
    if version >= 8:
        assert "checksum" in results(response)[2].error_message


def test_a_producer_at_the_wrong_broker_is_told_the_leader(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(1, epoch=3))
    response = broker.ask(request(broker, ("t", 0, values(b"a"))), 10)
    leader = results(response)[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (1, 3)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "host1", 9093)]


@pytest.mark.parametrize("records", [None, b"", b"\0" * 30, b"junk"])
def test_what_is_no_batch_is_refused(tmp_path: Path, records: bytes | None) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    assert codes(broker.ask(request(broker, ("t", 0, records)), 9))[0] in (2, 87)
    assert broker.data_dir.logs["t", 0].log_end_offset == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_bad_batch_behind_a_right_checksum_is_answered_so_that_no_client_tries_again(
    tmp_path: Path, codec: str
) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", *[led_by(0)] * len(BAD_BATCHES))
    kinds = [made for kind, made in BAD_BATCHES.items() if kind not in ("count negative", "only the count negative")]
    parts = [("t", index, made(3, codec)) for index, made in enumerate(kinds)]
    response = broker.ask(request(broker, *parts), 9)
    assert set(codes(response)) == {ErrorCode.INVALID_RECORD}
    assert all(part.error_message for part in results(response))
    assert not any(broker.data_dir.logs["t", index].log_end_offset for index, _ in enumerate(parts))


def test_internal_topics_are_not_written_by_clients(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic(OFFSETS_TOPIC)
    assert codes(broker.ask(request(broker, (OFFSETS_TOPIC, 0, values(b"a"))), 9)) == [17]


def test_acks_all_needs_enough_replicas_in_sync(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0, 1), min_insync_replicas="2")
    response = broker.ask(request(broker, ("t", 0, values(b"a"))), 9)
    assert codes(response) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert "min.insync.replicas=2" in results(response)[0].error_message
    assert codes(broker.ask(request(broker, ("t", 0, values(b"a")), acks=1), 9)) == [0]


def test_transactions_are_refused_in_a_way_that_ends_the_producer(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    named = broker.ask(request(broker, ("t", 0, values(b"a")), transactional_id="tx"), 9)
    marked = values(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    unnamed = broker.ask(request(broker, ("t", 0, marked)), 9)
    assert codes(named) == codes(unnamed) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert results(unnamed)[0].error_message == "transactions are not supported yet"


@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, 0)])
def test_zstd_needs_a_version_that_knows_it(tmp_path: Path, version: int, code: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    batch = build_batch([(b"k", b"v", None, broker.now_ms)], compression="zstd")
    assert codes(broker.ask(request(broker, ("t", 0, batch)), version)) == [code]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_kept_as_they_were_compressed(tmp_path: Path, compression: str) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    batch = build_batch([(b"k", b"v" * 100, None, broker.now_ms)], compression=compression)
    assert codes(broker.ask(request(broker, ("t", 0, batch)), 9)) == [0]
    kept = broker.data_dir.logs["t", 0].read(0, 1 << 20)
    assert kept[16:] == batch[16:]  # all but base offset and leader epoch, which the leader stamps


def test_an_idempotent_producer_gets_its_first_answer_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    producer_id = broker.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id

    def batch(sequence: int) -> bytes:
        return values(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)

    for sequence in range(3):
        broker.ask(request(broker, ("t", 0, batch(sequence))), 9)
    again = results(broker.ask(request(broker, ("t", 0, batch(1))), 9))[0]
    assert (again.error_code, again.base_offset) == (0, 1)
    assert codes(broker.ask(request(broker, ("t", 0, batch(5))), 9)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert len(content(broker, "t")) == 3


def test_log_append_time_is_told(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", message_timestamp_type="LogAppendTime")
    assert results(broker.ask(request(broker, ("t", 0, values(b"a"))), 9))[0].log_append_time_ms == broker.now_ms


def test_a_batch_beyond_the_topics_limit_is_too_large(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", max_message_bytes="100")
    response = broker.ask(request(broker, ("t", 0, values(b"v" * 200))), 9)
    assert codes(response) == [ErrorCode.MESSAGE_TOO_LARGE]


def test_a_disk_that_fails_is_a_storage_error_of_that_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    broker.ask(request(broker, ("t", 0, values(b"a")), ("t", 1, values(b"a"))), 9)
    log = broker.data_dir.logs["t", 0]

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log, "append_admitted", full)
    response = broker.ask(request(broker, ("t", 0, values(b"b")), ("t", 1, values(b"b"))), 9)
    assert codes(response) == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_a_topic_made_anew_under_its_name_begins_empty(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", topic_id=1)
    broker.ask(request(broker, ("t", 0, values(b"old"))), 9)
    broker.topic("t", topic_id=2)
    assert results(broker.ask(request(broker, ("t", 0, values(b"new"))), 13))[0].base_offset == 0
    assert content(broker, "t") == [b"new"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bug_is_answered_partition_by_partition(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    message = request(broker, ("t", 0, values(b"a")), ("t", 1, values(b"b")))
    response = answer_to_a_bug(message, version)
    assert response.encode(version)
    assert codes(response) == [-1, -1]


# --- replicated partitions ---


def replicated(tmp_path: Path) -> Broker:
    """A topic of one partition on two brokers, both in sync."""
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0, 1, isr=(0, 1)), min_insync_replicas="2")
    return broker


def test_acks_all_is_answered_when_the_record_has_committed(tmp_path: Path) -> None:
    broker = replicated(tmp_path)
    sent = broker.send(request(broker, ("t", 0, values(b"a", b"b"))), 9)
    assert not sent.answered
    assert broker.replication.appends == [("t", 0)]
    topic, index, next_offset, done = broker.replication.waiters.pop()
    assert (topic, index, next_offset) == ("t", 0, 2)
    done(ErrorCode.NONE)
    assert codes(sent.response) == [0]
    assert results(sent.response)[0].base_offset == 0


def test_what_does_not_commit_is_told_with_its_reason(tmp_path: Path) -> None:
    broker = replicated(tmp_path)
    sent = broker.send(request(broker, ("t", 0, values(b"a"))), 9)
    broker.replication.waiters.pop()[3](ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert codes(sent.response) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_acks_one_does_not_wait_for_the_followers(tmp_path: Path) -> None:
    broker = replicated(tmp_path)
    assert codes(broker.ask(request(broker, ("t", 0, values(b"a")), acks=1), 9)) == [0]
    assert broker.replication.waiters == []


def test_a_repeat_of_what_has_not_committed_waits_as_the_first_did(tmp_path: Path) -> None:
    broker = replicated(tmp_path)
    batch = values(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    broker.send(request(broker, ("t", 0, batch)), 9)
    again = broker.send(request(broker, ("t", 0, batch)), 9)
    assert [waiter[2] for waiter in broker.replication.waiters] == [1, 1]
    broker.replication.waiters[1][3](ErrorCode.NONE)
    assert codes(again.response) == [0]
    assert results(again.response)[0].base_offset == 0


def test_who_does_not_lead_any_more_refuses(tmp_path: Path) -> None:
    broker = replicated(tmp_path)
    broker.replication.leading = False
    assert codes(broker.ask(request(broker, ("t", 0, values(b"a"))), 9)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_what_takes_too_long_to_commit_is_answered_with_a_timeout(tmp_path: Path) -> None:
    broker = replicated(tmp_path)
    sent = broker.send(request(broker, ("t", 0, values(b"a"))), 9)
    broker.loop.advance(1.0)
    assert codes(sent.response) == [ErrorCode.REQUEST_TIMED_OUT]
    broker.replication.waiters.pop()[3](ErrorCode.NONE)  # too late for the answer, but the record is there
    assert content(broker, "t") == []
