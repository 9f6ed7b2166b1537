"""Fetch: what is read, how long it waits, and what bounds an answer."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers import fetch as handler
from actors.broker.handlers.context import Request
from actors.log import reading
from actors.log.segment import OpenFile
from actors.records.batch import iter_batches
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader
from actors.wire.messages import FetchRequest, ProduceRequest
from placement.metadata import OFFSETS_TOPIC
from placement.records import PartitionRecord, RemoveTopicRecord
from tests.support.handler_helpers import Broker, Pending, led_by
from tests.support.log_helpers import values
from tests.support.read_records import read_records

VERSIONS = range(4, 19)


def request(
    broker: Broker,
    *wanted: tuple[str, int, int],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 24,
    partition_max_bytes: int = 1 << 20,
    fields: dict[str, Any] | None = None,
    **more: Any,
) -> FetchRequest:
    topics: dict[str, list[Any]] = {}
    for topic, index, offset in wanted:
        topics.setdefault(topic, []).append(
            FetchRequest.FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **(fields or {})
            )
        )
    asked = []
    for topic, partitions in topics.items():
        known = broker.metadata.topics.get(topic)
        topic_id = known.id if known else b"?" * 16
        asked.append(FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions))
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=asked, **more)


def produce(broker: Broker, topic: str, index: int, *items: bytes) -> None:
    data = ProduceRequest.PartitionProduceData(index=index, records=values(*items))
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    response = broker.ask(ProduceRequest(acks=-1, topic_data=topics), 9)
    assert response.responses[0].partition_responses[0].error_code == 0


def partitions(response: Any) -> list[Any]:
    return [part for topic in response.responses for part in topic.partitions]


def codes(response: Any) -> list[int]:
    return [part.error_code for part in partitions(response)]


def read(response: Any) -> list[list[bytes | None]]:
    return [[record.value for record in read_records(part.records or b"")] for part in partitions(response)]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_read_from_the_offset_asked_for(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    produce(broker, "t", 0, b"a")
    produce(broker, "t", 0, b"b")
    produce(broker, "t", 1, b"c")
    response = broker.ask(request(broker, ("t", 0, 1), ("t", 1, 0)), version)
    assert codes(response) == [0, 0]
    assert read(response) == [[b"b"], [b"c"]]
    assert [part.high_watermark for part in partitions(response)] == [2, 1]
    assert [part.last_stable_offset for part in partitions(response)] == [2, 1]
    assert response.session_id == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_answer_carries_empty_records(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    part = partitions(broker.ask(request(broker, ("t", 0, 0)), version))[0]
    assert (part.error_code, part.records, part.high_watermark) == (0, b"", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_are_each_partitions_own(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0), led_by(1))
    produce(broker, "t", 0, b"a")
    message = request(broker, ("t", 0, 0), ("t", 0, 5), ("t", 1, 0), ("t", 7, 0), ("unknown", 0, 0), max_wait_ms=500)
    response = broker.ask(message, version)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == [
        0,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        missing,
    ]
    assert read(response)[0] == [b"a"]


def test_a_fetcher_at_the_wrong_broker_is_told_the_leader(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(1, epoch=3))
    response = broker.ask(request(broker, ("t", 0, 0)), 16)
    leader = partitions(response)[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (1, 3)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "host1", 9093)]


@pytest.mark.parametrize(("epoch", "code"), [(1, 74), (2, 0), (3, 75), (-1, 0)])
def test_a_fetchers_epoch_must_be_the_leaders(tmp_path: Path, epoch: int, code: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0, epoch=2))
    message = request(broker, ("t", 0, 0), fields={"current_leader_epoch": epoch})
    assert codes(broker.ask(message, 12)) == [code]


def test_a_fetcher_whose_last_record_was_cut_is_told_where(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0, epoch=1))
    produce(broker, "t", 0, b"a")
    broker.metadata.apply(PartitionRecord("t", 0, led_by(0, epoch=3)))
    produce(broker, "t", 0, b"b")
    same = broker.ask(request(broker, ("t", 0, 1), fields={"last_fetched_epoch": 1}), 12)
    assert partitions(same)[0].diverging_epoch is None
    other = partitions(broker.ask(request(broker, ("t", 0, 2), fields={"last_fetched_epoch": 2}), 12))[0]
    assert (other.diverging_epoch.epoch, other.diverging_epoch.end_offset, other.records) == (1, 1, b"")


@pytest.mark.parametrize(("isolation", "aborted"), [(0, None), (1, [])])
def test_read_committed_has_nothing_to_leave_out(tmp_path: Path, isolation: int, aborted: Sequence[Any] | None) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    produce(broker, "t", 0, b"a")
    part = partitions(broker.ask(request(broker, ("t", 0, 0), isolation_level=isolation), 11))[0]
    assert part.aborted_transactions == aborted
    assert part.records


def test_anyone_reads_the_offsets_topic_without_a_shard(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    info = broker.topic(OFFSETS_TOPIC, cleanup_policy="compact")
    log = broker.context.log(OFFSETS_TOPIC, 0)
    log.append_as_leader(values(b"v"), 0, broker.now_ms)
    broker.led.appended(OFFSETS_TOPIC, 0, log, info.partitions[0])
    assert read(broker.ask(request(broker, (OFFSETS_TOPIC, 0, 0)), 11)) == [[b"v"]]
    assert broker.shards.awaited == []


# --- sessions ---


@pytest.mark.parametrize("version", range(7, 19))
def test_fetch_sessions_are_declined(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    begin = broker.ask(request(broker, ("t", 0, 0), session_id=0, session_epoch=0), version)
    assert (begin.error_code, begin.session_id, codes(begin)) == (0, 0, [0])
    follow = broker.ask(request(broker, session_id=5, session_epoch=1), version)
    assert (follow.error_code, follow.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    end = broker.ask(request(broker, ("t", 0, 0), session_id=5, session_epoch=-1), version)
    assert (end.error_code, codes(end)) == (0, [0])


# --- limits ---


def batches_read(response: Any) -> list[int]:
    return [len(list(iter_batches(part.records))) for part in partitions(response)]


def test_max_bytes_bounds_an_answer_but_the_first_batch_always_comes(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0), led_by(0))
    for index in (1, 2):
        for _ in range(3):
            produce(broker, "t", index, b"x" * 1000)
    wanted = [("t", 0, 0), ("t", 1, 0), ("t", 2, 0)]
    assert batches_read(broker.ask(request(broker, *wanted, max_bytes=10), 11)) == [0, 1, 0]
    assert batches_read(broker.ask(request(broker, *wanted, max_bytes=2500), 11)) == [0, 2, 0]
    assert batches_read(broker.ask(request(broker, *wanted, max_bytes=4500), 11)) == [0, 3, 1]
    assert batches_read(broker.ask(request(broker, *wanted, partition_max_bytes=1200), 11)) == [0, 1, 1]
    assert batches_read(broker.ask(request(broker, *wanted, max_bytes=0, partition_max_bytes=-1), 11)) == [0, 1, 0]


def test_fetch_max_bytes_of_the_broker_holds_too(tmp_path: Path) -> None:
    broker = Broker(tmp_path, fetch_max_bytes="2500")
    broker.topic("t")
    for _ in range(4):
        produce(broker, "t", 0, b"x" * 1000)
    assert batches_read(broker.ask(request(broker, ("t", 0, 0)), 11)) == [2]


def test_while_clients_do_not_read_their_answers_new_ones_are_small(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    for _ in range(30):
        produce(broker, "t", 0, b"x" * 10_000)
    assert batches_read(broker.ask(request(broker, ("t", 0, 0)), 11)) == [30]
    broker.clients.response_bytes_waiting = lambda: handler.WAITING_BYTES_MAX + 1
    assert batches_read(broker.ask(request(broker, ("t", 0, 0)), 11)) == [6]
    assert batches_read(broker.ask(request(broker, ("t", 0, 0), max_bytes=1), 11)) == [1]


# --- waiting ---


def parked(broker: Broker, *wanted: tuple[str, int, int], **fields: Any) -> Pending:
    pending = broker.send(request(broker, *wanted, max_wait_ms=500, **fields), 11)
    assert not pending.answered
    return pending


def nothing_is_parked(broker: Broker) -> bool:
    fetches = broker.context.fetches
    return not (len(fetches) or fetches.partitions())


def test_clients_that_do_not_read_their_answers_keep_few_files_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a number of open files, records are read at once, and fewer of them."""
    gc.collect()  # of earlier tests, too: what is open counts for the whole process
    monkeypatch.setattr(reading, "FILES_MAX", OpenFile.count() + 3)
    monkeypatch.setattr(handler, "COPIED_BYTES_MAX", 300_000)
    broker = Broker(tmp_path)
    broker.topic("t", *[led_by(0)] * 8)
    for index in range(8):
        produce(broker, "t", index, bytes(100_000))
    open_files = len(os.listdir("/proc/self/fd"))
    asked = request(broker, *[("t", index, 0) for index in range(8)], max_bytes=1 << 24)
    header = RequestHeader(FetchRequest.api_key, 12, 7, None, 0)
    kept = [handler.handle(broker.handlers, Request(header, asked, broker.connection, None)) for _ in range(4)]
    assert len(os.listdir("/proc/self/fd")) <= open_files + 3
    sizes = [sum(len(part.records) for part in partitions(answer)) for answer in kept]
    assert 500_000 < sizes[0] < 800_000, "three files, and what may be copied"
    assert all(200_000 < size < 400_000 for size in sizes[1:])


def test_a_fetch_waits_for_records(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = parked(broker, ("t", 0, 0))
    produce(broker, "t", 0, b"a")
    broker.loop.turn()
    assert read(pending.response) == [[b"a"]]
    assert nothing_is_parked(broker)
    assert len(broker.connection.transport.written) == 1  # with the producer's answer, which stood behind it


def test_a_fetch_is_answered_empty_when_its_time_is_over(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = parked(broker, ("t", 0, 0))
    broker.loop.advance(0.499)
    assert not pending.answered
    broker.loop.advance(0.002)
    assert read(pending.response) == [[]]
    assert nothing_is_parked(broker)


def test_all_that_one_turn_appends_comes_in_one_answer(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", *[led_by(0)] * 3)
    pending = parked(broker, *[("t", index, 0) for index in range(3)])
    for index in range(3):
        produce(broker, "t", index, b"a")
    assert broker.loop.turn() == 1
    assert read(pending.response) == [[b"a"]] * 3


def test_a_fetch_waits_until_min_bytes_are_there(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    pending = parked(broker, ("t", 0, 0), ("t", 1, 0), min_bytes=2500)
    for index in (0, 1):
        produce(broker, "t", index, b"x" * 1000)
        broker.loop.turn()
        assert not pending.answered
    produce(broker, "t", 0, b"x" * 1000)
    broker.loop.turn()
    assert [len(items) for items in read(pending.response)] == [2, 1]


def test_too_few_bytes_come_when_the_time_is_over(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = parked(broker, ("t", 0, 0), min_bytes=2500)
    produce(broker, "t", 0, b"x" * 1000)
    broker.loop.advance(0.6)
    assert [len(items) for items in read(pending.response)] == [1]


def test_many_wait_for_one_partition_and_all_get_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    waiting = [parked(broker, ("t", 0, 0)) for _ in range(20)]
    produce(broker, "t", 0, b"a")
    broker.loop.turn()
    assert all(read(pending.response) == [[b"a"]] for pending in waiting)


def test_a_partition_that_changed_hands_is_told_at_once(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t")
    pending = parked(broker, ("t", 0, 0))
    broker.metadata.apply(PartitionRecord("t", 0, led_by(1, epoch=1)))
    broker.context.fetches.wake("t", 0)
    broker.loop.turn()
    assert codes(pending.response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_topic_deleted_meanwhile_is_an_error_in_the_end(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = parked(broker, ("t", 0, 0))
    broker.metadata.apply(RemoveTopicRecord("t"))
    broker.loop.advance(0.6)
    assert codes(pending.response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_client_that_has_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = parked(broker, ("t", 0, 0))
    broker.connection.connection_lost(None)
    broker.context.fetches.forget(broker.connection)
    assert nothing_is_parked(broker)
    broker.loop.advance(1.0)
    assert not pending.answered


def test_a_bug_while_parked_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    pending = parked(broker, ("t", 0, 0))
    monkeypatch.setattr(broker.data_dir.logs["t", 0], "read_or_locate", lambda *args, **kwargs: 1 // 0)
    broker.loop.advance(0.6)
    assert pending.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_with_an_error_there_is_no_waiting(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    message = request(broker, ("t", 0, 0), ("t", 0, 99), max_wait_ms=500, min_bytes=1000)
    assert codes(broker.ask(message, 11)) == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_a_fetch_of_nothing_is_answered_at_once(tmp_path: Path) -> None:
    assert partitions(Broker(tmp_path).ask(FetchRequest(max_wait_ms=500, min_bytes=1), 11)) == []


def test_records_a_crash_left_above_the_checkpointed_watermark_are_readable(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    log = broker.context.log("t", 0)
    log.append_as_leader(values(b"a"), 0, broker.now_ms)
    assert log.high_watermark == 0
    assert read(broker.ask(request(broker, ("t", 0, 0)), 11)) == [[b"a"]]
