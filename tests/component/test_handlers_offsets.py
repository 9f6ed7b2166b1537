"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: offsets of the logs led here; InitProducerId's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    DeleteRecordsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from placement.metadata import OFFSETS_TOPIC
from placement.records import PartitionRecord
from tests.support.handler_helpers import NOW_MS, Broker, led_by
from tests.support.log_helpers import values


def filled(path: Path, **configs: str) -> Broker:
    """A topic with records at 1000, 3000 and 2000 ms before now, the last in leader epoch 2."""
    broker = Broker(path, brokers=2)
    broker.topic("t", led_by(0), led_by(1), **configs)
    for age, epoch in ((3000, 0), (1000, 0), (2000, 2)):
        broker.metadata.apply(PartitionRecord("t", 0, led_by(0, epoch=epoch)))
        log = broker.context.log("t", 0)
        log.append_as_leader(values(b"v", timestamp_ms=NOW_MS - age), epoch, NOW_MS)
        broker.led.appended("t", 0, log, broker.metadata.topics["t"].partitions[0])
    return broker


def listed(broker: Broker, timestamp: int, version: int, topic: str = "t", index: int = 0, epoch: int = -1) -> Any:
    asked = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
    )
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
    (part,) = broker.ask(ListOffsetsRequest(replica_id=-1, topics=topics), version).topics[0].partitions
    return part


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_the_newest_record_is_told_as_long_as_its_file_is_there(tmp_path: Path, before: int) -> None:
    """As Kafka 4.4.0 answers: DeleteRecords takes nothing away from it until the segment goes."""
    broker = filled(tmp_path)
    broker.data_dir.logs["t", 0].retention.delete_before(before)
    part = listed(broker, -3, 7)
    assert (part.error_code, part.offset, part.timestamp) == (0, 1, NOW_MS - 1000)


def test_the_newest_record_is_another_when_its_file_has_gone(tmp_path: Path) -> None:
    broker = filled(tmp_path)
    log = broker.data_dir.logs["t", 0]
    log.roll()
    log.append_as_leader(values(b"v", timestamp_ms=NOW_MS - 2500), 2, NOW_MS)
    log.advance_high_watermark(4)
    log.retention.delete_before(3)
    log.retention.apply(NOW_MS)
    part = listed(broker, -3, 7)
    assert (part.error_code, part.offset, part.timestamp) == (0, 3, NOW_MS - 2500)


def test_the_newest_of_records_without_a_time_is_the_first(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0))
    log = broker.context.log("t", 0)
    log.append_as_leader(values(b"a", b"b", timestamp_ms=-1), 0, NOW_MS)
    broker.led.appended("t", 0, log, broker.metadata.topics["t"].partitions[0])
    part = listed(broker, -3, 7)
    assert (part.error_code, part.offset, part.timestamp) == (0, 0, -1)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    "asked",
    [
        [("t", [0, 0, 1])],
        [("t", [0, 1, 0, 0])],
        [("t", [1, 0]), ("t", [0])],
        [("t", [0]), ("t", [0, 1])],
    ],
)
def test_a_partition_named_twice_is_not_answered_for_one_of_its_times(
    tmp_path: Path, version: int, asked: list[tuple[str, list[int]]]
) -> None:
    times = iter((-1, -2, -1, -2))
    part = ListOffsetsRequest.ListOffsetsPartition
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            name=name, partitions=[part(partition_index=index, timestamp=next(times)) for index in indexes]
        )
        for name, indexes in asked
    ]
    response = filled(tmp_path).ask(ListOffsetsRequest(replica_id=-1, topics=topics), version)
    answered = sorted((p.partition_index, p.error_code, p.offset) for t in response.topics for p in t.partitions)
    assert answered[0] == (0, ErrorCode.INVALID_REQUEST, -1)
    assert [index for index, _, _ in answered] == [0, 1], "each partition is answered once"


def test_a_partition_of_an_unknown_topic_named_twice_is_an_invalid_request(tmp_path: Path) -> None:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="u", partitions=[part, part])]
    (topic,) = filled(tmp_path).ask(ListOffsetsRequest(replica_id=-1, topics=topics), 5).topics
    assert [p.error_code for p in topic.partitions] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.conformance("K-I-31")
@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("timestamp", "offset", "found", "since"),
    [
        (-1, 3, -1, 1),
        (-2, 0, -1, 1),
        (-3, 1, NOW_MS - 1000, 7),
        (-4, 0, -1, 8),
        (-5, -1, -1, 9),
        (-6, -1, -1, 11),
        (0, 0, NOW_MS - 3000, 1),
        (NOW_MS - 2500, 1, NOW_MS - 1000, 1),
        (NOW_MS, -1, -1, 1),
    ],
)
def test_offsets_by_time(tmp_path: Path, version: int, timestamp: int, offset: int, found: int, since: int) -> None:
    part = listed(filled(tmp_path), timestamp, version)
    if version < since:
        assert part.error_code == ErrorCode.UNSUPPORTED_VERSION
        return
    assert (part.error_code, part.offset, part.timestamp) == (0, offset, found)


@pytest.mark.parametrize(("timestamp", "epoch"), [(-1, 2), (-2, 0), (-3, 0), (NOW_MS, -1)])
def test_offsets_carry_their_leader_epoch(tmp_path: Path, timestamp: int, epoch: int) -> None:
    assert listed(filled(tmp_path), timestamp, 7).leader_epoch == epoch


def test_an_unknown_special_time_is_unsupported(tmp_path: Path) -> None:
    assert listed(filled(tmp_path), -7, 11).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("topic", "index", "epoch", "code"),
    [("t", 1, -1, 6), ("t", 2, -1, 3), ("u", 0, -1, 3), ("t", 0, 1, 74), ("t", 0, 3, 75), ("t", 0, 2, 0)],
)
def test_offsets_are_told_by_the_leader_at_its_epoch(
    tmp_path: Path, topic: str, index: int, epoch: int, code: int
) -> None:
    assert listed(filled(tmp_path), -1, 7, topic, index, epoch).error_code == code


# --- OffsetForLeaderEpoch ---


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize(
    ("index", "current", "epoch", "expected"),
    [
        (0, -1, 0, (0, 0, 2)),
        (0, -1, 1, (0, 0, 2)),
        (0, 2, 2, (0, 2, 3)),
        (0, -1, 9, (0, -1, -1)),
        (0, 1, 0, (74, -1, -1)),
        (0, 5, 0, (75, -1, -1)),
        (1, -1, 0, (6, -1, -1)),
        (9, -1, 0, (3, -1, -1)),
    ],
)
def test_the_end_of_an_epoch(
    tmp_path: Path, version: int, index: int, current: int, epoch: int, expected: tuple[int, int, int]
) -> None:
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=index, current_leader_epoch=current, leader_epoch=epoch
    )
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[asked])]
    answer = filled(tmp_path).ask(OffsetForLeaderEpochRequest(topics=topics), version)
    (part,) = answer.topics[0].partitions
    assert (part.error_code, part.leader_epoch, part.end_offset) == expected


# --- DeleteRecords ---


def deletion(offset: int, topic: str = "t", index: int = 0, timeout_ms: int = 0) -> DeleteRecordsRequest:
    asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[asked])]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def outcome(response: Any) -> tuple[int, int]:
    (part,) = response.topics[0].partitions
    return part.error_code, part.low_watermark


def deleted(broker: Broker, offset: int, version: int, topic: str = "t", index: int = 0) -> tuple[int, int]:
    return outcome(broker.ask(deletion(offset, topic, index), version))


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_before_an_offset(tmp_path: Path, version: int) -> None:
    broker = filled(tmp_path)
    assert deleted(broker, 2, version) == (0, 2)
    assert listed(broker, -2, 7).offset == 2
    assert deleted(broker, 1, version) == (0, 2)
    assert deleted(broker, -1, version) == (0, 3)
    assert deleted(broker, 4, version) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(broker, -2, version) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_records_of_others_are_not_deleted(tmp_path: Path) -> None:
    broker = filled(tmp_path)
    assert deleted(broker, 0, 2, index=1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert deleted(broker, 0, 2, topic="u") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert deleted(broker, 0, 2, topic=OFFSETS_TOPIC) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_records_of_a_compacted_topic_are_not_deleted(tmp_path: Path) -> None:
    assert deleted(filled(tmp_path, cleanup_policy="compact"), 1, 2) == (ErrorCode.POLICY_VIOLATION, -1)


def test_an_answer_waits_for_the_followers_in_sync(tmp_path: Path) -> None:
    broker = filled(tmp_path)
    broker.metadata.apply(PartitionRecord("t", 0, led_by(0, 1, epoch=2, isr=(0, 1))))
    first, second, third = (broker.send(deletion(offset, timeout_ms=1000), 2) for offset in (1, 2, -1))
    assert not first.answered
    waiters = broker.replication.start_waiters
    assert [waiter[:3] for waiter in waiters] == [("t", 0, 1), ("t", 0, 2), ("t", 0, 3)]
    waiters[0][3](ErrorCode.NONE)
    assert outcome(first.response) == (0, 1)
    waiters[1][3](ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcome(second.response) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    broker.loop.advance(0.999)
    assert not third.answered
    broker.loop.advance(0.001)
    assert outcome(third.response) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    waiters[2][3](ErrorCode.NONE)  # too late, which harms nobody


# --- InitProducerId ---


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_are_all_different(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    answers = [broker.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(2500)]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert [answer.producer_id for answer in answers] == list(range(2500))
    assert broker.controller.operations == ["allocate_producer_ids"] * 3


def test_producers_that_wait_share_one_block(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    waiting = [broker.send(InitProducerIdRequest(transactional_id=None), 4) for _ in range(5)]
    assert broker.controller.operations == ["allocate_producer_ids"]
    broker.controller.answer()
    assert [pending.response.producer_id for pending in waiting] == [0, 1, 2, 3, 4]


def test_without_a_controller_a_producer_is_asked_to_come_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    pending = broker.send(InitProducerIdRequest(transactional_id=None), 4)
    broker.controller.fail("the controller cannot be reached")
    answer = pending.response
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
    broker.controller.prompt = True
    assert broker.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id == 0


def test_a_transactional_producer_gets_no_id(tmp_path: Path) -> None:
    answer = Broker(tmp_path).ask(InitProducerIdRequest(transactional_id="tx"), 4)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_a_new_leader_tells_no_end_before_it_knows_what_has_committed(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0, 1, isr=(0, 1)))
    broker.replication.known = False
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])])
    assert broker.ask(request, version).topics[0].partitions[0].error_code == code
    broker.replication.known = True
    assert broker.ask(request, version).topics[0].partitions[0].error_code == 0
