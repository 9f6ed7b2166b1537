"""`Consumer` against a broker that does what the test says: finding its coordinator, and reading."""

from __future__ import annotations

import threading
import time

import pytest

from actors.client import Consumer, OffsetAndMetadata
from actors.client.errors import (
    ClosedError,
    ConcurrentUseError,
    CorruptMessageError,
    GroupAuthorizationError,
    IllegalStateError,
    InvalidGroupIdError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    SerializationError,
    WakeupError,
)
from actors.records.batch import read_header, without_records
from actors.records.building import build_batch
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker
from tests.support.consuming import T0, T1, consumer, poll_until, read, wait_for

# --- finding the coordinator ------------------------------------------------------------------------------------


@pytest.mark.conformance("E-02")
def test_a_lookup_answered_15_is_repeated_until_it_succeeds(kafka):
    unavailable = m.FindCoordinatorResponse(
        coordinators=[m.FindCoordinatorResponse.Coordinator(key="g", error_code=15)]
    )
    kafka.script(m.FindCoordinatorRequest, unavailable, unavailable, unavailable)
    kafka.append("t", 0, b"a")
    with consumer(kafka, "t", group_id="g") as reader:
        assert [r.value for r in read(reader, 1)] == [b"a"]
    assert len(kafka.requests(m.FindCoordinatorRequest)) == 4


@pytest.mark.conformance("E-02")
def test_poll_gives_up_after_its_timeout_and_fetches_nothing(kafka):
    kafka.script(
        m.FindCoordinatorRequest,
        *[
            m.FindCoordinatorResponse(coordinators=[m.FindCoordinatorResponse.Coordinator(key="g", error_code=15)])
            for _ in range(500)
        ],
    )
    with consumer(kafka, "t", group_id="g") as reader:
        begin = time.monotonic()
        assert reader.poll(300) == {}
        assert 0.25 < time.monotonic() - begin < 30
        assert kafka.requests(m.FetchRequest) == []


@pytest.mark.conformance("E-03")
def test_a_lookup_answered_30_raises(kafka):
    forbidden = m.FindCoordinatorResponse.Coordinator(key="g", error_code=30)
    kafka.script(m.FindCoordinatorRequest, m.FindCoordinatorResponse(coordinators=[forbidden]))
    with consumer(kafka, "t", group_id="g") as reader:
        with pytest.raises(GroupAuthorizationError):
            reader.poll(60_000)


@pytest.mark.conformance("E-04")
def test_a_broken_connection_costs_no_rebalance(kafka):
    kafka.append("t", 0, b"a")
    with consumer(kafka, "t", group_id="g", heartbeat_interval_ms=50) as reader:
        read(reader, 1)
        member = reader.group_metadata()
        beats = len(kafka.requests(m.HeartbeatRequest))
        kafka.drop_connections()
        kafka.append("t", 0, b"b")
        assert [r.value for r in read(reader, 1)] == [b"b"]
        poll_until(reader, lambda: len(kafka.requests(m.HeartbeatRequest)) > beats + 2)
        assert reader.group_metadata() == member
    assert len(kafka.requests(m.JoinGroupRequest)) == 2


@pytest.mark.conformance("E-04")
def test_a_coordinator_lost_while_idle_is_looked_for_at_once(kafka):
    settings = {"heartbeat_interval_ms": 15_000, "enable_auto_commit": False}
    with consumer(kafka, "t", group_id="g", **settings) as reader:
        poll_until(reader, lambda: kafka.requests(m.FetchRequest))  # nothing is asked of the coordinator then
        lookups = len(kafka.requests(m.FindCoordinatorRequest))
        kafka.drop_connections()
        wait_for(lambda: len(kafka.requests(m.FindCoordinatorRequest)) > lookups)
        wait_for(lambda: reader.member.coordinator is not None)
        assert len(kafka.requests(m.FindCoordinatorRequest)) == lookups + 1
        poll_until(reader, lambda: reader.member.settled)
        assert len(kafka.requests(m.JoinGroupRequest)) == 2


def test_coordinator_traffic_has_a_connection_of_its_own(kafka):
    kafka.append("t", 0, b"a")
    with consumer(kafka, "t", group_id="g", heartbeat_interval_ms=50) as reader:
        read(reader, 1)
        poll_until(reader, lambda: kafka.requests(m.HeartbeatRequest))
    assert not kafka.connections_of(m.FetchRequest) & kafka.connections_of(m.HeartbeatRequest)


def test_without_a_broker_poll_returns_nothing_and_raises_nothing():
    with broker() as gone:
        servers = gone.bootstrap_servers
    with Consumer("t", group_id="g", bootstrap_servers=servers) as reader:
        assert reader.poll(200) == {}


def test_a_broker_that_knows_only_old_api_versions(kafka):
    kafka.script(m.ApiVersionsRequest, *[m.ApiVersionsResponse(error_code=35)] * 1)
    kafka.append("t", 0, b"a")
    with consumer(kafka) as reader:
        reader.assign([T0])
        assert [r.value for r in read(reader, 1)] == [b"a"]
    versions = kafka.versions_of(m.ApiVersionsRequest)
    assert versions[:2] == [3, 0]


# --- reading ----------------------------------------------------------------------------------------------------


def test_assigned_partitions_are_read_without_any_group_request(kafka):
    kafka.append("t", 0, b"a", b"b", key=b"k", headers=[("h", b"1")])
    kafka.append("t", 1, b"c")
    with consumer(kafka) as reader:
        reader.assign([T0, T1])
        records = read(reader, 3)
        first = next(r for r in records if r.value == b"a")
        assert (first.topic, first.partition, first.offset, first.key) == ("t", 0, 0, b"k")
        assert first.headers == [("h", b"1")]
        assert first.timestamp == 1_700_000_000_000
        assert reader.position(T0) == 2
    assert kafka.requests(m.FindCoordinatorRequest) == []
    assert kafka.requests(m.JoinGroupRequest) == []


def test_poll_returns_no_more_than_it_was_asked_for(kafka):
    kafka.append("t", 0, *[b"%d" % n for n in range(25)])
    with consumer(kafka, max_poll_records=10) as reader:
        reader.assign([T0])
        sizes = []
        while sum(sizes) < 25:
            sizes += [len(some) for some in reader.poll(1000, max_records=7 if not sizes else None).values()]
        assert sizes == [7, 10, 8]


def test_deserializers_and_their_failures(kafka):
    kafka.append("t", 0, b"5", key=b"k")
    kafka.append("t", 1, b"x")
    with consumer(kafka, value_deserializer=int, key_deserializer=bytes.decode) as reader:
        reader.assign([T0])
        assert [(r.key, r.value, r.serialized_value_size) for r in read(reader, 1)] == [("k", 5, 1)]
        reader.assign([T1])
        with pytest.raises(SerializationError, match="ValueError"):
            reader.poll(60_000)


def test_arrow_batches_have_the_same_records(kafka):
    kafka.append("t", 0, b"a", b"b", key=b"k", headers=[("h", b"1")])
    kafka.append("t", 0, b"c")
    with consumer(kafka) as reader:
        reader.assign([T0])
        batch = reader.poll_arrow(60_000, headers=True)
        assert batch.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
        assert batch.column("value").to_pylist() == [b"a", b"b", b"c"]
        assert batch.column("offset").to_pylist() == [0, 1, 2]
        assert batch.column("key").to_pylist() == [b"k", b"k", None]
        assert batch.column("topic").to_pylist() == ["t"] * 3
        assert batch.column("headers").to_pylist()[0] == [{"key": "h", "value": b"1"}]
        assert reader.position(T0) == 3
        assert reader.poll_arrow(0).num_rows == 0


def test_arrow_goes_on_within_a_batch_that_poll_has_begun(kafka):
    kafka.append("t", 0, *[b"%d" % n for n in range(10)])
    with consumer(kafka) as reader:
        reader.assign([T0])
        assert len(reader.poll(60_000, max_records=4)[T0]) == 4
        assert reader.poll_arrow(60_000).column("value").to_pylist() == [b"%d" % n for n in range(4, 10)]


def test_seek_pause_and_resume(kafka):
    kafka.append("t", 0, b"a", b"b", b"c")
    kafka.append("t", 1, b"x")
    with consumer(kafka) as reader:
        reader.assign([T0, T1])
        read(reader, 4)
        reader.seek(T0, 1)
        assert [r.value for r in read(reader, 2)] == [b"b", b"c"]
        reader.pause(T0)
        reader.seek_to_beginning(T0, T1)
        assert [r.value for r in read(reader, 1)] == [b"x"]
        assert reader.paused() == {T0}
        assert reader.poll(150) == {}
        reader.resume(T0)
        assert [r.value for r in read(reader, 3)] == [b"a", b"b", b"c"]
        reader.seek_to_end(T0)
        assert reader.position(T0) == 3


def test_offsets_of_both_ends(kafka):
    kafka.append("t", 0, b"a", b"b", b"c")
    with consumer(kafka) as reader:
        assert reader.beginning_offsets([T0]) == {T0: 0}
        assert reader.end_offsets([T0, T1]) == {T0: 3, T1: 0}
        assert reader.partitions_for_topic("t") == {0, 1}
        assert reader.topics() == {"t"}


def test_iteration_counts_a_record_once_the_next_one_is_asked_for(kafka):
    kafka.append("t", 0, b"a", b"b", b"c")
    with consumer(kafka) as reader:
        reader.assign([T0])
        assert next(reader).value == b"a"
        assert next(reader).value == b"b"
        assert reader.position(T0) == 1
        assert [r.value for r in reader.poll(60_000)[T0]] == [b"c"], "poll goes on where iteration stands"


def fail_at_b(kafka: ScriptedBroker) -> None:
    with consumer(kafka, group_id="g") as reader:
        reader.assign([T0])
        for record in reader:
            if record.value == b"b":
                raise ZeroDivisionError


def test_a_record_whose_handling_raised_is_not_committed(kafka):
    kafka.append("t", 0, b"a", b"b", b"c")
    with pytest.raises(ZeroDivisionError):
        fail_at_b(kafka)
    assert kafka.committed == {T0: 1}
    with consumer(kafka, group_id="g") as reader:
        reader.assign([T0])
        for record in reader:
            assert record.value == b"b"
            break
    assert kafka.committed == {T0: 2}, "after a break, the record in hand counts"


def test_wakeup_raises_in_the_poll_that_waits(kafka):
    with consumer(kafka) as reader:
        reader.assign([T0])
        threading.Timer(0.1, reader.wakeup).start()
        begin = time.monotonic()
        with pytest.raises(WakeupError):
            reader.poll(20_000)
        assert time.monotonic() - begin < 10
        assert reader.poll(0) == {}


def test_two_threads_at_once_are_refused(kafka):
    polls = threading.Event()
    with consumer(kafka, group_id="g", enable_auto_commit=False) as reader:
        reader.assign([T0])
        reader.commit_async({T0: OffsetAndMetadata(0)}, lambda *_: polls.set())

        def poll() -> None:
            with pytest.raises(WakeupError):
                reader.poll(60_000)

        other = threading.Thread(target=poll)
        other.start()
        assert polls.wait(60)
        with pytest.raises(ConcurrentUseError):
            reader.poll(0)
        reader.wakeup()
        other.join()
    with pytest.raises(ClosedError):
        reader.poll(0)


def test_polling_without_a_subscription_is_an_illegal_state(kafka):
    with consumer(kafka) as reader:
        with pytest.raises(IllegalStateError):
            reader.poll(0)
        with pytest.raises(InvalidGroupIdError, match="group_id"):
            reader.subscribe(["t"])
        with pytest.raises(InvalidGroupIdError):
            reader.commit()


def test_no_assignor_at_all_is_an_illegal_state(kafka):
    with consumer(kafka, "t", group_id="g", partition_assignment_strategy=[]) as reader:
        with pytest.raises(IllegalStateError, match="partition_assignment_strategy"):
            reader.poll(100)


def test_aborted_transactions_are_left_out_when_reading_committed(kafka):
    marker = {"is_transactional": True, "is_control": True, "producer_id": 9}
    abort, commit = marker | {"key": b"\0\0\0\0"}, marker | {"key": b"\0\0\0\1"}
    kafka.append("t", 0, b"a", is_transactional=True, producer_id=9)
    kafka.append("t", 0, b"", **abort)
    kafka.append("t", 0, b"b", is_transactional=True, producer_id=9)
    kafka.append("t", 0, b"", **commit)
    kafka.append("t", 0, b"c")
    kafka.aborted[T0] = [(9, 0)]
    for level, expected in (("read_committed", [b"b", b"c"]), ("read_uncommitted", [b"a", b"b", b"c"])):
        with consumer(kafka, isolation_level=level) as reader:
            reader.assign([T0])
            assert [r.value for r in read(reader, len(expected))] == expected
            assert reader.position(T0) == 5


@pytest.mark.parametrize("arrow", [False, True])
def test_batches_that_compaction_has_emptied_are_passed(kafka, arrow):
    for sequence in range(3):
        batch = build_batch([(b"k", b"a", None, 0)], producer_id=1, producer_epoch=0, base_sequence=sequence)
        kafka.append_batch(T0, without_records(read_header(batch)) if sequence != 1 else batch)
    with consumer(kafka) as reader:
        reader.assign([T0])
        if arrow:
            assert reader.poll_arrow(60_000).column("offset").to_pylist() == [1]
            assert reader.poll_arrow(0).num_rows == 0
        else:
            assert [r.offset for r in read(reader, 1)] == [1]
            assert reader.poll(0) == {}
        assert reader.position(T0) == 3


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_an_offset_out_of_range_goes_where_the_policy_says(kafka, policy):
    kafka.append("t", 0, b"a", b"b")
    with consumer(kafka, auto_offset_reset=policy) as reader:
        reader.assign([T0])
        reader.position(T0)
        reader.seek(T0, 99)
        read_again = poll_until(reader, lambda: reader.position(T0) == 2)
        assert [r.value for r in read_again] == ([b"a", b"b"] if policy == "earliest" else [])


def test_an_offset_out_of_range_is_raised_without_a_policy(kafka):
    kafka.append("t", 0, b"a")
    with consumer(kafka, auto_offset_reset="none", group_id="g") as reader:
        reader.assign([T0])
        with pytest.raises(NoOffsetForPartitionError, match="auto_offset_reset"):
            reader.poll(60_000)
        reader.seek(T0, 99)
        with pytest.raises(OffsetOutOfRangeError, match="t-0 at 99") as raised:
            reader.poll(60_000)
        assert raised.value.offsets == {T0: 99}
        reader.seek(T0, 0)
        assert [r.value for r in read(reader, 1)] == [b"a"]


def test_a_damaged_batch_is_an_error_until_it_is_passed(kafka):
    kafka.append("t", 0, b"a")
    kafka.logs[T0][-3] ^= 0xFF
    kafka.append("t", 0, b"b")
    with consumer(kafka) as reader:
        reader.assign([T0])
        with pytest.raises(CorruptMessageError, match="checksum"):
            reader.poll(60_000)
        reader.seek(T0, 1)
        assert [r.value for r in read(reader, 1)] == [b"b"]


def test_a_busy_program_can_see_that_the_group_waits_for_its_poll(kafka):
    settings = {"heartbeat_interval_ms": 50, "session_timeout_ms": 10_000}
    with consumer(kafka, "t", group_id="g", **settings) as reader:
        poll_until(reader, reader.assignment)
        assert not reader.rebalance_due()
        assert not reader.session_lapsed()
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=27))
        wait_for(reader.rebalance_due)
        joins = len(kafka.requests(m.JoinGroupRequest))
        poll_until(reader, lambda: len(kafka.requests(m.JoinGroupRequest)) > joins)
        poll_until(reader, lambda: not reader.rebalance_due() and reader.member.settled)
        assert not reader.rebalance_due()
