"""Records that may not be in a topic are named one by one (KIP-467): by the log, to clients, and by our producer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.client import Producer
from actors.client.errors import KafkaError
from actors.records.building import build_batch
from actors.records.checks import MAX_NAMED
from actors.records.errors import RefusedRecordsError
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from actors.wire.messages import ProduceRequest
from tests.support.client_broker import broker as scripted
from tests.support.handler_helpers import NOW_MS, Broker, led_by
from tests.support.log_helpers import append, open_log

BAD = range(5, 100, 10)
"""The ten bad ones among a hundred."""


Which = Sequence[int]


def hundred(
    compression: str = "none", *, keyless: Which = (), late: Which = (), early: Which = (), undated: Which = ()
) -> bytes:
    stamps = {
        **dict.fromkeys(late, NOW_MS + 5_000),
        **dict.fromkeys(early, NOW_MS - 5_000),
        **dict.fromkeys(undated, -1),
    }
    records = [(None if i in keyless else b"k", b"v", None, stamps.get(i, NOW_MS)) for i in range(100)]
    return build_batch(records, compression=compression)


def produced(tmp_path: Path, records: bytes, version: int = 9, **configs: str) -> Any:
    broker = Broker(tmp_path)
    topic = broker.topic("t", **configs)
    data = ProduceRequest.TopicProduceData(
        name="t",
        topic_id=topic.id,
        partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)],
    )
    response = broker.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), version)
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_of_a_hundred_records_the_ten_without_a_key_are_named(tmp_path: Path, compression: str) -> None:
    part = produced(tmp_path, hundred(compression, keyless=BAD), cleanup_policy="compact")
    assert (part.error_code, part.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert [error.batch_index for error in part.record_errors] == list(BAD)
    assert all("key" in error.batch_index_error_message for error in part.record_errors)
    assert "10 of 100" in part.error_message


LIMITS = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}


@pytest.mark.parametrize(
    ("which", "limit"),
    [("late", "message.timestamp.after.max.ms"), ("early", "message.timestamp.before.max.ms")],
)
def test_records_out_of_time_are_named(tmp_path: Path, which: str, limit: str) -> None:
    part = produced(tmp_path, hundred(**{which: BAD}), **LIMITS)
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in part.record_errors] == list(BAD)
    assert all(limit in error.batch_index_error_message for error in part.record_errors)


def test_what_is_wrong_with_keys_and_times_is_said_together(tmp_path: Path) -> None:
    part = produced(tmp_path, hundred(keyless=[1, 2], late=[2, 3]), cleanup_policy="compact", **LIMITS)
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    said = [(error.batch_index, error.batch_index_error_message.split()[0]) for error in part.record_errors]
    assert said == [(1, "a"), (2, "a"), (3, "timestamp")]


def test_a_record_without_a_time_is_out_of_none(tmp_path: Path) -> None:
    assert produced(tmp_path, hundred(undated=[0, 7]), **LIMITS).error_code == 0


@pytest.mark.parametrize("version", range(3, 14))
def test_a_client_of_any_version_can_read_the_answer(tmp_path: Path, version: int) -> None:
    part = produced(tmp_path, hundred(keyless=BAD), version, cleanup_policy="compact")
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert len(part.record_errors) == (10 if version >= 8 else 0)


def test_not_more_errors_are_collected_than_an_answer_should_hold(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy="compact")
    batch = build_batch([(None, b"", None, NOW_MS)] * (MAX_NAMED + 1), compression="gzip")
    with pytest.raises(RefusedRecordsError) as caught:
        append(log, batch)
    assert len(caught.value.record_errors) == MAX_NAMED
    log.abandon()


def test_of_many_refused_batches_an_answer_names_a_thousand_records(tmp_path: Path) -> None:
    """Three thousand compressed bytes for each of a hundred partitions were answered with 34 MB."""
    broker = Broker(tmp_path)
    topic = broker.topic("t", *[led_by(0)] * 14, cleanup_policy="compact")
    batch = build_batch([(None, b"", None, NOW_MS)] * 400, compression="zstd")
    data = ProduceRequest.TopicProduceData(
        name="t",
        topic_id=topic.id,
        partition_data=[ProduceRequest.PartitionProduceData(index=index, records=batch) for index in range(14)],
    )
    response = broker.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 13)
    parts = response.responses[0].partition_responses
    assert {part.error_code for part in parts} == {ErrorCode.INVALID_RECORD}
    assert [len(part.record_errors) for part in parts] == [MAX_NAMED] * 10 + [0] * 4


# --- our producer ---


def refusing(*named: tuple[int, str], code: int = ErrorCode.INVALID_RECORD) -> Any:
    part = m.ProduceResponse
    errors = [part.BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=text) for i, text in named]
    answer = part.PartitionProduceResponse(
        index=0, error_code=code, base_offset=-1, record_errors=errors, error_message="some are bad"
    )
    topic = part.TopicProduceResponse(name="t", partition_responses=[answer])
    return lambda request: part(responses=[topic])


def outcomes(answer: Any, count: int = 3) -> list[str]:
    """The errors of `count` records in one batch that gets this answer, by their futures and errbacks alike."""
    with scripted() as kafka:
        kafka.topic("t", 1)
        kafka.script(m.ProduceRequest, answer)
        heard: list[str] = []
        with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000) as producer:
            futures = [producer.send("t", b"v", partition=0) for _ in range(count)]
            for future in futures:
                future.add_errback(lambda error: heard.append(str(error)))
            producer.flush(60)
            said = []
            for future in futures:
                with pytest.raises(KafkaError) as caught:
                    future.get(60)
                assert future.exception is not None
                said.append(str(caught.value))
        assert heard == said
    return said


def test_a_producer_tells_which_records_were_bad() -> None:
    first, second, third = outcomes(refusing((0, "no key"), (2, "too old"), code=ErrorCode.INVALID_TIMESTAMP))
    assert "no key" in first
    assert "too old" in third
    assert "INVALID_RECORD" in first, "the batch's code need not be that of each of its records"
    assert "because of other records" in second
    assert "some are bad" in second


def test_a_producer_gives_a_record_that_alone_was_bad_the_batchs_code() -> None:
    first, second, _ = outcomes(refusing((1, "too old"), code=ErrorCode.INVALID_TIMESTAMP))
    assert "INVALID_TIMESTAMP" in second
    assert "too old" in second
    assert "because of other records" in first


def test_a_producer_fails_all_records_alike_where_the_broker_names_none() -> None:
    assert len(set(outcomes(refusing()))) == 1
