"""Large batches are checked in a thread: what is looked at again afterwards, in which order, who waits meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers.context import Request
from actors.broker.handlers.in_turns import Work, in_turns
from actors.broker.handlers.list_offsets import failed
from actors.records.bounds import AT_ONCE
from actors.records.building import build_batch
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_request_header, encode_request
from actors.wire.messages import ListOffsetsRequest, ListOffsetsResponse, ProduceRequest
from tests.support.handler_helpers import Broker, Pending, led_by
from tests.support.log_helpers import NOW_MS, values
from tests.support.read_records import read_records

LONG = AT_ONCE.records + 1


def large(value: bytes, count: int = LONG) -> bytes:
    """A batch with so many records that a thread checks it."""
    return build_batch([(b"k", value, None, NOW_MS)] * count)


def produce(broker: Broker, *records: tuple[int, bytes], acks: int = 1, connection: Any = None) -> Pending:
    """Records for partitions of the topic t."""
    parts = [ProduceRequest.PartitionProduceData(index=index, records=data) for index, data in records]
    topic_id = broker.metadata.topics["t"].id
    data = [ProduceRequest.TopicProduceData(name="t", topic_id=topic_id, partition_data=parts)]
    return broker.send(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data), 9, connection)


def codes(pending: Pending) -> list[int]:
    return [part.error_code for topic in pending.response.responses for part in topic.partition_responses]


def content(broker: Broker, index: int = 0) -> list[bytes | None]:
    """The values in the log; equal neighbours count once."""
    found: list[bytes | None] = []
    for record in read_records(broker.data_dir.logs["t", index].read(0, 1 << 22)):
        if found[-1:] != [record.value]:
            found.append(record.value)
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    made = Broker(tmp_path, brokers=2)
    made.topic("t", led_by(0), led_by(0))
    return made


def test_a_large_batch_is_appended_when_a_thread_has_checked_it(broker: Broker) -> None:
    pending = produce(broker, (0, large(b"a")), (1, values(b"small")))
    assert not pending.answered
    assert content(broker, 1) == [b"small"], "others of the request do not wait"
    broker.loop.end_job()
    assert codes(pending) == [0, 0]
    assert content(broker) == [b"a"]


def test_a_large_batch_with_a_bad_record_is_refused_and_leaves_nothing(broker: Broker) -> None:
    late = build_batch([(b"k", b"v", None, NOW_MS)] * LONG + [(b"k", b"v", None, NOW_MS + 10**10)])
    pending = produce(broker, (0, late))
    broker.loop.end_job()
    assert codes(pending) == [ErrorCode.INVALID_TIMESTAMP]
    (error,) = pending.response.responses[0].partition_responses[0].record_errors
    assert error.batch_index == LONG
    assert broker.data_dir.logs["t", 0].log_end_offset == 0


def test_leadership_that_was_lost_meanwhile_is_noticed(broker: Broker) -> None:
    pending = produce(broker, (0, large(b"a")))
    broker.topic("t", led_by(1), led_by(0), topic_id=int.from_bytes(broker.metadata.topics["t"].id, "big"))
    broker.loop.end_job()
    assert codes(pending) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert broker.data_dir.logs["t", 0].log_end_offset == 0


def test_a_lease_that_ran_out_meanwhile_is_noticed(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0, 1))
    pending = produce(broker, (0, large(b"a")))
    broker.replication.leading = False
    broker.loop.end_job()
    assert codes(pending) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert broker.data_dir.logs["t", 0].log_end_offset == 0


def test_too_few_replicas_that_are_left_in_sync_meanwhile_are_noticed(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    topic = broker.topic("t", led_by(0, 1, isr=(0, 1)), min_insync_replicas="2")
    pending = produce(broker, (0, large(b"a")), acks=-1)
    topic_id = int.from_bytes(topic.id, "big")
    broker.topic("t", led_by(0, 1, isr=(0,)), topic_id=topic_id, min_insync_replicas="2")
    broker.loop.end_job()
    assert codes(pending) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert broker.data_dir.logs["t", 0].log_end_offset == 0


def test_a_topic_made_anew_meanwhile_does_not_get_the_batch(broker: Broker) -> None:
    pending = produce(broker, (0, large(b"a")))
    broker.topic("t", led_by(0), led_by(0), topic_id=4711)
    broker.loop.end_job()
    assert codes(pending) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_batch_is_appended_at_the_epoch_of_then(broker: Broker) -> None:
    pending = produce(broker, (0, large(b"a")))
    topic_id = int.from_bytes(broker.metadata.topics["t"].id, "big")
    broker.topic("t", led_by(0, epoch=5), led_by(0), topic_id=topic_id)
    broker.loop.end_job()
    assert codes(pending) == [0]
    assert broker.data_dir.logs["t", 0].epoch_at(0) == 5


def test_batches_of_a_partition_stay_in_order_whoever_sends_them(broker: Broker) -> None:
    first, second, third = (
        produce(broker, (0, data), connection=broker.connect()) for data in (large(b"1"), values(b"2"), large(b"3"))
    )
    assert len(broker.loop.jobs) == 1, "one after the other"
    for _ in range(3):
        broker.loop.end_job()
    assert content(broker) == [b"1", b"2", b"3"]
    assert [codes(each) for each in (first, second, third)] == [[0], [0], [0]]


def test_batches_of_other_partitions_do_not_wait(broker: Broker) -> None:
    first = produce(broker, (0, large(b"1")), connection=broker.connect())
    second = produce(broker, (1, large(b"2")), connection=broker.connect())
    broker.loop.end_job(1)
    assert (first.answered, second.answered) == (False, True)


def test_a_client_has_one_job_in_the_threads_however_many_partitions_it_names(tmp_path: Path) -> None:
    """Batches of other clients wait for one of this client's at most, and one checked batch of it is in memory."""
    broker = Broker(tmp_path)
    broker.topic("t", *[led_by(0)] * 5)
    pending = produce(broker, *[(index, large(b"%d" % index)) for index in range(5)])
    for index in range(5):
        assert len(broker.loop.jobs) == 1
        broker.loop.end_job()
        assert content(broker, index) == [b"%d" % index]
    assert codes(pending) == [0] * 5


@pytest.mark.parametrize(("first", "second"), [(large, values), (values, large), (values, values), (large, large)])
def test_of_a_partition_that_is_named_twice_the_last_mention_counts(broker: Broker, first: Any, second: Any) -> None:
    """As Kafka 4.4.0 does: one of them is appended, and answered once."""
    pending = produce(broker, (0, first(b"first")), (1, values(b"other")), (0, second(b"second")))
    while broker.loop.jobs:
        broker.loop.end_job()
    answers = pending.response.responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in answers] == [(0, 0, 0), (1, 0, 0)]
    assert content(broker) == [b"second"]


def test_nothing_more_is_read_from_a_client_meanwhile(broker: Broker) -> None:
    produce(broker, (0, large(b"a")))
    transport: Any = broker.connection.transport
    assert not transport.reading
    broker.loop.end_job()
    assert transport.reading


def test_the_batch_of_a_client_that_has_gone_is_appended_as_it_was_asked(broker: Broker) -> None:
    produce(broker, (0, large(b"a")), acks=0)
    broker.connection.connection_lost(None)
    broker.loop.end_job()
    assert content(broker) == [b"a"]


def test_what_a_thread_ends_while_the_broker_stops_is_not_appended(broker: Broker) -> None:
    """The logs are being closed then, and count as flushed."""
    pending = produce(broker, (0, large(b"a")), (1, large(b"b")))
    broker.context.record_jobs.close()
    broker.loop.end_job()
    assert codes(pending) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert broker.data_dir.logs["t", 0].log_end_offset == 0
    transport: Any = broker.connection.transport
    assert transport.reading


def test_a_job_that_never_begins_since_the_broker_stops_is_refused(broker: Broker) -> None:
    pending = produce(broker, (0, large(b"a")))
    broker.context.record_jobs.close()
    future, _ = broker.loop.jobs.pop()
    future.cancel()
    while broker.loop.turn():
        pass
    assert codes(pending) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_an_answer_that_cannot_be_encoded_is_an_error_and_the_client_is_read_on(broker: Broker) -> None:
    message = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[])
    slot = broker.connection.slots.open(0, message.api_key, 7, 1)
    header = decode_request_header(encode_request(message, 7, 1, "tests")[4:])

    def work() -> Work:
        yield None
        part = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, offset=2**70)
        return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[part])])

    assert in_turns(broker.handlers, Request(header, message, broker.connection, slot), work(), failed) is None
    while broker.loop.turn():
        pass
    transport: Any = broker.connection.transport
    assert slot.answer is not None
    assert transport.reading


def test_a_bug_in_a_thread_closes_the_connection_of_a_client_that_waits_for_no_answer(broker: Broker) -> None:
    produce(broker, (0, large(b"a")), acks=0)
    future, _ = broker.loop.jobs.pop()
    future.set_exception(ZeroDivisionError())
    while broker.loop.turn():
        pass
    transport: Any = broker.connection.transport
    assert transport.aborted


def test_a_bug_in_a_thread_is_answered(broker: Broker) -> None:
    pending = produce(broker, (0, large(b"a")))
    future, _ = broker.loop.jobs.pop()
    future.set_exception(ZeroDivisionError())
    while broker.loop.turn():
        pass
    assert codes(pending) == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_stored_batch_that_takes_long_is_searched_in_a_thread(broker: Broker) -> None:
    produce(broker, (0, large(b"a")))
    broker.loop.end_job()
    place = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=NOW_MS, current_leader_epoch=-1)
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[place])]
    pending = broker.send(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics), 7)
    assert not pending.answered
    broker.loop.end_job()
    (answer,) = pending.response.topics[0].partitions
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, 0, NOW_MS)
