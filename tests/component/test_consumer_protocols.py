"""`Consumer` with a member of another protocol than the classic one: one that gives itself its partitions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors.client.errors import CommitFailedError
from actors.client.group.protocols import PROTOCOLS
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker
from tests.support.consuming import T0, T1, Recorder, consumer, poll_until, read
from tests.support.lone_member import LoneMember, State, protocols


def reading(kafka: ScriptedBroker, made: list[LoneMember], **settings: Any) -> Any:
    settings = {"group_id": "g", "heartbeat_interval_ms": 20, "group_protocol": "lone", **settings}
    return consumer(kafka, protocols=protocols(made), **settings)


def test_a_consumer_reads_and_commits_with_a_member_that_gives_itself_its_partitions(kafka):
    kafka.append("t", 0, b"a")
    kafka.append("t", 1, b"b")
    made: list[LoneMember] = []
    heard = Recorder()
    with reading(kafka, made, enable_auto_commit=False) as reader:
        reader.subscribe(["t"], listener=heard)
        assert {r.value for r in read(reader, 2)} == {b"a", b"b"}
        assert reader.assignment() == {T0, T1}
        assert heard.calls == [("assigned", [T0, T1])]
        assert (reader.group_metadata().generation_id, reader.group_metadata().member_id) == (1, "lone")
        assert reader.metrics()["state"] == State.STABLE.value
        reader.enforce_rebalance()
        reader.commit()
    (commit,) = kafka.requests(m.OffsetCommitRequest)
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (1, "lone")
    assert kafka.committed == {T0: 1, T1: 1}
    assert heard.calls[1:] == [("revoked", [T0, T1])]
    assert kafka.requests(m.HeartbeatRequest)[-1].generation_id == -1, "it has left"
    assert kafka.requests(m.JoinGroupRequest) == kafka.requests(m.SyncGroupRequest) == []


def test_what_moves_is_committed_before_the_listener_hears_of_it_and_the_rest_is_read_on(kafka):
    kafka.append("t", 0, b"a")
    kafka.append("t", 1, b"b")
    made: list[LoneMember] = []
    committed: list[Any] = []

    class Listener(Recorder):
        def on_partitions_revoked(self, revoked: list[Any]) -> None:
            committed.append(dict(kafka.committed))
            super().on_partitions_revoked(revoked)

    heard = Listener()
    with reading(kafka, made) as reader:
        reader.subscribe(["t"], listener=heard)
        read(reader, 2)
        made[0].target = frozenset({T1})
        poll_until(reader, lambda: reader.assignment() == {T1})
        assert heard.calls == [("assigned", [T0, T1]), ("revoked", [T0]), ("assigned", [])]
        assert committed == [{T0: 1, T1: 1}]
        kafka.append("t", 0, b"c")
        kafka.append("t", 1, b"d")
        assert [r.value for r in read(reader, 1)] == [b"d"]


def test_a_refused_commit_is_raised_as_the_member_says(kafka):
    made: list[LoneMember] = []
    with reading(kafka, made, enable_auto_commit=False) as reader:
        kafka.append("t", 0, b"a")
        reader.subscribe(["t"])
        read(reader, 1)
        kafka.script(m.OffsetCommitRequest, lambda request: kafka.on_offsetcommit(request, 113))
        with pytest.raises(CommitFailedError, match="committing t-0 for group g"):
            reader.commit()
        reader.commit()
    assert kafka.committed[T0] == 1


@pytest.mark.conformance("K-F-26", "K-F-38")
def test_a_commit_before_a_revocation_is_made_again_if_its_epoch_was_stale(kafka):
    kafka.append("t", 0, b"a")
    kafka.append("t", 1, b"b")
    made: list[LoneMember] = []
    committed: list[Any] = []

    class Listener(Recorder):
        def on_partitions_revoked(self, revoked: list[Any]) -> None:
            committed.append(dict(kafka.committed))

    with reading(kafka, made, auto_commit_interval_ms=600_000) as reader:
        reader.subscribe(["t"], listener=Listener())
        read(reader, 2)
        kafka.script(m.OffsetCommitRequest, lambda request: kafka.on_offsetcommit(request, 113))
        made[0].target = frozenset({T1})
        poll_until(reader, lambda: reader.assignment() == {T1})
        assert committed == [{T0: 1, T1: 1}]
        assert len(kafka.requests(m.OffsetCommitRequest)) == 2


def test_a_consumer_does_not_close_in_a_way_that_there_is_not(kafka):
    with reading(kafka, []) as reader:
        with pytest.raises(ValueError, match="GroupMembershipOperation"):
            reader.close(group_membership_operation="STAY")
        reader.subscribe(["t"])
        poll_until(reader, lambda: reader.assignment() == {T0, T1})


@pytest.mark.conformance("K-F-26")
def test_a_commit_for_a_rebalance_that_was_given_up_does_not_stand_in_for_the_next_one(kafka):
    kafka.append("t", 0, b"a")
    kafka.append("t", 1, b"b")
    made: list[LoneMember] = []
    answered = threading.Event()
    committed: list[Any] = []

    def late(request: Any) -> Any:
        answered.wait(60)
        return kafka.on_offsetcommit(request, 25)

    class Listener(Recorder):
        def on_partitions_revoked(self, revoked: list[Any]) -> None:
            committed.append(dict(kafka.committed))

    with reading(kafka, made, auto_commit_interval_ms=600_000) as reader:
        heard = Listener()
        reader.subscribe(["t"], listener=heard)
        read(reader, 2)
        kafka.script(m.OffsetCommitRequest, late)
        made[0].target = frozenset({T1})
        poll_until(reader, lambda: kafka.requests(m.OffsetCommitRequest))
        made[0].lose()
        answered.set()
        made[0].target = None
        again = poll_until(reader, lambda: ("lost", [T0, T1]) in heard.calls and reader.assignment() == {T0, T1})
        read(reader, 2 - len(again))
        made[0].target = frozenset({T1})
        poll_until(reader, lambda: reader.assignment() == {T1})
        assert committed == [{T0: 1, T1: 1}]


class Touchy(LoneMember):
    """A member that notes if the event loop calls it while the program asks whether a poll is awaited."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.asked = False
        self.touched = threading.Event()

    def on_time(self, now_ms: int) -> None:
        if self.asked:
            self.touched.set()
        super().on_time(now_ms)

    def awaits_poll(self, now_ms: int) -> bool:
        self.asked = True
        self.touched.wait(0.3)
        self.asked = False
        return super().awaits_poll(now_ms)


def test_a_member_does_not_change_while_it_is_asked_whether_a_poll_is_awaited(kafka):
    made: list[Touchy] = []

    def touchy(settings: Any, pid: int, jitter: Any, new_member_id: Any) -> Touchy:
        made.append(Touchy(settings, jitter))
        return made[-1]

    settings: dict[str, Any] = {"group_id": "g", "heartbeat_interval_ms": 20, "group_protocol": "lone"}
    with consumer(kafka, protocols={**PROTOCOLS, "lone": touchy}, **settings) as reader:
        reader.subscribe(["t"])
        poll_until(reader, lambda: reader.assignment() == {T0, T1})
        assert not reader.rebalance_due()
        assert not made[0].touched.is_set()


def test_a_lost_coordinator_is_looked_up_again_whichever_the_protocol(kafka):
    kafka.append("t", 0, b"a")
    made: list[LoneMember] = []
    # Without a pause after a lost connection: a coordinator that is found in its node's pause is lost again.
    with reading(kafka, made, reconnect_backoff_ms=0) as reader:
        reader.subscribe(["t"])
        read(reader, 1)
        beats = len(kafka.requests(m.HeartbeatRequest))
        kafka.drop_connections()
        poll_until(reader, lambda: len(kafka.requests(m.HeartbeatRequest)) > beats + 1)
        assert len(kafka.requests(m.FindCoordinatorRequest)) == 2
        assert reader.assignment() == {T0, T1}
