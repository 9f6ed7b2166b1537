"""When the offsets of groups without members are committed, again or not at all; in virtual time, and by the thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actors.client import TopicPartition
from actors.client.errors import (
    KafkaConnectionError,
    KafkaError,
    NotEnoughReplicasError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from spark_bridge.progress import GroupOffsets
from spark_bridge.publishing import REFRESH_S, GroupCommits, Publisher

A, B = TopicPartition("orders", 0), TopicPartition("gone", 0)


@pytest.fixture
def group() -> GroupCommits:
    """A group whose commits of A at 5 and B at 7 have been answered at once, at the time 0."""
    group = GroupCommits("billing")
    group.want({A: 5, B: 7}, live=True)
    group.answered(group.due(0.0), {}, 0.0)
    return group


def test_only_what_has_changed_is_committed(group: GroupCommits) -> None:
    assert group.due(1.0) == {}
    group.want({A: 6, B: 7}, live=True)
    assert group.due(1.0) == {A: 6}


def test_offsets_that_go_back_are_committed(group: GroupCommits) -> None:
    group.want({A: 1, B: 7}, live=True)
    assert group.due(1.0) == {A: 1}


def test_while_a_query_runs_without_records_its_commits_are_kept_from_expiring(group: GroupCommits) -> None:
    assert group.due_in_s(1.0) == REFRESH_S - 1.0
    assert group.due(REFRESH_S) == {A: 5, B: 7}
    group.answered({A: 5, B: 7}, {}, REFRESH_S)
    group.want({A: 5, B: 7}, live=False)
    assert (group.due(10 * REFRESH_S), group.due_in_s(10 * REFRESH_S)) == ({}, None)


def test_a_broker_that_is_not_there_is_asked_again_later_and_gets_the_newest_only(group: GroupCommits) -> None:
    group.want({A: 6, B: 7}, live=True)
    waits, now_s = [], 1.0
    for offset in range(7, 17):
        group.failed(KafkaConnectionError("nobody there"), now_s)
        group.want({A: offset, B: 7}, live=True)
        assert group.due(now_s) == {}
        wait = group.due_in_s(now_s)
        assert wait is not None
        waits.append(wait)
        now_s += wait
        assert group.due(now_s)[A] == offset
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    group.answered(group.due(now_s), {}, now_s)
    assert (group.committed, group.problem) == ({A: 16, B: 7}, None)
    group.failed(KafkaConnectionError("again"), now_s)
    assert group.due_in_s(now_s) == 0.5


def test_who_stops_gets_one_more_attempt_at_once(group: GroupCommits) -> None:
    group.want({A: 6, B: 7}, live=True)
    group.failed(KafkaConnectionError("nobody there"), 1.0)
    group.hurry()
    assert group.due(1.0) == {A: 6}


def test_of_a_group_with_members_it_is_said_once_and_each_change_is_tried(
    group: GroupCommits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spark_bridge")
    for offset in (6, 7, 8):
        group.want({A: offset, B: 7 + offset}, live=True)
        sent = group.due(1.0)
        group.answered(sent, {tp: UnknownMemberIdError("not empty") for tp in sent}, 1.0)
        assert group.due(1.0) == {}, "the same offsets would fare no better"
    assert group.problem is not None
    assert "group 'billing'" in group.problem
    assert "give the Spark queries a group of their own" in group.problem
    assert group.committed == {A: 5, B: 7}
    group.want({A: 9, B: 20}, live=True)
    group.answered(group.due(1.0), {}, 1.0)
    assert (group.committed, group.problem) == ({A: 9, B: 20}, None)
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_when_the_members_have_left_what_they_kept_out_is_committed_with_the_next_change(group: GroupCommits) -> None:
    group.want({A: 6, B: 8}, live=True)
    group.answered(group.due(1.0), {A: UnknownMemberIdError(), B: UnknownMemberIdError()}, 1.0)
    group.want({A: 7, B: 8}, live=True)
    assert group.due(2.0) == {A: 7}
    group.answered({A: 7}, {}, 2.0)
    assert group.due(2.0) == {B: 8}
    assert group.problem is not None
    group.answered({B: 8}, {}, 2.0)
    assert (group.due(2.0), group.problem) == ({}, None)


def test_a_deleted_topic_is_named_and_spoils_no_other(group: GroupCommits, caplog: pytest.LogCaptureFixture) -> None:
    for offset in (8, 9):
        group.want({A: offset, B: offset}, live=True)
        group.answered(group.due(1.0), {B: UnknownTopicOrPartitionError()}, 1.0)
    assert group.committed == {A: 9, B: 7}
    assert [record.getMessage() for record in caplog.records] == [group.problem]
    assert "these brokers have no partition gone-0" in str(group.problem)
    group.want({A: 10}, live=True)
    group.answered(group.due(1.0), {}, 1.0)
    assert group.problem is None, "Spark has given the topic up"


def test_a_partition_that_may_be_committed_in_a_moment_is_tried_again(group: GroupCommits) -> None:
    group.want({A: 8, B: 8}, live=True)
    group.answered(group.due(1.0), {B: NotEnoughReplicasError()}, 1.0)
    assert group.due(1.0) == {}
    assert group.due(1.5) == {B: 8}


class Brokers:
    """Stands for an Admin. The test says what comes of each commit, and when."""

    def __init__(self) -> None:
        self.commits: list[tuple[str, dict[TopicPartition, int]]] = []
        self.results: list[Exception | KafkaError | None] = []
        self.may_answer = threading.Semaphore(0)
        self.asked = threading.Semaphore(0)
        self.closed = threading.Event()

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: dict[TopicPartition, int], timeout_ms: int, raise_errors: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        self.asked.release()
        assert self.may_answer.acquire(timeout=20)
        result = self.results.pop(0) if self.results else None
        if result is not None:
            raise result
        self.commits.append((group_id, dict(offsets)))
        return dict.fromkeys(offsets)

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def publisher(brokers: Brokers) -> Iterator[Publisher]:
    def connect() -> Any:
        return brokers

    publisher = Publisher(connect)
    yield publisher
    for _ in range(10):
        brokers.may_answer.release()
    assert publisher.close(20)


def totals(offset: int, *, live: bool = True) -> GroupOffsets:
    return GroupOffsets("totals", {A: offset}, live=live)


def test_who_publishes_does_not_wait_and_what_came_meanwhile_is_left_out(
    publisher: Publisher, brokers: Brokers
) -> None:
    publisher.publish(totals(1))
    assert brokers.asked.acquire(timeout=20)
    for offset in range(2, 100):
        publisher.publish(totals(offset))
    for _ in range(2):
        brokers.may_answer.release()
    assert publisher.close(20)
    assert brokers.commits == [("totals", {A: 1}), ("totals", {A: 99})]
    assert publisher.committed() == {"totals": {A: 99}}
    assert brokers.closed.is_set()


@pytest.mark.parametrize("error", [KafkaConnectionError("nobody there"), ZeroDivisionError("a bug")])
def test_what_has_failed_comes_with_the_stop_at_the_latest(
    publisher: Publisher, brokers: Brokers, error: Exception
) -> None:
    brokers.results = [error]
    brokers.may_answer.release()
    publisher.publish(totals(1))
    assert brokers.asked.acquire(timeout=20)
    publisher.publish(totals(2, live=False))
    brokers.may_answer.release()
    brokers.may_answer.release()
    assert publisher.close(20)
    assert brokers.commits == [("totals", {A: 2})]
    assert publisher.problems() == []


def test_a_stop_does_not_wait_for_brokers_that_are_not_there(brokers: Brokers) -> None:
    def connect() -> Any:
        raise KafkaConnectionError("nobody there")

    publisher = Publisher(connect)
    publisher.publish(totals(1))
    assert publisher.close(20)
    (problem,) = publisher.problems()
    assert "nobody there; the newest offsets are tried again" in problem
