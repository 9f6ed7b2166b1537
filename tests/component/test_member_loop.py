"""What a consumer actor does with its records: retries, dead letters, commits at the right moments. No broker."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.client import ConsumerRecord, OffsetAndMetadata, TopicPartition
from actors.client.errors import CommitFailedError, ConfigurationError, KafkaTimeoutError, RebalanceInProgressError
from actors.links.member_report import MemberReport
from actors.members.handler_member import HandlerFailedError, MemberLoop, MemberSpec
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(offset: int, partition: int = 0, headers: list[tuple[str, bytes | None]] | None = None) -> ConsumerRecord:
    return ConsumerRecord(
        topic="t",
        partition=partition,
        leader_epoch=0,
        offset=offset,
        timestamp=0,
        timestamp_type=0,
        key=b"k%d" % offset,
        value=b"v%d" % offset,
        headers=headers or [],
        serialized_key_size=2,
        serialized_value_size=2,
    )


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t", 1)
        yield running


class Group:
    member_id = "member-1"
    generation_id = 4


class FakeConsumer:
    """Gives out the polls it was given, then stops the loop; notes all that is asked of it, in order."""

    def __init__(self, polls: list[Any], log: list[Any]) -> None:
        self.polls = polls
        self.log = log
        self.loop: MemberLoop
        self.listener: Any = None
        self.commit_error: Exception | None = None
        self.async_error: Exception | None = None
        self.options: dict[str, Any] = {}
        self.closed = 0
        self.on_close: Callable[[], object] = lambda: None
        self.commit_timeouts: list[int | None] = []
        self.due = False
        self.lapsed = False
        self.group_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.positions: dict[TopicPartition, int] = {}

    def pause(self, *partitions: TopicPartition) -> None:
        self.log.append(("pause", *partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        self.log.append(("resume", *partitions))

    def committed_offsets(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self.log.append(("fetch offsets", *partitions))
        return {p: self.group_offsets.get(p) for p in partitions}

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        if partition not in self.positions:
            raise KafkaTimeoutError("not known yet")
        return self.positions[partition]

    def rebalance_due(self) -> bool:
        return self.due

    def session_lapsed(self) -> bool:
        return self.lapsed

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.log.append(("seek", partition, offset))

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.log.append(("subscribe", topics))
        self.listener = listener

    def _next(self) -> Any:
        while self.polls:
            step = self.polls.pop(0)
            if not callable(step):
                return step
            step()  # what happens within a poll: a rebalance
        self.loop.stop()
        return None

    def poll(self, timeout_ms: int) -> Any:
        return self._next() or {}

    def poll_arrow(self, timeout_ms: int, headers: bool) -> Any:
        found = self._next()
        return arrow([]) if found is None else found

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None) -> None:
        self.commit_timeouts.append(timeout_ms)
        self.log.append(("commit", {p: o.offset for p, o in offsets.items()}))
        if self.commit_error is not None:
            raise self.commit_error

    def commit_async(self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: Any = None) -> None:
        self.log.append(("commit_async", {p: o.offset for p, o in offsets.items()}))
        if callback is not None:
            callback(offsets, self.async_error)

    def group_metadata(self) -> Group:
        return Group()

    def assignment(self) -> set[TopicPartition]:
        return {T1, T0}

    def close(self) -> None:
        self.closed += 1
        self.on_close()
        self.log.append("consumer closed")


class FakeProducer:
    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.sent: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def send(self, topic: str, **fields: Any) -> FakeProducer:
        self.sent.append({"topic": topic, **fields})
        return self

    def get(self, timeout: float) -> None:
        if self.error is not None:
            raise self.error
        self.log.append("dead letter stored")

    def close(self) -> None:
        self.log.append("producer closed")


class Member:
    """A member loop with everything around it faked."""

    def __init__(self, handler: Any, polls: list[Any], **spec: Any) -> None:
        self.log: list[Any] = []
        self.sleeps: list[float] = []
        self.consumer = FakeConsumer(polls, self.log)
        self.producer = FakeProducer(self.log)
        self.producer_options: dict[str, Any] = {}

        def make_consumer(**options: Any) -> FakeConsumer:
            self.consumer.options = options
            return self.consumer

        def make_producer(**options: Any) -> FakeProducer:
            self.producer_options = options
            return self.producer

        self.loop = MemberLoop(
            MemberSpec(("t",), "g", "host:1", **spec),
            handler,
            make_consumer=make_consumer,
            make_producer=make_producer,
            sleep=self._sleep,
        )
        self.consumer.loop = self.loop
        self.on_sleep: Callable[[], None] = lambda: None

    def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.on_sleep()

    def run(self) -> MemberReport:
        self.loop.run()
        return self.loop.report()

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """What the last commits of each partition say."""
        found: dict[TopicPartition, int] = {}
        for entry in self.log:
            if isinstance(entry, tuple) and entry[0].startswith("commit"):
                found |= entry[1]
        return found


class Flaky:
    """Fails for some values, so often."""

    def __init__(self, **failures: int) -> None:
        self.failures = {name.encode(): times for name, times in failures.items()}
        self.handled: list[bytes] = []
        self.calls = 0

    def one(self, record: ConsumerRecord) -> None:
        self.many([record])

    def many(self, records: list[ConsumerRecord]) -> None:
        self.calls += 1
        for each in records:
            if self.failures.get(each.value or b"", 0) > 0:
                self.failures[each.value or b""] -= 1
                raise RuntimeError(f"cannot do {each.value!r}")
        self.handled += [each.value or b"" for each in records]


# --- handling and committing ---


def test_records_are_handed_over_one_by_one_in_order_and_committed_after() -> None:
    handler = Flaky()
    member = Member(handler.one, [{T0: [record(5), record(6)], T1: [record(9, 1)]}])
    report = member.run()
    assert handler.handled == [b"v5", b"v6", b"v9"]
    assert member.committed == {T0: 7, T1: 10}
    assert member.log[-1] == "consumer closed"
    assert (report.state, report.handled, report.error) == ("Stopped", 3, None)


def test_the_consumer_is_told_never_to_commit_by_itself() -> None:
    member = Member(print, [], options={"session_timeout_ms": 7000})
    options = member.consumer.options
    assert options["enable_auto_commit"] is False
    assert options["auto_offset_reset"] == "earliest"
    assert options["partition_assignment_strategy"] == ["cooperative-sticky"]
    assert options["session_timeout_ms"] == 7000


def test_nothing_is_committed_before_the_handler_has_returned() -> None:
    seen: list[Any] = []
    member = Member(lambda _: seen.append(list(member.log)), [{T0: [record(1)]}, {T0: [record(2)]}])
    member.run()
    assert not any("commit" in str(entry) for entry in seen[0])
    assert seen[1][-1] == ("commit_async", {T0: 2})


def test_only_what_is_new_is_committed() -> None:
    member = Member(lambda _: None, [{T0: [record(1)]}, {T1: [record(4, 1)]}, {}])
    member.run()
    commits = [entry[1] for entry in member.log if entry[0] == "commit_async"]
    assert commits == [{T0: 2}, {T1: 5}]


def test_a_commit_that_failed_is_due_again() -> None:
    member = Member(lambda _: None, [{T0: [record(1)]}, {}, {}])
    member.consumer.async_error = CommitFailedError("rebalancing")
    member.run()
    commits = [entry[1] for entry in member.log if entry[0] == "commit_async"]
    assert len(commits) >= 2
    assert all(each == {T0: 2} for each in commits)


def test_stopping_ends_after_the_record_in_hand() -> None:
    handled = []

    def handle(each: ConsumerRecord) -> None:
        handled.append(each.offset)
        if each.offset == 2:
            member.loop.stop()

    member = Member(handle, [{T0: [record(i) for i in range(5)], T1: [record(0, 1)]}])
    member.run()
    assert handled == [0, 1, 2]
    assert member.committed == {T0: 3}


# --- where partitions begin ---


def beginning(*steps: Any, **settings: Any) -> Member:
    """A member that begins at the end, is assigned both partitions in its first poll, and makes these steps then."""
    member = Member(Flaky().one, [], options={"auto_offset_reset": "latest"} | settings)
    member.consumer.positions = {T0: 100, T1: 7}
    member.consumer.polls += [lambda: member.consumer.listener.on_partitions_assigned([T0, T1]), {}, *steps]
    return member


def test_a_start_at_the_end_is_committed_before_its_records_are_handled() -> None:
    """Or a successor of one that died before its first commit began at a later end."""
    member = beginning({T0: [record(100)]}, {})
    member.run()
    assert member.log[1:] == [
        ("pause", T0, T1),
        ("fetch offsets", T0, T1),
        ("commit", {T0: 100, T1: 7}),
        ("resume", T0, T1),
        ("commit_async", {T0: 101}),
        ("commit", {T0: 101}),
        "consumer closed",
    ]


def test_a_partition_that_has_a_committed_offset_gets_no_other() -> None:
    member = beginning()
    member.consumer.group_offsets = {T0: OffsetAndMetadata(50)}
    member.run()
    assert ("commit", {T1: 7}) in member.log
    assert ("resume", T0, T1) in member.log


def test_a_partition_whose_end_is_not_known_does_not_hold_up_the_others() -> None:
    member = beginning(lambda: member.consumer.positions.update({T1: 7}), {}, {})
    del member.consumer.positions[T1]
    member.run()
    assert member.log[3:] == [
        ("commit", {T0: 100}),
        ("resume", T0),
        ("fetch offsets", T1),
        ("commit", {T1: 7}),
        ("resume", T1),
        "consumer closed",
    ]


@pytest.mark.parametrize("error", [RebalanceInProgressError(), CommitFailedError("no"), KafkaTimeoutError("no")])
def test_while_a_start_cannot_be_committed_its_records_wait(error: Exception) -> None:
    def recover() -> None:
        member.consumer.commit_error = None

    member = beginning(recover, {})
    member.consumer.commit_error = error
    report = member.run()
    assert [entry[0] for entry in member.log[3:-1]] == ["commit", "fetch offsets", "commit", "resume"]
    assert report.state == "Stopped"


def test_starts_are_nobodys_business_where_nothing_can_be_passed_over() -> None:
    member = beginning(auto_offset_reset="earliest")
    member.run()
    assert member.log[1:] == ["consumer closed"]


def test_what_comes_after_a_start_at_the_end_is_handled_though_its_first_member_dies(kafka: ScriptedBroker) -> None:
    kafka.append("t", 0, b"before")
    options = {"auto_offset_reset": "latest", "fetch_max_wait_ms": 50, "retry_backoff_ms": 20}
    spec = MemberSpec(("t",), "g", kafka.bootstrap_servers, max_retries=0, options=options)

    def die(_: ConsumerRecord) -> None:
        raise SystemExit

    first = MemberLoop(spec, die)
    thread = threading.Thread(target=first.run)
    thread.start()
    while not kafka.requests(m.FetchRequest) and thread.is_alive():
        thread.join(0.01)
    kafka.append("t", 0, b"after")
    thread.join(60)
    assert first.report().handled == 0
    kafka.append("t", 0, b"last")
    handled: list[bytes] = []

    def handle(each: ConsumerRecord) -> None:
        handled.append(each.value)
        if each.value == b"last":
            second.stop()

    second = MemberLoop(spec, handle)
    thread = threading.Thread(target=second.run)
    thread.start()
    thread.join(60)
    second.stop()
    thread.join(60)
    assert handled == [b"after", b"last"]


# --- rebalances ---


def test_what_was_handled_is_committed_before_its_partition_is_given_up() -> None:
    member = Member(Flaky().one, [])
    member.consumer.polls += [
        {T0: [record(1)], T1: [record(1, 1)]},
        lambda: (member.log.append("revoking"), member.consumer.listener.on_partitions_revoked([T0])),
        {},
    ]
    member.run()
    after = member.log[member.log.index("revoking") + 1]
    assert after == ("commit", {T0: 2, T1: 2})


def test_a_rebalance_does_not_wait_until_all_that_a_poll_returned_is_handled() -> None:
    """500 records of 0.1 s each held a group up for 50 s: nobody joins between two polls."""
    member = Member(Flaky().one, [])
    member.consumer.due = True  # all the time: a poll's first record is handled nevertheless
    member.consumer.polls += [
        {T0: [record(0), record(1)], T1: [record(5, 1), record(6, 1)]},
        {T1: [record(5, 1)]},
    ]
    member.run()
    assert member.log[1:6] == [
        ("seek", T0, 1),
        ("seek", T1, 5),
        ("commit_async", {T0: 1}),
        ("commit_async", {T1: 6}),
        ("commit", {T0: 1, T1: 6}),
    ]


def test_a_rebalance_does_not_wait_for_the_other_partitions_of_a_batch_handler() -> None:
    handler = Flaky()
    member = Member(handler.many, [{T0: [record(0), record(1)], T1: [record(5, 1)]}], batch_format="records")
    member.consumer.due = True
    member.run()
    assert handler.handled == [b"v0", b"v1"]
    assert ("seek", T1, 5) in member.log
    assert member.committed == {T0: 2}


@pytest.mark.parametrize("batch_format", ["records", "pyarrow"])
def test_a_rebalance_does_not_wait_for_all_of_a_large_batch(batch_format: Any) -> None:
    handled: list[int] = []

    def handler(batch: Any) -> None:
        handled.append(len(batch))
        member.consumer.due = len(handled) == 2

    rows = [record(offset) for offset in range(10)]
    polls = [{T0: rows}] if batch_format == "records" else [arrow([(0, offset, b"v") for offset in range(10)])]
    member = Member(handler, polls, batch_format=batch_format, max_batch_records=3)
    member.run()
    assert handled == [3, 3]
    assert ("seek", T0, 6) in member.log
    assert ("commit_async", {T0: 6}) in member.log


def test_a_commit_nobody_takes_does_not_hold_up_the_group_for_the_whole_api_timeout() -> None:
    member = Member(Flaky().one, [])
    member.consumer.polls += [{T0: [record(1)]}, lambda: member.consumer.listener.on_partitions_revoked([T0]), {}]
    member.run()
    assert member.consumer.commit_timeouts == [10_000]


def test_no_record_is_handed_over_past_the_session() -> None:
    handled: list[int] = []

    def handle(each: ConsumerRecord) -> None:
        handled.append(each.offset)
        member.consumer.lapsed = True

    def recover() -> None:
        member.consumer.lapsed = False

    member = Member(handle, [])
    member.consumer.polls += [{T0: [record(0), record(1)]}, recover, {T0: [record(1)]}]
    member.run()
    assert handled == [0, 1]
    assert ("seek", T0, 1) in member.log


@pytest.mark.parametrize("asked_by", ["lapsed", "due"])
def test_a_failing_batch_handed_over_one_by_one_does_not_outlast_the_session_nor_hold_up_the_group(
    asked_by: str,
) -> None:
    handled: list[int] = []

    def handle(batch: list[ConsumerRecord]) -> None:
        if len(batch) > 1:
            raise ValueError("no")
        handled.append(batch[0].offset)
        if len(handled) == 2:
            setattr(member.consumer, asked_by, True)

    member = Member(
        handle, [{T0: [record(i) for i in range(5)]}], batch_format="records", max_retries=0, dead_letter_topic="dead"
    )
    member.run()
    assert handled == [0, 1]
    assert ("seek", T0, 2) in member.log
    assert member.committed == {T0: 2}


def test_a_kept_partition_is_committed_later_when_the_commit_at_a_revocation_fails() -> None:
    member = Member(Flaky().one, [])
    member.consumer.async_error = RebalanceInProgressError()

    def revoke() -> None:
        member.consumer.commit_error = RebalanceInProgressError()
        member.consumer.listener.on_partitions_revoked([T0])
        member.consumer.commit_error = member.consumer.async_error = None
        member.log.clear()

    member.consumer.polls += [{T0: [record(1)], T1: [record(1, 1)]}, revoke, {}]
    member.run()
    assert member.committed == {T1: 2}


def test_offsets_of_lost_partitions_are_never_committed() -> None:
    member = Member(Flaky().one, [])
    member.consumer.async_error = CommitFailedError("not a member any more")
    member.consumer.polls += [
        {T0: [record(1)], T1: [record(1, 1)]},
        lambda: (member.log.append("lost"), member.consumer.listener.on_partitions_lost([T0])),
        {},
    ]
    member.run()
    later = [entry[1] for entry in member.log[member.log.index("lost") :] if isinstance(entry, tuple)]
    assert later
    assert all(T0 not in each for each in later)
    assert any(T1 in each for each in later)


@pytest.mark.parametrize("error", [CommitFailedError("fenced"), KafkaTimeoutError("no coordinator")])
def test_a_commit_that_comes_too_late_at_a_revocation_does_not_stop_the_member(error: Exception) -> None:
    member = Member(Flaky().one, [])
    member.consumer.commit_error = error
    member.consumer.polls += [
        {T0: [record(1)]},
        lambda: member.consumer.listener.on_partitions_revoked([T0]),
        {T1: [record(3, 1)]},
    ]
    report = member.run()
    assert (report.state, report.handled) == ("Stopped", 2)


def test_a_handlers_hooks_are_called_and_commits_come_before_them() -> None:
    log: list[Any] = []

    class Stateful:
        made = 0

        def __init__(self, start: int) -> None:
            Stateful.made += 1
            self.total = start

        def __call__(self, each: ConsumerRecord) -> None:
            self.total += 1

        def on_assigned(self, partitions: list[TopicPartition]) -> None:
            log.append(("assigned", partitions))

        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            log.append(("revoked", partitions, list(member.log)))

        def close(self) -> None:
            log.append(("closed", list(member.log)))

    member = Member(Stateful, [], handler_args=(100,))
    member.consumer.polls += [
        lambda: member.consumer.listener.on_partitions_assigned([T0]),
        {T0: [record(1), record(2)]},
        lambda: member.consumer.listener.on_partitions_revoked([T0]),
    ]
    member.run()
    assert [entry[0] for entry in log] == ["assigned", "revoked", "closed"]
    assert ("commit", {T0: 3}) in log[1][2]
    assert "consumer closed" in log[2][1], "closing gives up partitions, of which the handler hears before it ends"
    assert member.loop.handler.instance.total == 102
    assert Stateful.made == 1


# --- failures ---


def test_a_record_is_tried_again_with_growing_pauses() -> None:
    handler = Flaky(v1=3)
    member = Member(handler.one, [{T0: [record(1), record(2)]}], max_retries=3, retry_backoff_ms=100)
    report = member.run()
    assert handler.handled == [b"v1", b"v2"]
    assert member.sleeps == [0.1, 0.2, 0.4]
    assert (report.state, report.handled) == ("Stopped", 2)


def test_a_record_that_cannot_be_handled_stops_the_member_and_is_not_committed() -> None:
    handler = Flaky(v2=99)
    member = Member(handler.one, [{T0: [record(1), record(2), record(3)]}], max_retries=2)
    report = member.run()
    assert handler.handled == [b"v1"]
    assert member.committed == {T0: 2}
    assert report.state == "Failed"
    assert "t-0 offset 2" in report.error
    assert "cannot do b'v2'" in report.error
    assert handler.calls == 1 + 3
    assert member.consumer.closed == 1


def test_a_member_has_failed_when_what_it_has_done_is_committed() -> None:
    """Its supervisor then removes it from the group; a commit after that would be refused."""
    seen: list[str] = []
    member = Member(Flaky(v2=99).one, [{T0: [record(1), record(2)]}], max_retries=0)
    member.consumer.on_close = lambda: seen.append(member.loop.report().state)
    assert member.run().state == "Failed"
    assert seen == ["Failing"]


def test_a_failed_attempt_is_logged_with_its_record(caplog: pytest.LogCaptureFixture) -> None:
    member = Member(Flaky(v7=1).one, [{T1: [record(7, 1)]}])
    with caplog.at_level("ERROR"):
        member.run()
    assert "t-1 offset 7 (attempt 1 of 4)" in caplog.text
    assert "cannot do b'v7'" in caplog.text


def test_stopping_while_a_record_fails_leaves_it_for_its_next_owner() -> None:
    handler = Flaky(v2=99)
    member = Member(handler.one, [{T0: [record(1), record(2), record(3)]}])
    member.on_sleep = lambda: member.loop.stop()
    report = member.run()
    assert handler.handled == [b"v1"]
    assert member.committed == {T0: 2}
    assert report.state == "Stopped"


def test_a_handler_that_ends_its_process_is_seen_to_have_failed() -> None:
    def leave(_: ConsumerRecord) -> None:
        raise SystemExit(3)

    report = Member(leave, [{T0: [record(1)]}]).run()
    assert report.state == "Failed"


def test_the_error_travels_between_processes() -> None:
    error = HandlerFailedError("t", 3, 14, ValueError("no"))
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.topic, copy.partition, copy.offset) == ("t", 3, 14)


def test_closing_goes_on_whatever_fails_on_the_way() -> None:
    class Bad:
        def __call__(self, each: ConsumerRecord) -> None: ...

        def close(self) -> None:
            raise RuntimeError("cannot even close")

    member = Member(Bad, [{T0: [record(1)]}])
    member.consumer.commit_error = OSError("no network")
    member.run()
    assert member.consumer.closed == 1


# --- dead letters ---


def test_a_dead_letter_carries_the_record_and_where_it_came_from() -> None:
    handler = Flaky(v2=99)
    bad = record(2, headers=[("trace", b"abc")])
    member = Member(handler.one, [{T0: [record(1), bad, record(3)]}], dead_letter_topic="dlq", max_retries=1)
    report = member.run()
    assert handler.handled == [b"v1", b"v3"]
    assert member.committed == {T0: 4}
    (letter,) = member.producer.sent
    assert (letter["topic"], letter["key"], letter["value"]) == ("dlq", b"k2", b"v2")
    assert letter["headers"] == [
        ("trace", b"abc"),
        ("coterie.topic", b"t"),
        ("coterie.partition", b"0"),
        ("coterie.offset", b"2"),
        ("coterie.error", b"RuntimeError: cannot do b'v2'"),
    ]
    assert member.producer_options["acks"] == "all"
    assert (report.dead_letters, report.handled) == (1, 2)
    stored = member.log.index("dead letter stored")
    assert not any(entry[1].get(T0, 0) > 2 for entry in member.log[:stored] if isinstance(entry[1], dict))


def test_a_dead_letter_that_cannot_be_stored_stops_the_member_before_the_commit() -> None:
    member = Member(Flaky(v1=99).one, [{T0: [record(1)]}], dead_letter_topic="dlq", max_retries=0)
    member.producer.error = KafkaTimeoutError("dlq is gone")
    report = member.run()
    assert report.state == "Failed"
    assert member.committed == {}


# --- deserializers ---


def number(data: bytes) -> int:
    return int(data[1:])


class Named:
    """A deserializer that wants to know the topic."""

    def deserialize(self, topic: str, data: bytes) -> tuple[str, bytes]:
        return topic, data


def test_a_handler_gets_what_the_deserializers_made() -> None:
    seen: list[Any] = []
    polls = [{T0: [record(5), record(6)._replace(key=None, value=None)]}]
    options = {"key_deserializer": Named(), "value_deserializer": number}
    member = Member(lambda each: seen.append((each.offset, each.key, each.value)), polls, options=options)
    report = member.run()
    assert seen == [(5, ("t", b"k5"), 5), (6, None, None)]
    assert report.handled == 2
    assert not options.keys() & member.consumer.options.keys(), "the consumer would apply them too"


def test_a_dead_letter_is_the_record_as_it_was_before_its_deserializers() -> None:
    """The deserialized value could not be sent: each member in turn failed at the same record."""

    def handle(each: ConsumerRecord) -> None:
        raise RuntimeError(f"cannot do {each.value}")

    options = {"key_deserializer": Named(), "value_deserializer": number}
    member = Member(handle, [{T0: [record(2)]}], dead_letter_topic="dlq", max_retries=0, options=options)
    report = member.run()
    (letter,) = member.producer.sent
    assert (letter["key"], letter["value"]) == (b"k2", b"v2")
    assert dict(letter["headers"])["coterie.error"] == b"RuntimeError: cannot do 2"
    assert (report.state, report.dead_letters) == ("Stopped", 1)


@pytest.mark.parametrize("batch_format", ["record", "records"])
def test_a_record_on_which_the_deserializer_fails_is_tried_again_and_becomes_a_dead_letter(batch_format: Any) -> None:
    handled: list[int] = []

    def handle(given: Any) -> None:
        handled.extend(each.value for each in (given if isinstance(given, list) else [given]))

    bad = record(2)._replace(value=b"vX")
    member = Member(
        handle,
        [{T0: [record(1), bad, record(3)]}],
        batch_format=batch_format,
        dead_letter_topic="dlq",
        max_retries=1,
        options={"value_deserializer": number},
    )
    report = member.run()
    assert handled == [1, 3]
    assert [letter["value"] for letter in member.producer.sent] == [b"vX"]
    assert dict(member.producer.sent[0]["headers"])["coterie.error"].startswith(b"SerializationError: ")
    assert member.committed == {T0: 4}
    assert report.state == "Stopped"
    assert member.sleeps


def test_without_a_dead_letter_topic_the_record_on_which_the_deserializer_fails_is_named() -> None:
    polls = [{T0: [record(1), record(2)._replace(value=b"vX")]}]
    report = Member(lambda _: None, polls, max_retries=0, options={"value_deserializer": number}).run()
    assert report.state == "Failed"
    assert "t-0 offset 2: SerializationError" in report.error


def test_what_is_no_deserializer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="value_deserializer"):
        Member(print, [], options={"value_deserializer": "utf-8"})


# --- batches ---


def test_a_batch_is_of_one_partition() -> None:
    seen: list[list[tuple[int, int]]] = []
    member = Member(
        lambda records: seen.append([(r.partition, r.offset) for r in records]),
        [{T0: [record(1), record(2)], T1: [record(1, 1)]}],
        batch_format="records",
    )
    report = member.run()
    assert seen == [[(0, 1), (0, 2)], [(1, 1)]]
    assert report.handled == 3


def test_a_failing_batch_is_taken_apart_to_find_the_bad_record() -> None:
    handler = Flaky(v3=99)
    polls = [{T0: [record(i) for i in range(1, 6)]}]
    member = Member(handler.many, polls, batch_format="records", dead_letter_topic="dlq", max_retries=1)
    report = member.run()
    assert handler.handled == [b"v1", b"v2", b"v4", b"v5"]
    assert [letter["value"] for letter in member.producer.sent] == [b"v3"]
    assert member.committed == {T0: 6}
    assert (report.handled, report.dead_letters) == (4, 1)


def test_a_bad_record_in_a_batch_stops_the_member_with_all_before_it_committed() -> None:
    handler = Flaky(v3=99)
    member = Member(handler.many, [{T0: [record(i) for i in range(1, 6)]}], batch_format="records", max_retries=0)
    report = member.run()
    assert handler.handled == [b"v1", b"v2"]
    assert member.committed == {T0: 3}
    assert "t-0 offset 3" in report.error


def test_stopping_while_a_batch_is_taken_apart_commits_nothing_that_was_not_handled() -> None:
    handler = Flaky(v1=99)
    member = Member(handler.many, [{T0: [record(i) for i in range(1, 6)]}], batch_format="records", max_retries=1)
    # The batch has failed twice; the stop comes while its first record is being tried again.
    member.on_sleep = lambda: member.loop.stop() if len(member.sleeps) == 2 else None
    report = member.run()
    assert handler.handled == []
    assert member.committed == {}
    assert report.state == "Stopped"


# --- Arrow ---


def arrow(rows: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["t"] * len(rows), pa.string()),
            "partition": pa.array([p for p, _, _ in rows], pa.int32()),
            "offset": pa.array([o for _, o, _ in rows], pa.int64()),
            "key": pa.array([b"k"] * len(rows), pa.binary()),
            "value": pa.array([v for _, _, v in rows], pa.binary()),
        }
    )


def test_arrow_batches_are_handed_over_by_partition() -> None:
    seen: list[tuple[list[int], list[bytes]]] = []
    member = Member(
        lambda batch: seen.append((batch.column("partition").to_pylist(), batch.column("value").to_pylist())),
        [arrow([(0, 5, b"a"), (0, 6, b"b"), (1, 2, b"c")])],
        batch_format="pyarrow",
    )
    report = member.run()
    assert seen == [([0, 0], [b"a", b"b"]), ([1], [b"c"])]
    assert member.committed == {T0: 7, T1: 3}
    assert report.handled == 3


def test_a_bad_row_of_an_arrow_batch_becomes_a_dead_letter() -> None:
    handled: list[bytes] = []

    def handle(batch: pa.RecordBatch) -> None:
        values = batch.column("value").to_pylist()
        if b"bad" in values:
            raise ValueError("bad row")
        handled.extend(values)

    member = Member(
        handle,
        [arrow([(0, 5, b"a"), (0, 6, b"bad"), (0, 9, b"c")])],
        batch_format="pyarrow",
        dead_letter_topic="dlq",
        max_retries=0,
    )
    member.run()
    assert handled == [b"a", b"c"]
    (letter,) = member.producer.sent
    assert (letter["key"], letter["value"]) == (b"k", b"bad")
    assert dict(letter["headers"])["coterie.offset"] == b"6"
    assert member.committed == {T0: 10}


# --- kinds of handlers, and reports ---


def test_an_async_handler_is_awaited_on_one_loop() -> None:
    loops = set()
    handled = []

    async def handle(each: ConsumerRecord) -> None:
        await asyncio.sleep(0)
        loops.add(asyncio.get_running_loop())
        handled.append(each.offset)

    member = Member(handle, [{T0: [record(1), record(2)]}])
    member.run()
    assert handled == [1, 2]
    assert len(loops) == 1


def test_a_class_with_an_async_call_is_one_too() -> None:
    class Slow:
        def __init__(self) -> None:
            self.seen: list[int] = []

        async def __call__(self, each: ConsumerRecord) -> None:
            await asyncio.sleep(0)
            self.seen.append(each.offset)

    member = Member(Slow, [{T0: [record(1)]}])
    member.run()
    assert member.loop.handler.instance.seen == [1]


def test_a_report_says_what_is_owned_and_how_long_the_handler_has_run() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def handle(each: ConsumerRecord) -> None:
        if each.offset == 2:
            inside.set()
            go_on.wait(60)

    member = Member(handle, [{T0: [record(1)]}, {T0: [record(2)]}])
    thread = threading.Thread(target=member.loop.run)
    thread.start()
    assert inside.wait(60)
    while (report := member.loop.report()).handling_ms < 20:
        assert thread.is_alive()
    assert report.state == "Running"
    assert (report.member_id, report.generation_id) == ("member-1", 4)
    assert report.assignment == (("t", 0), ("t", 1))
    assert report.handled == 1
    go_on.set()
    thread.join(60)
    assert member.loop.report().handling_ms == 0
