"""A consumer actor's work on its records: handling, commits at the right moments, reports. Mostly no broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from actors.client import ConsumerRecord, OffsetAndMetadata, TopicPartition
from actors.client.errors import CommitFailedError, KafkaTimeoutError, RebalanceInProgressError
from actors.members.pools.handler_member import READY, MemberLoop, MemberSpec
from actors.runtime.environment import Clock, Environment
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from tests.support.client_broker import ScriptedBroker, broker
from tests.support.member import T0, T1, Flaky, Member, arrow, record


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t", 1)
        yield running


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
    assert options["allow_auto_create_topics"] is False, "a deleted topic is not made again by asking for it"
    assert options["environment"] is member.environment, "it has the member's clock and chance"


@pytest.mark.parametrize(
    ("options", "protocol", "strategy"),
    [
        ({}, "auto", ["cooperative-sticky"]),
        ({"heartbeat_interval_ms": 500}, "classic", ["cooperative-sticky"]),
        ({"group_protocol": "consumer"}, "consumer", None),
    ],
)
def test_a_member_speaks_the_protocol_that_its_pool_asks_for_or_its_brokers_serve(
    options: dict[str, Any], protocol: str, strategy: list[str] | None
) -> None:
    """With group_protocol="consumer" a pool was refused: its own assignor had no place there."""
    given = Member(print, [], options=options).consumer.options
    assert (given["group_protocol"], given.get("partition_assignment_strategy")) == (protocol, strategy)
    assert given["group_instance_takeover"] is True


class SetUp:
    """A handler that says when it is set up."""

    def __init__(self) -> None:
        self.is_set_up = threading.Event()

    def setup(self) -> None:
        self.is_set_up.set()

    def __call__(self, _: Any) -> None: ...


@pytest.mark.parametrize("told", ["join", "stop"])
def test_a_successor_sets_its_handler_up_and_joins_when_it_is_told_to(told: str) -> None:
    member = Member(SetUp, [{T0: [record(1)]}])
    loop = member.loop
    loop.wait_to_join()
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert loop.handler.instance.is_set_up.wait(60)
    while loop.report().state != READY:
        assert thread.is_alive()
    assert member.log == [], "it has asked for nothing"
    getattr(loop, told)()
    thread.join(60)
    assert not thread.is_alive()
    assert loop.report().handled == (1 if told == "join" else 0)


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


class Slow:
    """A handler for which a clock goes on by two seconds at each call."""

    def __init__(self) -> None:
        self.now = 0.0
        self.environment = Environment(clock=Clock(monotonic=lambda: self.now))

    def one(self, _: Any) -> None:
        self.now += 2

    async def on_loop(self, _: Any) -> None:
        self.now += 2


TEN = {T0: [record(i) for i in range(10)]}


@pytest.mark.parametrize(
    ("handler", "poll", "settings"),
    [
        ("one", TEN, {}),
        ("on_loop", TEN, {}),
        ("one", TEN, {"batch_format": "records", "max_batch_records": 1}),
        ("one", arrow([(0, i, b"v") for i in range(10)]), {"batch_format": "pyarrow", "max_batch_records": 1}),
    ],
)
def test_a_slow_handler_committed_nothing_before_its_whole_poll_was_handled(
    handler: str, poll: Any, settings: dict[str, Any]
) -> None:
    """After 40 seconds 77 records were handled and none was committed, and the lag stood still."""
    slow = Slow()
    member = Member(getattr(slow, handler), [poll], environment=slow.environment, **settings)
    member.run()
    commits = [entry[1] for entry in member.log if entry[0] == "commit_async"]
    assert commits == [{T0: 3}, {T0: 6}, {T0: 9}, {T0: 10}], "every 5 seconds, as far as it was handled by then"


def test_how_often_is_the_users_to_say() -> None:
    slow = Slow()
    options = {"auto_commit_interval_ms": 10_000}
    member = Member(slow.one, [TEN], environment=slow.environment, options=options)
    member.run()
    commits = [entry[1] for entry in member.log if entry[0] == "commit_async"]
    assert commits == [{T0: 5}, {T0: 10}]


def test_a_fast_handler_commits_once_a_poll() -> None:
    member = Member(print, [TEN], environment=Slow().environment)
    member.run()
    assert [entry for entry in member.log if entry[0] == "commit_async"] == [("commit_async", {T0: 10})]


def test_what_was_handled_waited_for_a_record_that_is_tried_again_and_again() -> None:
    slow = Slow()
    flaky = Flaky(v1=3)
    member = Member(flaky.one, [TEN], environment=slow.environment, max_retries=3, retry_backoff_ms=5_000)
    tried_at: list[Any] = []

    def sleep() -> None:
        tried_at.append(dict(member.committed))
        slow.now += member.sleeps[-1]

    member.on_sleep = sleep
    member.run()
    assert tried_at == [{}, {T0: 1}, {T0: 1}]


def test_a_commit_that_failed_within_a_poll_is_made_up_for_by_the_next() -> None:
    slow = Slow()
    member = Member(slow.one, [TEN], environment=slow.environment)
    member.consumer.async_error = CommitFailedError("rebalancing")
    member.run()
    commits = [entry[1] for entry in member.log if entry[0] == "commit_async"]
    assert commits == [{T0: 3}, {T0: 6}, {T0: 9}, {T0: 10}, {T0: 10}]


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
    """A member that begins at the end, with both partitions from its first poll on; `steps` are its later polls."""
    member = Member(Flaky().one, [], options={"auto_offset_reset": "latest"} | settings)
    member.consumer.positions = {T0: 100, T1: 7}
    member.consumer.polls += [lambda: member.consumer.listener.on_partitions_assigned([T0, T1]), {}, *steps]
    return member


def test_a_start_at_the_end_is_committed_before_its_records_are_handled() -> None:
    """Without that commit, a successor of a member that died before its first commit began at a later end."""
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


def test_a_commit_within_a_poll_reaches_the_broker_while_the_next_record_is_handled(kafka: ScriptedBroker) -> None:
    for _ in range(3):
        kafka.append("t", 0, b"x")
    seen: list[int] = []

    def handle(each: ConsumerRecord) -> None:
        until_then = threading.Event()
        for _ in range(60_000):
            if not each.offset or kafka.committed.get(T0) == each.offset:
                break
            until_then.wait(0.001)
        seen.append(kafka.committed.get(T0, 0))
        if each.offset == 2:
            loop.stop()

    options = {"auto_commit_interval_ms": 0}
    loop = MemberLoop(MemberSpec(("t",), "g", kafka.bootstrap_servers, options=options), handle)
    loop.run()
    assert loop.report().error is None
    assert seen == [0, 1, 2]


def test_a_commit_that_meets_a_rebalance_when_the_member_ends_is_made_after_it(kafka: ScriptedBroker) -> None:
    """A real consumer. The coordinator refuses commits between its answers to the joins and to the leader's sync."""
    for _ in range(3):
        kafka.append("t", 0, b"x")
    refused = partial(kafka.on_offsetcommit, code=ErrorCode.REBALANCE_IN_PROGRESS)
    kafka.script(m.OffsetCommitRequest, refused, refused)
    options = {"fetch_max_wait_ms": 50, "retry_backoff_ms": 20}
    spec = MemberSpec(("t",), "g", kafka.bootstrap_servers, options=options)
    loop = MemberLoop(spec, lambda _: loop.stop())
    thread = threading.Thread(target=loop.run)
    thread.start()
    thread.join(60)
    assert loop.report().handled == 1
    assert kafka.committed == {TopicPartition("t", 0): 1}


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
