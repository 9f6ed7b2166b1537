"""A member that handles several records at a time: order by key, commits, rebalances, stops. No broker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors.client import ConsumerRecord
from actors.members.pools.handling.context import Context
from tests.support.member import T0, T1, Flaky, Member, arrow, forgotten, record

DEADLINE_S = 60


def keyed(offset: int, key: bytes, partition: int = 0) -> ConsumerRecord:
    return record(offset, partition)._replace(key=key)


def until(condition: Callable[[], object]) -> Callable[[], None]:
    """A step of a poll: wait until this is so."""

    def wait() -> None:
        deadline = threading.Event()
        timer = threading.Timer(DEADLINE_S, deadline.set)
        timer.start()
        while not condition():
            assert not deadline.wait(0.001), "it never became so"
        timer.cancel()

    return wait


class Gated:
    """Holds each record until it is let go; in threads or on a loop. Knows how many were in hand at a time."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.contexts: dict[int, Context] = {}
        self.gates: dict[int, threading.Event] = {}

    def let(self, *offsets: int) -> None:
        for offset in offsets:
            self.gates.setdefault(offset, threading.Event()).set()

    def in_thread(self, each: ConsumerRecord, context: Context) -> None:
        self._begin(each, context).wait(DEADLINE_S)
        self.ended.append(each.offset)

    async def on_loop(self, each: ConsumerRecord, context: Context) -> None:
        gate = self._begin(each, context)
        while not gate.is_set():  # noqa: ASYNC110 - the gate is opened by another thread
            await asyncio.sleep(0.001)
        self.ended.append(each.offset)

    def _begin(self, each: ConsumerRecord, context: Context) -> threading.Event:
        self.contexts[each.offset] = context
        gate = self.gates.setdefault(each.offset, threading.Event())
        self.begun.append(each.offset)
        return gate


@pytest.fixture(params=["in_thread", "on_loop"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def commits(member: Member) -> list[Any]:
    return [entry for entry in member.log if isinstance(entry, tuple) and entry[0].startswith("commit")]


def test_other_keys_go_on_beside_a_slow_one_and_its_own_wait(kind: str) -> None:
    gated = Gated()
    member = Member(getattr(gated, kind), [], concurrency=4)
    gated.let(1, 2)
    rows = [keyed(0, b"slow"), keyed(1, b"a"), keyed(2, b"b"), keyed(3, b"slow")]
    member.consumer.polls += [
        {T0: rows},
        until(lambda: sorted(gated.ended) == [1, 2]),
        {},
        lambda: gated.let(0, 3),
        until(lambda: len(gated.ended) == 4),
        {},
    ]
    report = member.run()
    assert 3 not in gated.begun[:3]
    assert gated.ended[2:] == [0, 3]
    assert (report.state, report.handled) == ("Stopped", 4)
    assert member.committed == {T0: 4}
    assert commits(member)[0][1] == {T0: 4}, "while the first is in hand, nothing behind it is committed"


def test_no_more_than_so_many_are_in_hand(kind: str) -> None:
    gated = Gated()
    member = Member(getattr(gated, kind), [], concurrency=2)
    member.consumer.polls += [
        {T0: [keyed(i, b"%d" % i) for i in range(4)]},
        until(lambda: len(gated.begun) == 2),
        lambda: gated.let(1),
        until(lambda: len(gated.begun) == 3),
        lambda: gated.let(0, 2, 3),
        until(lambda: len(gated.ended) == 4),
    ]
    assert member.run().handled == 4
    assert gated.begun[:3] == [0, 1, 2]


def test_what_is_in_hand_is_committed_before_its_partition_is_given_up(kind: str) -> None:
    gated = Gated()
    member = Member(getattr(gated, kind), [], concurrency=2)

    def revoke() -> None:
        threading.Timer(0.02, gated.let, (0, 1)).start()
        member.consumer.listener.on_partitions_revoked([T0])
        member.log.append("revoked")

    rows = [keyed(i, b"%d" % i) for i in range(3)]
    member.consumer.polls += [{T0: rows}, until(lambda: len(gated.begun) == 2), revoke]
    member.run()
    assert gated.begun == [0, 1], "what had not begun is left to the next owner"
    assert member.log[member.log.index("revoked") - 1] == ("commit", {T0: 2})
    assert gated.contexts[0].stop.is_set()


def test_a_rebalance_does_not_wait_for_ever_and_what_runs_on_is_not_committed(kind: str) -> None:
    gated = Gated()
    member = Member(getattr(gated, kind), [], concurrency=2, revoke_wait_ms=1)
    again: list[int] = []
    member.consumer.polls += [
        {T0: [keyed(0, b"a"), keyed(1, b"b")], T1: [keyed(5, b"c", 1)]},
        until(lambda: len(gated.begun) == 2),
        lambda: member.consumer.listener.on_partitions_revoked([T0]),
        {T0: [keyed(0, b"a"), keyed(1, b"b")]},
        lambda: again.extend(gated.begun[2:]),
        lambda: gated.let(0, 1, 5),
        until(lambda: member.loop.report().handled >= 3),
    ]
    report = member.run()
    assert member.committed[T0] == 2
    if kind == "in_thread":
        assert again == [], "the partition has come back, and its records wait until the threads are done with it"
        assert gated.ended.count(0) == 2
    else:
        assert sorted(gated.ended) == [0, 1, 5], "the tasks were cancelled"
    assert report.state == "Stopped"


def test_of_lost_partitions_nothing_is_committed() -> None:
    gated = Gated()
    member = Member(gated.on_loop, [], concurrency=4)
    member.consumer.polls += [
        {T0: [keyed(0, b"a")], T1: [keyed(5, b"b", 1)]},
        until(lambda: len(gated.begun) == 2),
        lambda: member.consumer.listener.on_partitions_lost([T0]),
        lambda: gated.let(0, 5),
        until(lambda: 5 in gated.ended),
        {},
    ]
    member.run()
    assert gated.ended == [5]
    assert member.committed == {T1: 6}


def test_a_stop_waits_for_what_is_in_hand(kind: str) -> None:
    gated = Gated()
    member = Member(getattr(gated, kind), [], concurrency=2)

    def stop() -> None:
        member.loop.stop()
        assert gated.contexts[0].stop.wait(DEADLINE_S)
        gated.let(0, 1)

    rows = [keyed(i, b"%d" % i) for i in range(4)]
    member.consumer.polls += [{T0: rows}, until(lambda: len(gated.begun) == 2), stop]
    report = member.run()
    assert sorted(gated.ended) == [0, 1]
    assert member.committed == {T0: 2}
    assert (report.state, report.handled) == ("Stopped", 2)


def test_what_had_ended_was_not_committed_while_others_were_waited_for(kind: str) -> None:
    """A member that was killed while it stopped had its last 20 seconds handled once more."""
    gated = Gated()
    options = {"auto_commit_interval_ms": 1}
    member = Member(getattr(gated, kind), [], concurrency=2, revoke_wait_ms=5_000, options=options)
    committed: list[bool] = []

    def end_one_by_one() -> None:
        gated.contexts[0].stop.wait(DEADLINE_S)
        gated.let(0)
        with contextlib.suppress(AssertionError):
            until(lambda: ("commit_async", {T0: 1}) in member.log or member.consumer.closed)()
        committed.append(not member.consumer.closed)
        gated.let(1)

    rows = [keyed(i, b"%d" % i) for i in range(2)]
    member.consumer.polls += [{T0: rows}, until(lambda: len(gated.begun) == 2)]
    ender = threading.Thread(target=end_one_by_one)
    member.consumer.polls += [ender.start, member.loop.stop]
    member.run()
    ender.join()
    assert committed == [True]
    assert member.committed == {T0: 2}


def test_a_partition_of_which_too_much_waits_is_paused_until_there_is_room() -> None:
    gated = Gated()
    member = Member(gated.in_thread, [], concurrency=2)
    member.consumer.polls += [
        {T0: [keyed(i, b"%d" % i) for i in range(8)]},
        {T1: [keyed(0, b"x", 1)]},
        lambda: gated.let(*range(8)),
        until(lambda: len(gated.ended) == 9),
        {},
        {},
    ]
    member.run()
    assert [entry for entry in member.log if entry[0] in ("pause", "resume")] == [("pause", T0), ("resume", T0)]


def test_no_record_begins_past_the_session() -> None:
    gated = Gated()
    gated.let(0, 1)
    member = Member(gated.in_thread, [], concurrency=2)
    member.consumer.lapsed = True

    def recover() -> None:
        assert gated.begun == []
        member.consumer.lapsed = False

    member.consumer.polls += [
        {T0: [keyed(0, b"a"), keyed(1, b"b")]},
        {},
        recover,
        {},
        until(lambda: len(gated.ended) == 2),
    ]
    assert member.run().handled == 2


def test_a_record_that_cannot_be_handled_stops_the_member_and_nothing_behind_it_is_committed() -> None:
    handled: list[int] = []

    def handle(each: ConsumerRecord) -> None:
        if each.offset == 1:
            until(lambda: sorted(handled) == [0, 2])()
            raise ValueError("bad")
        handled.append(each.offset)

    member = Member(handle, [], concurrency=4, max_retries=1, retry_backoff_ms=0)
    rows = [keyed(i, b"%d" % i) for i in range(3)]
    member.consumer.polls += [{T0: rows}, *({} for _ in range(10_000))]
    report = member.run()
    assert report.state == "Failed"
    assert "t-0 offset 1: ValueError: bad" in report.error
    assert member.committed == {T0: 1}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_handler_that_ends_its_process_is_seen_to_have_failed(asynchronous: bool) -> None:
    async def leave_async(_: ConsumerRecord) -> None:
        raise SystemExit(3)

    def leave(_: ConsumerRecord) -> None:
        raise SystemExit(3)

    member = Member(leave_async if asynchronous else leave, [], concurrency=2)
    member.consumer.polls += [{T0: [record(1)]}, *({} for _ in range(10_000))]
    assert member.run().state == "Failed"
    assert member.committed == {}


@pytest.mark.parametrize("batch_format", ["records", "pyarrow"])
def test_batches_of_partitions_go_side_by_side_and_a_bad_record_of_one_is_found(batch_format: Any) -> None:
    flaky = Flaky(v1=99)
    lock = threading.Lock()

    def handle(batch: Any) -> None:
        if batch_format == "pyarrow":
            batch = [record(0)._replace(value=value) for value in batch.column("value").to_pylist()]
        with lock:
            flaky.many(batch)

    rows = [(0, i, b"v%d" % i) for i in range(4)] + [(1, 7, b"v7")]
    by_records = {T0: [record(i) for i in range(4)], T1: [record(7, 1)]}
    member = Member(
        handle,
        [],
        concurrency=2,
        batch_format=batch_format,
        max_batch_records=3,
        max_retries=0,
        dead_letter_topic="dlq",
    )
    member.consumer.polls += [
        by_records if batch_format == "records" else arrow(rows),
        until(lambda: member.loop.report().handled + member.loop.report().dead_letters == 5),
    ]
    report = member.run()
    assert sorted(flaky.handled) == [b"v0", b"v2", b"v3", b"v7"]
    assert (report.handled, report.dead_letters) == (4, 1)
    assert member.committed == {T0: 4, T1: 8}


def test_batches_wait_for_more_records_of_later_polls() -> None:
    seen: list[list[int]] = []
    member = Member(
        lambda batch: seen.append([each.offset for each in batch]),
        [],
        batch_format="records",
        max_batch_records=4,
        batch_max_ms=3_600_000,
    )
    member.consumer.polls += [
        {T0: [record(0), record(1)]},
        {T0: [record(2)]},
        {T0: [record(3), record(4)]},
        until(lambda: seen),
        {},
    ]
    report = member.run()
    assert seen == [[0, 1, 2, 3]]
    assert member.committed == {T0: 4}, "what has not been enough for a batch comes again"
    assert report.handled == 4


def test_a_batch_that_has_waited_long_enough_is_handed_over() -> None:
    seen: list[list[int]] = []
    member = Member(
        lambda batch: seen.append([each.offset for each in batch]), [], batch_format="records", batch_max_ms=5
    )
    member.consumer.polls += [{T0: [record(0), record(1)]}, *({} for _ in range(3))]
    member.consumer.polls += [until(lambda: member.loop.order.poll_ms() and seen)]
    member.run()
    assert seen == [[0, 1]]


@pytest.mark.parametrize("handler", [lambda each: (each for _ in "x"), lambda each: map(str, each), forgotten])
def test_a_record_whose_work_was_returned_undone_counted_as_handled_side_by_side(handler: Any) -> None:
    member = Member(handler, [], dead_letter_topic="dlq", max_retries=0, concurrency=2)

    def ended() -> bool:
        report = member.loop.report()
        return report.handled + report.dead_letters == 2

    member.consumer.polls += [{T0: [record(1), record(2)]}, until(ended)]
    report = member.run()
    assert (report.handled, report.dead_letters) == (0, 2)
