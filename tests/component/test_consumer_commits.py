"""A consumer's commits: their offsets, their times, and their refusals."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from actors.client import (
    OffsetAndMetadata,
)
from actors.client.errors import (
    CommitFailedError,
    KafkaTimeoutError,
    RebalanceInProgressError,
)
from actors.wire import messages as m
from tests.support.client_broker import SILENCE
from tests.support.consuming import T0, T1, consumer, poll_until, read, wait_for

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
        kafka.script(m.OffsetCommitRequest, lambda request: kafka.on_offsetcommit(request, 27))
        with pytest.raises(RebalanceInProgressError, match="poll"):
            reader.commit()
        poll_until(reader, lambda: reader.assignment() and reader.member.settled)
        kafka.script(m.OffsetCommitRequest, lambda request: kafka.on_offsetcommit(request, 25))
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
            kafka.script(m.OffsetCommitRequest, lambda request, code=code: kafka.on_offsetcommit(request, code))
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
        assert done == []
        poll_until(reader, lambda: done)
        assert done == [(threading.get_ident(), {T0: OffsetAndMetadata(1)}, None)]
        kafka.script(m.OffsetCommitRequest, lambda request: kafka.on_offsetcommit(request, 14))
        reader.commit_async({T0: OffsetAndMetadata(2)}, lambda *args: done.append(args))
        poll_until(reader, lambda: len(done) == 2)
        assert done[1][1].retriable
        assert kafka.committed[T0] == 1, "an async commit is not repeated"


def test_commits_that_wait_for_a_coordinator_are_sent_in_their_order(kafka):
    """The newest could be the first, as when a broker had died, and the older ones took the group's offsets back."""
    asked, goes_on = threading.Event(), threading.Event()

    def slow(_: Any) -> None:
        asked.set()
        goes_on.wait(60)

    heard: list[int] = []
    with consumer(kafka, group_id="g", enable_auto_commit=False) as reader:
        reader.assign([T0])
        assert reader.position(T0) == 0  # the last thing that it asks the coordinator by itself
        kafka.script(m.FindCoordinatorRequest, slow)
        kafka.drop_connections()
        for number in range(1, 4):
            reader.commit_async(
                {T0: OffsetAndMetadata(number)}, lambda offsets, error: heard.append(error or offsets[T0].offset)
            )
            assert asked.wait(60)
        try:
            with pytest.raises(KafkaTimeoutError):
                reader.commit({T0: OffsetAndMetadata(4)}, timeout_ms=50)
        finally:
            goes_on.set()
        poll_until(reader, lambda: len(heard) == 3)
    assert heard == [1, 2, 3]
    committed = [r.topics[0].partitions[0].committed_offset for r in kafka.requests(m.OffsetCommitRequest)]
    assert committed == [1, 2, 3]


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
        kafka.script(m.OffsetCommitRequest, *[lambda request: kafka.on_offsetcommit(request, 14)] * 3)
        begin = time.monotonic()
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=27))
        poll_until(reader, lambda: len(kafka.requests(m.JoinGroupRequest)) > joins)
        assert time.monotonic() - begin >= 0.3
        assert len(kafka.requests(m.OffsetCommitRequest)) == 4
        assert kafka.committed[T0] == 1
