"""A range member when the group turns against it, over a consumer that does as it is told. No broker."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.errors import (
    CommitFailedError,
    GroupAuthorizationError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    WakeupError,
)
from actors.client.records import ConsumerGroupMetadata
from actors.members.ranges.group import Holding, RangeMemberSpec
from actors.members.ranges.member import RangeMember
from actors.runtime.environment import Environment
from tests.compat.support import wait_until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class ToldConsumer:
    """A consumer whose polls run what a test has put into `polls`, in the member's thread."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.polls: queue.Queue[Callable[[], Any]] = queue.Queue()
        self.stored: dict[TopicPartition, int] = {}
        self.ids: dict[str, bytes] = {"t": b"first"}
        self.refusals: list[Exception] = []
        self.rebalancing = threading.Event()
        self.refused = threading.Event()
        self.mine: set[TopicPartition] = set()
        self.lapsed = False
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.away = False
        self._woken = threading.Event()
        self._listener: Any = None

    def subscribe(self, topics: list[str], pattern: str | None, listener: Any) -> None:
        self._listener = listener
        self.assign(T0, T1)

    def assign(self, *partitions: TopicPartition) -> None:
        self.polls.put(lambda: (self.mine.update(partitions), self._listener.on_partitions_assigned(list(partitions))))

    def revoke(self, *partitions: TopicPartition) -> None:
        self.polls.put(lambda: self.take(*partitions))

    def take(self, *partitions: TopicPartition) -> None:
        self._listener.on_partitions_revoked(list(partitions))
        self.mine.difference_update(partitions)

    def recreate(self, *partitions: TopicPartition) -> None:
        self._listener.on_partitions_recreated(list(partitions))

    def poll(self, timeout_ms: int) -> None:
        self._raise_if_woken()
        try:
            self.polls.get(timeout=min(timeout_ms, 20) / 1000 or 0.001)()
        except queue.Empty:
            self._raise_if_woken()

    def wakeup(self) -> None:
        self._woken.set()

    def _raise_if_woken(self) -> None:
        if self._woken.is_set():
            self._woken.clear()
            raise WakeupError

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None) -> None:
        self._raise_if_woken()
        assert self.may_commit.wait(10)
        if self.away:
            self._woken.wait(20 if timeout_ms is None else 0)
            self._raise_if_woken()
            raise KafkaTimeoutError("the coordinator is away")
        if self.rebalancing.is_set():
            self.refused.set()
            raise RebalanceInProgressError
        if self.refusals:
            raise self.refusals.pop(0)
        self.stored.update({tp: at.offset for tp, at in offsets.items()})

    def committed_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return {tp: OffsetAndMetadata(self.stored[tp]) if tp in self.stored else None for tp in partitions}

    def topic_ids(self, topics: set[str], timeout_ms: int | None = None) -> dict[str, bytes]:
        self._raise_if_woken()
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def assignment(self) -> set[TopicPartition]:
        return set(self.mine)

    def session_lapsed(self) -> bool:
        return self.lapsed

    def group_metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", 1, "m", None)

    def pause(self, *partitions: TopicPartition) -> None: ...

    def unsubscribe(self) -> None: ...

    def close(self, autocommit: bool) -> None: ...


class Pair:
    """A member and its consumer."""

    def __init__(self, finish_s: float = 60.0, rebalance_s: float = 60.0, **spec: Any) -> None:
        self.environment = Environment()
        self.member = RangeMember(
            RangeMemberSpec("g", "127.0.0.1:1", ("t",), **spec),
            make_consumer=self._make,
            environment=self.environment,
            finish_s=finish_s,
            rebalance_s=rebalance_s,
        )

    def _make(self, **settings: Any) -> ToldConsumer:
        self.consumer = ToldConsumer(**settings)
        return self.consumer

    def settled(self) -> Holding:
        return wait_until(lambda: (found := self.member.holding()).settled and found, 10, "a settled member")


@pytest.fixture
def start() -> Iterator[Callable[..., Pair]]:
    pairs: list[Pair] = []

    def start(**spec: Any) -> Pair:
        pairs.append(Pair(**spec))
        pairs[-1].settled()
        return pairs[-1]

    yield start
    for pair in pairs:
        pair.member.stop()


def all_to(holding: Holding, offset: int) -> dict[tuple[str, int], tuple[int, str]]:
    return {(held.topic, held.partition): (offset, held.fencing_token) for held in holding.partitions}


def test_the_consumer_has_the_members_clock_and_chance(start: Callable[..., Pair]) -> None:
    pair = start()
    assert pair.consumer.settings["environment"] is pair.environment


def test_partitions_stay_in_use_when_a_commit_was_refused_and_the_session_went_on(start: Callable[..., Pair]) -> None:
    """A coordinator that was away for longer than a session: the commit is refused, and nobody ever says "lost"."""
    pair = start()
    batch = pair.member.begin()
    pair.consumer.refusals = [CommitFailedError("no heartbeat was answered")]
    assert pair.member.finish(all_to(batch, 5)) == []
    again = pair.settled()
    assert [held.position for held in again.partitions] == [0, 0]
    assert {held.fencing_token for held in again.partitions}.isdisjoint(held.fencing_token for held in batch.partitions)


def test_a_commit_that_has_failed_for_good_is_not_made_later(start: Callable[..., Pair]) -> None:
    """The next revocation made it, although whoever had finished the batch was told that it had failed."""
    pair = start()
    batch = pair.member.begin()
    pair.consumer.refusals = [GroupAuthorizationError("not any more")]
    with pytest.raises(GroupAuthorizationError):
        pair.member.finish(all_to(batch, 5))
    pair.consumer.revoke(T1)
    wait_until(lambda: len(pair.member.holding().partitions) == 1, 10, "the revocation")
    assert set(pair.consumer.stored.values()) == {0}, "as at the beginning"
    again = pair.member.begin()
    assert pair.member.finish(all_to(again, 6)) == [("t", 0)], "the next batch goes as any"


@pytest.mark.parametrize("told", [True, False], ids=["the consumer noticed", "a broker was asked"])
def test_what_was_read_of_a_deleted_topic_was_committed_for_the_new_one(start: Callable[..., Pair], told: bool) -> None:
    """Old brokers may still have offsets of the old topic, and the starts were about that one."""
    pair = start(starts={("t", 0): 100}, start_ids={"t": b"first"})
    batch = pair.member.begin()
    assert [(held.position, held.topic_id) for held in batch.partitions] == [(100, b"first"), (0, b"first")]
    pair.consumer.ids["t"] = b"second"
    if told:
        pair.consumer.polls.put(lambda: pair.consumer.recreate(T0, T1))
    assert pair.member.finish(all_to(batch, 105)) == []
    again = pair.settled()
    assert [(held.position, held.topic_id) for held in again.partitions] == [(0, b"second"), (0, b"second")]
    assert pair.consumer.stored == {T0: 0, T1: 0}
    assert pair.member.finish(all_to(pair.member.begin(), 7)) == [T0, T1]


def test_a_batch_began_in_a_topic_that_was_deleted(start: Callable[..., Pair]) -> None:
    pair = start()
    pair.consumer.ids["t"] = b"second"
    assert {held.topic_id for held in pair.member.begin().partitions} == {b"second"}


def test_starts_of_a_topic_that_was_created_again_are_not_used_by_a_member_that_comes_later(
    start: Callable[..., Pair],
) -> None:
    pair = start(starts={("t", 0): 100}, start_ids={"t": b"before that"})
    assert [held.position for held in pair.member.holding().partitions] == [0, 0]


def test_a_commit_waits_for_a_rebalance_however_long(start: Callable[..., Pair]) -> None:
    """Others in the group may take their max.poll.interval.ms to join again; that is no reason to end a query."""
    pair = start(finish_s=0.0)
    batch = pair.member.begin()
    pair.consumer.refusals = [RebalanceInProgressError()] * 5
    assert len(pair.member.finish(all_to(batch, 5))) == 2
    batch = pair.member.begin()
    pair.consumer.refusals = [KafkaTimeoutError("the coordinator is away")] * 5
    with pytest.raises(KafkaTimeoutError):
        pair.member.finish(all_to(batch, 6))


def test_no_next_batch_begins_while_partitions_are_on_their_way_out(start: Callable[..., Pair]) -> None:
    """The batch that follows at once must not hold the rebalance up anew, nor have what is leaving."""
    pair = start(revoke_wait_ms=20_000)
    batch = pair.member.begin()
    in_callback = threading.Event()
    pair.consumer.polls.put(in_callback.set)
    pair.consumer.revoke(T1)
    assert in_callback.wait(10)
    pair.consumer.may_commit.clear()
    with ThreadPoolExecutor(2) as pool:
        finished = pool.submit(pair.member.finish, all_to(batch, 5))
        wait_until(lambda: not pair.member.busy, 10, "the commit under way")
        begun = pool.submit(pair.member.begin)
        wait_until(lambda: pair.member.busy, 10, "the next batch waiting to begin")
        pair.consumer.may_commit.set()
        assert len(finished.result(10)) == 2
        assert [(held.partition, held.position) for held in begun.result(10).partitions] == [(0, 5)]


def test_nothing_is_handed_out_past_the_session(start: Callable[..., Pair]) -> None:
    pair = start()
    pair.consumer.lapsed = True
    assert pair.member.begin().partitions == ()
    assert not pair.member.holding().settled
    pair.consumer.lapsed = False
    assert len(pair.member.begin().partitions) == 2


def test_a_stop_does_not_wait_for_a_coordinator_that_is_away(start: Callable[..., Pair]) -> None:
    pair = start()
    batch = pair.member.begin()
    pair.consumer.away = True
    with ThreadPoolExecutor(1) as pool:
        finish = pool.submit(pair.member.finish, all_to(batch, 5))
        wait_until(lambda: pair.member.committing, 10, "the commit under way")
        assert pair.member.stop(10)
        assert finish.result(10) == []
    assert pair.consumer.stored == {T0: 0, T1: 0}


def test_a_stop_in_the_middle_of_a_rebalance_goes_on_with_it_and_commits(start: Callable[..., Pair]) -> None:
    """The batch was done and written; its commit waited for the rebalance, and was given up: all came again."""
    pair = start()
    batch = pair.member.begin()
    pair.consumer.rebalancing.set()
    with ThreadPoolExecutor(2) as pool:
        finish = pool.submit(pair.member.finish, all_to(batch, 5))
        assert pair.consumer.refused.wait(10)
        stop = pool.submit(pair.member.stop)
        wait_until(lambda: pair.member.stopping, 10, "the stop to be heard of")
        pair.consumer.refused.clear()
        pair.consumer.polls.put(pair.consumer.refused.clear)  # a poll: the rebalance gets on by it
        assert pair.consumer.refused.wait(10), "tried again"
        pair.consumer.rebalancing.clear()
        assert finish.result(10) == [("t", 0), ("t", 1)]
        assert stop.result(10)
    assert pair.consumer.stored == {T0: 5, T1: 5}


def test_what_leaves_in_that_rebalance_is_committed_before_it_is_given_up(start: Callable[..., Pair]) -> None:
    pair = start()
    batch = pair.member.begin()
    pair.consumer.rebalancing.set()
    with ThreadPoolExecutor(2) as pool:
        finish = pool.submit(pair.member.finish, all_to(batch, 5))
        assert pair.consumer.refused.wait(10)
        stop = pool.submit(pair.member.stop)
        wait_until(lambda: pair.member.stopping, 10, "the stop to be heard of")
        pair.consumer.polls.put(pair.consumer.rebalancing.clear)
        pair.consumer.revoke(T1)
        assert finish.result(10) == [("t", 0), ("t", 1)]
        assert stop.result(10)


def test_a_batch_that_ends_just_when_its_member_is_stopped_is_committed(start: Callable[..., Pair]) -> None:
    """The member looked for a stop before it looked for its next command."""
    pair = start()
    batch = pair.member.begin()
    polling, go = threading.Event(), threading.Event()
    pair.consumer.polls.put(lambda: (polling.set(), go.wait(10)))
    assert polling.wait(10)
    with ThreadPoolExecutor(2) as pool:
        finish = pool.submit(pair.member.finish, all_to(batch, 5))
        wait_until(lambda: pair.member.busy, 10, "the end of the batch")
        stop = pool.submit(pair.member.stop)
        wait_until(lambda: pair.member.stopping, 10, "the stop")
        go.set()
        assert finish.result(10) == [("t", 0), ("t", 1)]
        assert stop.result(10)


def test_a_batch_whose_partition_leaves_just_when_its_member_is_stopped_is_committed(
    start: Callable[..., Pair],
) -> None:
    pair = start(revoke_wait_ms=20_000)
    batch = pair.member.begin()
    polling, go = threading.Event(), threading.Event()
    pair.consumer.polls.put(lambda: (polling.set(), go.wait(10), pair.consumer.take(T1)))
    assert polling.wait(10)
    with ThreadPoolExecutor(2) as pool:
        finish = pool.submit(pair.member.finish, all_to(batch, 5))
        stop = pool.submit(pair.member.stop)
        wait_until(lambda: pair.member.stopping and pair.member.busy, 10, "both")
        go.set()
        assert finish.result(10) == [("t", 0), ("t", 1)]
        assert stop.result(10)


def test_a_rebalance_that_does_not_end_does_not_keep_a_member_that_is_stopped(
    start: Callable[..., Pair], caplog: pytest.LogCaptureFixture
) -> None:
    pair = start(rebalance_s=0.0)
    batch = pair.member.begin()
    pair.consumer.rebalancing.set()
    with ThreadPoolExecutor(1) as pool:
        finish = pool.submit(pair.member.finish, all_to(batch, 5))
        assert pair.consumer.refused.wait(10)
        assert pair.member.stop(10)
        assert finish.result(10) == []
    assert "the batch in hand comes again" in caplog.text
