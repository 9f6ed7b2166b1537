"""`Consumer` against a broker that does what the test says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.client import (
    Consumer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from actors.client.consumer.drain import Drain
from actors.client.consumer.positions import Chunk, PartitionState, Positions
from actors.client.errors import (
    ClosedError,
    CommitFailedError,
    ConcurrentUseError,
    CorruptMessageError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    HeartbeatFailedError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    SerializationError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    WakeupError,
)
from actors.client.group.member_types import Kind
from actors.client.net.network import Network
from actors.log.batch import build_batch, read_header, without_records
from actors.wire import messages as m
from tests.support.client_broker import DROP, RUBBISH, SILENCE, ScriptedBroker, broker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t", 2)
        yield running


def consumer(kafka: ScriptedBroker, *topics: str, **settings: Any) -> Consumer:
    settings.setdefault("auto_offset_reset", "earliest")
    settings.setdefault("fetch_max_wait_ms", 50)
    settings.setdefault("retry_backoff_ms", 20)
    return Consumer(*topics, bootstrap_servers=kafka.bootstrap_servers, **settings)


def poll_until(reader: Consumer, condition: Callable[[], Any], timeout_s: float = 60) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        for some in reader.poll(20).values():
            records += some
    return records


def read(reader: Consumer, count: int, timeout_s: float = 60) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        for some in reader.poll(50).values():
            records += some
    return records


def wait_for(condition: Callable[[], Any], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


class Recorder(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.calls.append(("revoked", revoked))

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.calls.append(("assigned", assigned))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.calls.append(("lost", lost))


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
        with pytest.raises(GroupAuthorizationFailedError):
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
        poll_until(reader, reader.assignment)
        lookups = len(kafka.requests(m.FindCoordinatorRequest))
        kafka.drop_connections()
        wait_for(lambda: len(kafka.requests(m.FindCoordinatorRequest)) > lookups)
        wait_for(lambda: reader._member.coordinator is not None)
        assert len(kafka.requests(m.FindCoordinatorRequest)) == lookups + 1
        poll_until(reader, lambda: reader._member.settled)
        assert len(kafka.requests(m.JoinGroupRequest)) == 2


def test_coordinator_traffic_has_a_connection_of_its_own(kafka):
    kafka.append("t", 0, b"a")
    with consumer(kafka, "t", group_id="g") as reader:
        read(reader, 1)
        ids = set(reader._network._peers)
        assert {1, 2147483646} <= ids


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
    versions = [version for message, version in kafka._received if isinstance(message, m.ApiVersionsRequest)]
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
    with consumer(kafka) as reader:
        reader.assign([T0])

        def poll() -> None:
            with pytest.raises(WakeupError):
                reader.poll(60_000)

        other = threading.Thread(target=poll)
        other.start()
        wait_for(lambda: reader._thread.busy)
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
        poll_until(reader, lambda: reader._positions.states[T0].position not in (99, None))
        assert reader.position(T0) == 2


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
        poll_until(reader, lambda: not reader.rebalance_due() and reader._member.settled)
        assert not reader.rebalance_due()


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


@pytest.mark.parametrize("arrow", [False, True])
def test_what_a_lapsed_session_holds_back_is_read_again_and_not_counted_as_consumed(kafka, monkeypatch, arrow):
    kafka.append("t", 0, b"a", b"b")
    with consumer(kafka) as reader:
        reader.assign([T0])
        wait_for(lambda: reader.poll(0, max_records=1) != {})
        reader.seek(T0, 0)
        wait_for(lambda: reader._positions.states[T0].chunks)
        answers = [True, False]  # the session ends while records are being decoded
        monkeypatch.setattr(reader._polling, "may_deliver", lambda: answers.pop(0) if answers else True)
        if arrow:
            assert reader.poll_arrow(0).num_rows == 0
        else:
            assert reader.poll(0) == {}
        assert reader.position(T0) == 0
        assert [r.value for r in read(reader, 2)] == [b"a", b"b"]


def test_what_arrives_while_a_chunk_is_used_up_is_counted():
    """A number that two threads change loses updates; too high a one would stop the fetching of its partition."""
    state = PartitionState(T0, position=0)

    class Arriving(bytes):
        def __len__(self) -> int:
            if state.added == 10:
                state.add(Chunk(state.token, bytes(100)))
            return 10

    state.add(Chunk(state.token, bytes(10)))
    state.chunks[0].data = Arriving(10)
    drain = Drain(
        Positions(),
        lock=threading.Lock(),
        reset_to=None,
        committed=False,
        check_crcs=True,
        key_of=lambda _: None,
        value_of=lambda _: None,
    )
    drain._finish(state, state.chunks[0])
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


def test_metadata_is_kept_fresh_after_a_callback_failed(kafka):
    with consumer(kafka) as reader:
        network, original = reader._network, reader._network.on_metadata

        def fail() -> None:
            network.on_metadata = original
            raise ValueError

        network.on_metadata = fail
        reader.assign([T0])
        wait_for(lambda: network.on_metadata is original)
        before = network.cluster.version
        network.soon(network.refresh)
        wait_for(lambda: network.cluster.version > before)


def test_a_forbidden_topic_is_raised_by_name(kafka):
    def forbidden(request: Any) -> Any:
        data = m.FetchResponse.PartitionData(partition_index=0, error_code=29)
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[data])])

    kafka.script(m.FetchRequest, forbidden)
    with consumer(kafka) as reader:
        reader.assign([T0])
        with pytest.raises(TopicAuthorizationFailedError) as raised:
            reader.poll(60_000)
        assert raised.value.topics == ["t"]


def test_a_partition_whose_leader_does_not_answer_keeps_no_other_from_its_first_position(kafka):
    kafka.append("t", 0, b"a")

    def one_only(request: Any) -> Any:
        response = kafka._on_listoffsets(request)
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


# --- the group ----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("E-17")
def test_eager_listener_calls_and_their_order(kafka):
    recorder = Recorder()
    with consumer(kafka, group_id="g", heartbeat_interval_ms=50) as reader:
        reader.subscribe(["t"], listener=recorder)
        poll_until(reader, lambda: recorder.calls)
        assert recorder.calls == [("assigned", [T0, T1])]
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=27))
        poll_until(reader, lambda: len(recorder.calls) == 3)
        assert recorder.calls[1:] == [("revoked", [T0, T1]), ("assigned", [T0, T1])]
        recorder.calls.clear()
    assert recorder.calls == [("revoked", [T0, T1])]


@pytest.mark.conformance("E-18")
def test_cooperative_members_read_what_they_keep_throughout(kafka):
    recorder = Recorder()
    settings = {"partition_assignment_strategy": ["cooperative-sticky"], "heartbeat_interval_ms": 50}
    with consumer(kafka, group_id="g", **settings) as reader:
        reader.subscribe(["t"], listener=recorder)
        poll_until(reader, lambda: reader.assignment() == {T0, T1})
        release = threading.Event()

        def slowly(request: Any) -> Any:
            release.wait(60)

        kafka.give = lambda member_id: [T0]
        kafka.script(m.JoinGroupRequest, slowly)
        joins = len(kafka.requests(m.JoinGroupRequest))
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=27))
        poll_until(reader, lambda: len(kafka.requests(m.JoinGroupRequest)) > joins)
        kafka.append("t", 0, b"during the rebalance")
        assert [r.value for r in read(reader, 1)] == [b"during the rebalance"]
        release.set()
        poll_until(reader, lambda: len(kafka.requests(m.JoinGroupRequest)) > joins + 1)
        assert recorder.calls[1:3] == [("revoked", [T1]), ("assigned", [])]
        assert reader.assignment() == {T0}


@pytest.mark.conformance("E-22")
def test_a_topic_made_before_joining_is_part_of_the_pattern_and_a_later_one_joins_in(kafka):
    with consumer(kafka, group_id="g", metadata_max_age_ms=100) as reader:
        reader.subscribe(pattern="t.*")
        kafka.topic("tea")
        poll_until(reader, lambda: reader.assignment())
        assert TopicPartition("tea", 0) in reader.assignment()
        kafka.topic("toast")
        poll_until(reader, lambda: TopicPartition("toast", 0) in reader.assignment())
        assert reader.subscription() == {"t", "tea", "toast"}


@pytest.mark.conformance("E-21")
def test_the_leader_rejoins_when_its_topic_grows(kafka):
    with consumer(kafka, "t", group_id="g", metadata_max_age_ms=100) as reader:
        poll_until(reader, lambda: reader.assignment())
        joined_before = len(kafka.requests(m.JoinGroupRequest))
        kafka.topic("t", 3)
        poll_until(reader, lambda: len(reader.assignment()) == 3)
        assert len(kafka.requests(m.JoinGroupRequest)) > joined_before


@pytest.mark.conformance("E-15")
def test_a_member_that_does_not_poll_leaves_and_hears_of_the_loss(kafka):
    recorder = Recorder()
    with consumer(kafka, group_id="g", max_poll_interval_ms=300, heartbeat_interval_ms=50) as reader:
        reader.subscribe(["t"], listener=recorder)
        poll_until(reader, lambda: reader.assignment())
        # It may have left before it was assigned anything: a slow machine polls as rarely.
        wait_for(lambda: kafka.order(m.SyncGroupRequest, m.LeaveGroupRequest)[-1] == "LeaveGroupRequest")
        poll_until(reader, lambda: len(recorder.calls) >= 3)
        assert recorder.calls[1:3] == [("lost", [T0, T1]), ("assigned", [T0, T1])]


@pytest.mark.conformance("E-14")
def test_a_fenced_member_learns_of_it_in_poll_and_gets_no_records(kafka):
    with consumer(kafka, "t", group_id="g", group_instance_id="i1", heartbeat_interval_ms=50) as reader:
        poll_until(reader, lambda: reader.assignment())
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=82))
        with pytest.raises(FencedInstanceIdError, match="group_instance_id"):
            poll_until(reader, lambda: False)


@pytest.mark.parametrize(
    "request_class", [m.FindCoordinatorRequest, m.JoinGroupRequest, m.SyncGroupRequest, m.HeartbeatRequest]
)
def test_an_answer_that_cannot_be_read_is_raised_by_poll_and_the_next_one_goes_on(kafka, request_class):
    kafka.script(request_class, RUBBISH)
    kafka.append("t", 0, b"a")
    with consumer(kafka, "t", group_id="g", heartbeat_interval_ms=50) as reader:
        name = request_class.__name__.removesuffix("Request")
        with pytest.raises(IllegalStateError, match=f"answer to {name} cannot be read"):
            poll_until(reader, lambda: False)
        poll_until(reader, reader.assignment)
        reader.seek_to_beginning(T0)
        assert [r.value for r in read(reader, 1)] == [b"a"]


def test_a_commit_whose_answer_cannot_be_read_raises(kafka):
    with consumer(kafka, "t", group_id="g") as reader:
        poll_until(reader, reader.assignment)
        kafka.script(m.OffsetCommitRequest, RUBBISH)
        with pytest.raises(IllegalStateError, match="OffsetCommit"):
            reader.commit({T0: 1})
        reader.commit({T0: 1})


@pytest.mark.parametrize("request_class", [m.ApiVersionsRequest, m.MetadataRequest, m.FetchRequest])
def test_answers_outside_the_group_that_cannot_be_read_are_asked_for_again(kafka, request_class):
    kafka.script(request_class, RUBBISH)
    kafka.append("t", 0, b"a")
    with consumer(kafka) as reader:
        reader.assign([T0])
        assert [r.value for r in read(reader, 1)] == [b"a"]


@pytest.mark.parametrize(
    "request_class", [m.FindCoordinatorRequest, m.JoinGroupRequest, m.SyncGroupRequest, m.HeartbeatRequest]
)
def test_a_request_that_cannot_even_be_sent_is_raised_by_poll_and_the_next_one_goes_on(
    kafka, monkeypatch, request_class
):
    ask, faults = Network.ask, [ValueError("a bug")]

    async def failing(network: Network, node: Any, request: Any, **options: Any) -> Any:
        if isinstance(request, request_class) and faults:
            raise faults.pop()
        return await ask(network, node, request, **options)

    monkeypatch.setattr(Network, "ask", failing)
    with consumer(kafka, "t", group_id="g", heartbeat_interval_ms=50) as reader:
        with pytest.raises(HeartbeatFailedError, match="a bug") as raised:
            poll_until(reader, lambda: False)
        assert isinstance(raised.value.__cause__, ValueError)
        poll_until(reader, reader.assignment)


@pytest.mark.parametrize("kind", [Kind.JOIN, Kind.SYNC, Kind.HEARTBEAT])
def test_what_an_answer_breaks_is_raised_by_poll_and_the_next_one_joins(kafka, kind):
    with consumer(kafka, group_id="g", heartbeat_interval_ms=50) as reader:
        tables = reader._member.answers.tables
        table = tables[kind]

        def failing(*_: Any) -> None:
            tables[kind] = table
            raise ValueError("a bug")

        tables[kind] = failing
        reader.subscribe(["t"])
        with pytest.raises(HeartbeatFailedError, match="a bug"):
            poll_until(reader, lambda: False)
        poll_until(reader, reader.assignment)


@pytest.mark.parametrize("method", ["on_time", "on_metadata"])
def test_what_fails_in_the_background_is_raised_by_poll_and_heartbeats_go_on(kafka, monkeypatch, method):
    with consumer(kafka, "t", group_id="g", heartbeat_interval_ms=50, metadata_max_age_ms=100) as reader:
        poll_until(reader, reader.assignment)

        def failing(*_: Any) -> None:
            monkeypatch.undo()
            raise ValueError("a bug")

        monkeypatch.setattr(reader._member, method, failing)
        with pytest.raises(HeartbeatFailedError, match="a bug"):
            poll_until(reader, lambda: False)
        beats = len(kafka.requests(m.HeartbeatRequest))
        poll_until(reader, lambda: len(kafka.requests(m.HeartbeatRequest)) > beats + 1)


@pytest.mark.parametrize(("request_class", "newest"), [(m.JoinGroupRequest, 4), (m.SyncGroupRequest, 2)])
def test_with_a_broker_that_has_no_static_members_the_error_says_what_to_unset(kafka, request_class, newest):
    kafka.versions[request_class] = (1, newest)
    with consumer(kafka, "t", group_id="g", group_instance_id="i1") as reader:
        with pytest.raises(UnsupportedVersionError, match=r"unset group_instance_id.*\(35\).* versions 1 to") as raised:
            poll_until(reader, lambda: False)
        assert raised.value.code == 35
    with consumer(kafka, "t", group_id="g") as reader:
        poll_until(reader, reader.assignment)


@pytest.mark.conformance("E-16")
def test_nothing_is_delivered_past_the_session_though_records_are_there(kafka):
    kafka.append("t", 0, *[b"%d" % n for n in range(100)])
    settings = {"session_timeout_ms": 600, "heartbeat_interval_ms": 100, "enable_auto_commit": False}
    with consumer(kafka, "t", group_id="g", **settings) as reader:
        assert len(reader.poll(60_000, max_records=1)) == 1
        kafka.script(m.HeartbeatRequest, *[SILENCE] * 50)
        wait_for(lambda: len(kafka._scripts[m.HeartbeatRequest]) < 50)  # those before have been answered
        deadline = reader._member.live.deliver_until_ms
        wait_for(lambda: time.monotonic() * 1000 > deadline + 20)
        assert reader.poll(0, max_records=1) == {}
        with pytest.raises(CommitFailedError, match="session_timeout_ms"):
            reader.commit()
        assert kafka.requests(m.LeaveGroupRequest) == []


@pytest.mark.conformance("E-25")
def test_close_of_a_dynamic_member_commits_calls_the_listener_and_leaves(kafka):
    kafka.append("t", 0, b"a")
    recorder = Recorder()
    reader = consumer(kafka, group_id="g", auto_commit_interval_ms=60_000)
    reader.subscribe(["t"], listener=recorder)
    read(reader, 1)
    reader.close()
    assert recorder.calls[-1] == ("revoked", [T0, T1])
    assert kafka.committed[T0] == 1
    order = kafka.order(m.OffsetCommitRequest, m.LeaveGroupRequest)
    assert order == ["OffsetCommitRequest", "LeaveGroupRequest"]


@pytest.mark.conformance("E-25", "B-91")
def test_close_of_a_static_member_sends_no_leave_group(kafka):
    with consumer(kafka, "t", group_id="g", group_instance_id="i1") as reader:
        poll_until(reader, lambda: reader.assignment())
    assert kafka.requests(m.LeaveGroupRequest) == []


def test_unsubscribe_leaves(kafka):
    with consumer(kafka, "t", group_id="g") as reader:
        poll_until(reader, lambda: reader.assignment())
        reader.unsubscribe()
        assert reader.assignment() == set()
        wait_for(lambda: kafka.requests(m.LeaveGroupRequest))


def test_a_wakeup_inside_the_assigned_callback_repeats_it_without_a_new_join(kafka):
    class Impatient(Recorder):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            if len(self.calls) == 1:
                reader.wakeup()
                reader.poll(0)

    recorder = Impatient()
    with consumer(kafka, group_id="g") as reader:
        reader.subscribe(["t"], listener=recorder)
        with pytest.raises(WakeupError):
            poll_until(reader, lambda: False)
        joins = len(kafka.requests(m.JoinGroupRequest))
        poll_until(reader, lambda: len(recorder.calls) == 2)
        assert recorder.calls == [("assigned", [T0, T1])] * 2
        assert len(kafka.requests(m.JoinGroupRequest)) == joins


# --- commits ------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("E-23")
def test_auto_commit_in_passing_before_a_rebalance_and_on_close(kafka):
    kafka.append("t", 0, b"a")
    settings = {"auto_commit_interval_ms": 100, "heartbeat_interval_ms": 50}
    with consumer(kafka, "t", group_id="g", **settings) as reader:
        read(reader, 1)
        poll_until(reader, lambda: kafka.committed.get(T0) == 1)
    kafka.append("t", 0, b"b")
    with consumer(kafka, "t", group_id="g", auto_commit_interval_ms=60_000, heartbeat_interval_ms=50) as reader:
        assert [r.value for r in read(reader, 1)] == [b"b"]
        joins = len(kafka.requests(m.JoinGroupRequest))
        commits = len(kafka.requests(m.OffsetCommitRequest))
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=27))
        poll_until(reader, lambda: len(kafka.requests(m.JoinGroupRequest)) > joins)
        assert kafka.committed[T0] == 2
        order = kafka.order(m.OffsetCommitRequest, m.JoinGroupRequest)
        assert order[-2:] == ["OffsetCommitRequest", "JoinGroupRequest"]
        assert len(kafka.requests(m.OffsetCommitRequest)) == commits + 1
        poll_until(reader, lambda: reader.assignment())
        assert (reader.position(T0), reader.position(T1)) == (2, 0)  # before they are known there is nothing to commit
        before = len(kafka.requests(m.OffsetCommitRequest))
        reader.close()
        assert len(kafka.requests(m.OffsetCommitRequest)) == before + 1


@pytest.mark.conformance("E-24")
def test_commits_refused_while_rebalancing_and_after_being_kicked_out(kafka):
    kafka.append("t", 0, b"a")
    with consumer(kafka, "t", group_id="g", enable_auto_commit=False) as reader:
        read(reader, 1)
        kafka.script(m.OffsetCommitRequest, lambda request: kafka._on_offsetcommit(request, 27))
        with pytest.raises(RebalanceInProgressError, match="poll"):
            reader.commit()
        poll_until(reader, lambda: reader.assignment() and reader._member.settled)
        kafka.script(m.OffsetCommitRequest, lambda request: kafka._on_offsetcommit(request, 25))
        with pytest.raises(CommitFailedError, match="max_poll_interval_ms"):
            reader.commit({T0: OffsetAndMetadata(1)})
        with pytest.raises(CommitFailedError):
            reader.commit({T0: OffsetAndMetadata(1)})


@pytest.mark.conformance("E-26")
def test_manually_assigned_consumers_commit_as_nobody_in_particular(kafka):
    kafka.append("t", 0, b"a", b"b")
    with consumer(kafka, group_id="g", group_instance_id="i1", auto_commit_interval_ms=60_000) as reader:
        reader.assign([T0])
        read(reader, 2)
        reader.commit()
        (request,) = kafka.requests(m.OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        assert request.group_instance_id is None
        assert reader.committed(T0).offset == 2
        assert reader.committed(T1) is None
    assert kafka.requests(m.JoinGroupRequest) == []


def test_a_commit_is_tried_again_while_that_may_help(kafka):
    with consumer(kafka, group_id="g", enable_auto_commit=False) as reader:
        reader.assign([T0])
        for code in (14, 16, 3):
            kafka.script(m.OffsetCommitRequest, lambda request, code=code: kafka._on_offsetcommit(request, code))
        reader.commit({T0: OffsetAndMetadata(7)})
        assert kafka.committed[T0] == 7
        kafka.script(m.OffsetCommitRequest, *[SILENCE] * 5)
        with pytest.raises(KafkaTimeoutError):
            reader.commit({T0: OffsetAndMetadata(8)}, timeout_ms=300)


def test_close_waits_for_commits_that_were_begun(kafka):
    heard: list[Any] = []
    with consumer(kafka, group_id="g", enable_auto_commit=False) as reader:
        reader.assign([T0])
        reader.commit_async(
            {T0: OffsetAndMetadata(7)}, lambda offsets, error: heard.append((offsets[T0].offset, error))
        )
    assert heard == [(7, None)]
    assert len(kafka.requests(m.OffsetCommitRequest)) == 1


def test_a_negative_offset_is_refused(kafka):
    with consumer(kafka, group_id="g") as reader:
        reader.assign([T0])
        with pytest.raises(ValueError, match="negative"):
            reader.commit({T0: OffsetAndMetadata(-1)})


def test_the_callback_of_an_async_commit_runs_in_a_later_poll_in_the_callers_thread(kafka):
    done: list[Any] = []
    with consumer(kafka, group_id="g", enable_auto_commit=False) as reader:
        reader.assign([T0])
        reader.commit_async({T0: OffsetAndMetadata(1)}, lambda *args: done.append((threading.get_ident(), *args)))
        wait_for(lambda: kafka.committed.get(T0) == 1)
        wait_for(lambda: reader._commits.unheard)
        assert done == []
        reader.poll(0)
        assert done == [(threading.get_ident(), {T0: OffsetAndMetadata(1)}, None)]
        kafka.script(m.OffsetCommitRequest, lambda request: kafka._on_offsetcommit(request, 14))
        reader.commit_async({T0: OffsetAndMetadata(2)}, lambda *args: done.append(args))
        poll_until(reader, lambda: len(done) == 2)
        assert done[1][1].retriable
        assert kafka.committed[T0] == 1, "an async commit is not repeated"


def test_reading_goes_on_at_the_committed_offset(kafka):
    kafka.append("t", 0, b"a", b"b", b"c")
    kafka.committed[T0] = 2
    kafka.script(
        m.OffsetFetchRequest,
        lambda request: m.OffsetFetchResponse(
            groups=[m.OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", error_code=14)]
        ),
    )
    with consumer(kafka, "t", group_id="g") as reader:
        assert [r.value for r in read(reader, 1)] == [b"c"]
        assert all(request.require_stable for request in kafka.requests(m.OffsetFetchRequest))


@pytest.mark.conformance("E-10")
def test_the_join_waits_longer_than_other_requests(kafka):
    release = threading.Event()
    kafka.script(m.JoinGroupRequest, None, lambda request: release.wait(60) and None)
    with consumer(kafka, "t", group_id="g", request_timeout_ms=300) as reader:
        poll_until(reader, lambda: len(kafka.requests(m.JoinGroupRequest)) == 2)
        begin = time.monotonic()
        poll_until(reader, lambda: time.monotonic() - begin > 0.6)
        assert len(kafka.requests(m.JoinGroupRequest)) == 2
        release.set()
        poll_until(reader, lambda: reader.assignment())


@pytest.mark.conformance("E-23")
def test_a_commit_before_a_rebalance_that_may_pass_is_repeated_after_the_backoff(kafka):
    kafka.append("t", 0, b"a")
    settings = {"auto_commit_interval_ms": 60_000, "heartbeat_interval_ms": 50, "retry_backoff_ms": 100}
    with consumer(kafka, "t", group_id="g", **settings) as reader:
        read(reader, 1)
        joins = len(kafka.requests(m.JoinGroupRequest))
        kafka.script(m.OffsetCommitRequest, *[lambda request: kafka._on_offsetcommit(request, 14)] * 3)
        begin = time.monotonic()
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=27))
        poll_until(reader, lambda: len(kafka.requests(m.JoinGroupRequest)) > joins)
        assert time.monotonic() - begin >= 0.3
        assert len(kafka.requests(m.OffsetCommitRequest)) == 4
        assert kafka.committed[T0] == 1
