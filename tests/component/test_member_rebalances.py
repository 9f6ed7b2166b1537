"""A consumer actor's commits and handovers when its group rebalances. No broker."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client import ConsumerRecord, TopicPartition
from actors.client.errors import CommitFailedError, KafkaTimeoutError, RebalanceInProgressError
from tests.support.member import T0, T1, Flaky, Member, arrow, record

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
    assert member.consumer.commit_timeouts == [2_000]


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


class Ending(Member):
    """A member that is stopped while it handles its records, when a rebalance has begun; `steps` are its polls then."""

    def __init__(self, *steps: Any, **options: Any) -> None:
        super().__init__(lambda _: self.loop.stop(), [{T0: [record(1)]}, *steps], **options)
        self.consumer.commit_error = self.consumer.async_error = RebalanceInProgressError()

    def completed(self) -> None:
        self.log.append("completed")
        self.consumer.commit_error = None

    def after_polls(self) -> list[Any]:
        return self.log[self.log.index("completed") :]


def test_a_member_that_ends_during_a_rebalance_goes_on_with_it_and_commits() -> None:
    """Its commit was refused, and what it had handled came again though it ended in order."""
    member = Ending({}, {T0: [record(2)], T1: [record(1, 1)]}, lambda: member.completed())
    assert member.run().handled == 1, "what polls give is left to others"
    assert [entry[0] for entry in member.log].count("pause") == 3
    assert member.after_polls() == ["completed", ("commit", {T0: 2}), "consumer closed"]


def test_what_it_gives_up_then_is_committed_as_ever() -> None:
    def revoke() -> None:
        member.completed()
        member.consumer.listener.on_partitions_revoked([T0])

    member = Ending(revoke)
    member.run()
    assert member.after_polls() == ["completed", ("commit", {T0: 2}), "consumer closed"], "once"


def test_a_rebalance_that_does_not_end_does_not_keep_it(caplog: pytest.LogCaptureFixture) -> None:
    member = Ending(rebalance_s=0.0)
    member.run()
    assert member.log[-1] == "consumer closed"
    assert "what was handled since the last commit comes again" in caplog.text


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
