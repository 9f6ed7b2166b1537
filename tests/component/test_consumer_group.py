"""`Consumer` as a member of a group, against a broker that does what the test says."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from actors.client import (
    TopicPartition,
)
from actors.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    HeartbeatFailedError,
    IllegalStateError,
    UnsupportedVersionError,
    WakeupError,
)
from actors.client.group.classic.membership import classic_member
from actors.client.group.classic.round import Kind
from actors.client.group.effects import Effect, Send
from actors.wire import messages as m
from tests.support.client_broker import RUBBISH, SILENCE
from tests.support.consuming import T0, T1, Recorder, consumer, poll_until, read, wait_for

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


def test_what_a_round_has_given_was_not_read_until_the_next_round_was_over(kafka):
    """Its committed offset was asked for behind the JoinGroup, which waits for the slowest of the group's handlers.

    Nobody answered that within `request_timeout_ms`, and then the connection was closed, and the JoinGroup with it.
    """
    recorder = Recorder()
    settings = {"partition_assignment_strategy": ["cooperative-sticky"], "heartbeat_interval_ms": 50}
    kafka.append("t", 1, b"new")
    kafka.give = lambda member_id: [T0]
    with consumer(kafka, group_id="g", **settings) as reader:
        reader.subscribe(["t"], listener=recorder)
        poll_until(reader, lambda: reader.assignment() == {T0})
        release = threading.Event()

        def slowly(request: Any) -> Any:
            release.wait(60)

        kafka.give = lambda member_id: [T1]
        kafka.script(m.JoinGroupRequest, lambda request: None, slowly)
        kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=27))
        found = poll_until(
            reader, lambda: kafka.order(m.JoinGroupRequest, m.SyncGroupRequest)[-1] == "JoinGroupRequest"
        )
        found += read(reader, 1 - len(found))
        assert [r.value for r in found] == [b"new"]
        assert reader.committed(T1) is None
        assert kafka.order(m.JoinGroupRequest, m.SyncGroupRequest)[-1] == "JoinGroupRequest", "the round goes on"
        release.set()
        poll_until(reader, lambda: kafka.order(m.JoinGroupRequest, m.SyncGroupRequest)[-1] == "SyncGroupRequest")
    assert ("lost", [T1]) not in recorder.calls


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
def test_a_request_that_cannot_even_be_sent_is_raised_by_poll_and_the_next_one_goes_on(kafka, request_class):
    faults = ["g\udc80"]  # UTF-8 has no such character

    def spoilt(effect: Effect) -> Effect:
        if isinstance(effect, Send) and isinstance(effect.request, request_class) and faults:
            field = "coordinator_keys" if request_class is m.FindCoordinatorRequest else "group_id"
            fault = faults.pop()
            setattr(effect.request, field, [fault] if field == "coordinator_keys" else fault)
        return effect

    def make(*given: Any) -> Any:
        member: Any = classic_member(*given)
        taken = member.take_effects
        member.take_effects = lambda: [spoilt(effect) for effect in taken()]
        return member

    protocols = {"classic": make}
    with consumer(kafka, "t", group_id="g", heartbeat_interval_ms=50, protocols=protocols) as reader:
        with pytest.raises(HeartbeatFailedError, match=f"{request_class.__name__} .*cannot be encoded") as raised:
            poll_until(reader, lambda: False)
        assert isinstance(raised.value.__cause__, ValueError)
        poll_until(reader, reader.assignment)


@pytest.mark.parametrize("kind", [Kind.JOIN, Kind.SYNC, Kind.HEARTBEAT])
def test_what_an_answer_breaks_is_raised_by_poll_and_the_next_one_joins(kafka, kind):
    with consumer(kafka, group_id="g", heartbeat_interval_ms=50) as reader:
        tables = reader.member.answers.tables
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

        monkeypatch.setattr(reader.member, method, failing)
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
        wait_for(lambda: kafka.unused(m.HeartbeatRequest) < 50)  # those before have been answered
        deadline = reader.member.live.deliver_until_ms
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
