"""Records, batches and answers that a consumer cannot read, and leaders that move."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from actors.client import (
    TopicPartition,
)
from actors.client.consumer.drain import Drain
from actors.client.consumer.positions import Chunk, Positions
from actors.client.errors import (
    CorruptMessageError,
    SerializationError,
    TopicAuthorizationError,
)
from actors.records.batch import HEADER_BYTES
from actors.wire import messages as m
from tests.support.client_broker import DROP
from tests.support.consuming import T0, T1, consumer, read, wait_for

# --- what cannot be read --------------------------------------------------------------------------------------------


def test_a_bad_record_keeps_no_record_before_or_beside_it_and_is_not_passed_unseen(kafka):
    kafka.append("t", 0, b"0", b"1", b"x", b"3")
    kafka.append("t", 0, b"4")
    kafka.append("t", 1, b"10", b"11")
    with consumer(kafka, value_deserializer=int) as reader:
        reader.assign([T0, T1])
        seen: list[tuple[TopicPartition, int]] = []
        failures = 0
        deadline = time.monotonic() + 60
        while failures < 3:
            assert time.monotonic() < deadline
            try:
                taken = reader.poll(200)
            except SerializationError:
                failures += 1
            else:
                seen += [(tp, r.value) for tp, some in taken.items() for r in some]
        assert sorted(seen) == [(T0, 0), (T0, 1), (T1, 10), (T1, 11)]
        assert (reader.position(T0), reader.position(T1)) == (2, 2)
        reader.seek(T0, 3)
        assert [r.value for r in read(reader, 2)] == [3, 4]


def test_iteration_meets_a_bad_record_after_those_before_it(kafka):
    kafka.append("t", 0, b"0", b"1", b"x", b"3")
    with consumer(kafka, value_deserializer=int) as reader:
        reader.assign([T0])
        assert [next(reader).value, next(reader).value] == [0, 1]
        for _ in range(2):
            with pytest.raises(SerializationError):
                next(reader)
        reader.seek(T0, 3)
        assert next(reader).value == 3


@pytest.mark.parametrize("arrow", [False, True])
def test_a_damaged_batch_stays_in_the_way_and_loses_nothing_beside_it(kafka, arrow):
    kafka.append("t", 0, b"a")
    kafka.append("t", 0, b"bad")
    kafka.logs[T0][-3] ^= 0xFF
    kafka.append("t", 0, b"c")
    kafka.append("t", 1, b"d")
    with consumer(kafka) as reader:
        reader.assign([T0, T1])
        seen: list[bytes] = []
        failures = 0
        deadline = time.monotonic() + 60
        while failures < 3:
            assert time.monotonic() < deadline
            try:
                if arrow:
                    seen += reader.poll_arrow(200).column("value").to_pylist()
                else:
                    seen += [r.value for some in reader.poll(200).values() for r in some]
            except CorruptMessageError:
                failures += 1
        assert sorted(seen) == [b"a", b"d"]
        reader.seek(T0, 2)
        assert [r.value for r in read(reader, 1)] == [b"c"]


@pytest.mark.parametrize("sizes", [(1, 1, 1), (300, 400, 300)])
def test_a_batch_that_cannot_be_decoded_keeps_no_batch_before_it(kafka, sizes):
    """Arrow batches are made of several batches at once; of these, all before the bad one come, too."""
    before, bad, after = sizes
    kafka.append("t", 0, *[b"before"] * before)
    kafka.append("t", 0, *[b"too"] * before)
    at = len(kafka.logs[T0])
    kafka.append("t", 0, *[b"bad"] * bad)
    kafka.logs[T0][at + HEADER_BYTES] ^= 0x02  # the length of a record
    kafka.append("t", 0, *[b"after"] * after)
    with consumer(kafka, check_crcs=False) as reader:
        reader.assign([T0])
        seen: list[bytes] = []
        failures = 0
        while failures < 3:
            try:
                seen += reader.poll_arrow(60_000).column("value").to_pylist()
            except CorruptMessageError:
                failures += 1
        assert seen == [b"before"] * before + [b"too"] * before
        assert reader.position(T0) == 2 * before
        reader.seek(T0, 2 * before + bad)
        assert reader.poll_arrow(60_000).column("value").to_pylist() == [b"after"] * after


@pytest.mark.parametrize("arrow", [False, True])
def test_what_a_lapsed_session_holds_back_is_read_again_and_not_counted_as_consumed(kafka, arrow):
    kafka.append("t", 0, b"a", b"b")
    with consumer(kafka) as reader:
        reader.assign([T0])
        wait_for(lambda: reader.poll(0, max_records=1) != {})
        reader.seek(T0, 0)
        wait_for(lambda: reader.metrics()["buffered_bytes"])
        answers = [True, False]  # the session ends while records are being decoded
        here = threading.get_ident()
        reader.member.may_deliver = lambda _: answers.pop(0) if answers and threading.get_ident() == here else True
        if arrow:
            assert reader.poll_arrow(0).num_rows == 0
        else:
            assert reader.poll(0) == {}
        assert reader.position(T0) == 0
        assert [r.value for r in read(reader, 2)] == [b"a", b"b"]


def test_what_arrives_while_a_chunk_is_used_up_is_counted():
    """A number that two threads change loses updates; too high a one would stop the fetching of its partition."""
    positions = Positions()
    (state,) = positions.assign([T0])
    state.seek(0)

    class Arriving(bytes):
        def __len__(self) -> int:
            if state.added == 10:
                state.add(Chunk(state.token - 1, bytes(100)))  # it is dropped, and not counted as used
            return 10

    state.add(Chunk(state.token, bytes(10)))
    state.chunks[0].data = Arriving(10)
    drain = Drain(
        positions,
        lock=threading.Lock(),
        reset_to=None,
        committed=False,
        check_crcs=True,
        key_of=lambda _: None,
        value_of=lambda _: None,
    )
    assert drain.take(1) == {}
    assert state.buffered == 100


def test_an_answer_for_a_partition_nobody_asked_for_does_not_spin_or_stop_the_fetching(kafka):
    kafka.append("t", 0, b"a")

    def unasked(request: Any) -> Any:
        topic = m.FetchResponse.FetchableTopicResponse(
            topic="t", partitions=[m.FetchResponse.PartitionData(partition_index=77)]
        )
        return m.FetchResponse(responses=[topic])

    kafka.script(m.FetchRequest, *[unasked] * 3)
    with consumer(kafka, retry_backoff_ms=50) as reader:
        started = time.monotonic()
        reader.assign([T0])
        assert [r.value for r in read(reader, 1)] == [b"a"]
        assert time.monotonic() - started > 0.1


def test_a_forbidden_topic_is_raised_by_name(kafka):
    def forbidden(request: Any) -> Any:
        data = m.FetchResponse.PartitionData(partition_index=0, error_code=29)
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[data])])

    kafka.script(m.FetchRequest, forbidden)
    with consumer(kafka) as reader:
        reader.assign([T0])
        with pytest.raises(TopicAuthorizationError) as raised:
            reader.poll(60_000)
        assert raised.value.topics == ["t"]


def test_a_partition_whose_leader_does_not_answer_keeps_no_other_from_its_first_position(kafka):
    kafka.append("t", 0, b"a")

    def one_only(request: Any) -> Any:
        response = kafka.on_listoffsets(request)
        for partition in response.topics[0].partitions:
            if partition.partition_index == 1:
                partition.error_code = 6
        return response

    kafka.script(m.ListOffsetsRequest, *[one_only] * 1000)
    with consumer(kafka) as reader:
        reader.assign([T0, T1])
        assert [r.value for r in read(reader, 1)] == [b"a"]


def test_a_moved_leader_is_found_again(kafka):
    kafka.append("t", 0, b"a")

    def moved(request: Any) -> Any:
        data = m.FetchResponse.PartitionData(partition_index=0, error_code=6)
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[data])])

    kafka.script(m.FetchRequest, moved, DROP)
    with consumer(kafka) as reader:
        reader.assign([T0])
        assert [r.value for r in read(reader, 1)] == [b"a"]
    assert len(kafka.requests(m.MetadataRequest)) >= 2


def test_a_log_cut_under_a_new_leader_is_noticed(kafka):
    kafka.append("t", 0, b"a", b"b", b"c")
    with consumer(kafka, metadata_max_age_ms=100) as reader:
        reader.assign([T0])
        read(reader, 3)

        def cut(request: Any) -> Any:
            part = m.OffsetForLeaderEpochResponse
            end = part.EpochEndOffset(partition=0, leader_epoch=0, end_offset=1)
            return part(topics=[part.OffsetForLeaderTopicResult(topic="t", partitions=[end])])

        kafka.script(m.OffsetForLeaderEpochRequest, cut)
        with kafka.changed:
            kafka.logs[T0].clear()
            kafka.ends[T0] = 0
            kafka.append("t", 0, b"a")
            kafka.epoch = 1
        kafka.append("t", 0, b"x", b"y", b"z")
        assert [r.value for r in read(reader, 3)] == [b"x", b"y", b"z"]
