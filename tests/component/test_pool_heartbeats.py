"""Silent members are kept alive: by the pool's heartbeats, reports before the handler goes on, the kernel's word.

Real sockets; no Ray.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.client import ConsumerRecord
from actors.links import keepalive
from actors.links.member import MemberConnection, MemberReport
from actors.members.member_link import MemberClient, MemberServer
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.watch.heartbeats import Heartbeats, Membership
from actors.members.reporting import Reporting
from actors.runtime.environment import REAL
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from tests.support.authority import Authority
from tests.support.client_broker import DROP, SILENCE, ScriptedBroker, broker
from tests.support.member import T0, Member, record
from tests.support.secure_broker import secure_broker

ME = Membership("g-0", "member-1", 4)
PASSWORD = "a word"
SECRET = b"s" * 16


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        yield running


def spec(kafka: ScriptedBroker, **options: Any) -> MemberSpec:
    return MemberSpec(("t",), "g", kafka.bootstrap_servers, options={"retry_backoff_ms": 10, **options})


@pytest.fixture
def heartbeats(kafka: ScriptedBroker) -> Iterator[Heartbeats]:
    made = Heartbeats(lambda: spec(kafka), REAL)
    yield made
    made.close()


def received(kafka: ScriptedBroker, count: int) -> list[Any]:
    with kafka.changed:
        assert kafka.changed.wait_for(lambda: len(kafka.requests(m.HeartbeatRequest)) >= count, 60)
        return kafka.requests(m.HeartbeatRequest)


# --- heartbeats by the pool ---


def test_a_heartbeat_is_the_members_own_but_for_its_connection(kafka: ScriptedBroker, heartbeats: Heartbeats) -> None:
    assert kafka.connections == 0, "there is a connection from the first heartbeat on"
    heartbeats.send(ME)
    (sent,) = received(kafka, 1)
    assert (sent.group_id, sent.group_instance_id) == ("g", "g-0")
    assert (sent.member_id, sent.generation_id) == ("member-1", 4)


def test_a_heartbeat_without_an_answer_is_not_sent_twice_and_keeps_no_other_one(
    kafka: ScriptedBroker, heartbeats: Heartbeats
) -> None:
    kafka.script(m.HeartbeatRequest, SILENCE)
    heartbeats.send(ME)
    received(kafka, 1)
    heartbeats.send(ME)
    other = Membership("g-1", "member-2", 4)
    heartbeats.send(other)
    assert [each.member_id for each in received(kafka, 2)] == ["member-1", "member-2"]


@pytest.mark.parametrize("answer", [DROP, m.HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)])
def test_a_coordinator_that_has_moved_is_looked_for_again(
    kafka: ScriptedBroker, heartbeats: Heartbeats, answer: Any
) -> None:
    kafka.script(m.HeartbeatRequest, answer)
    heartbeats.send(ME)
    received(kafka, 2)
    assert len(kafka.requests(m.FindCoordinatorRequest)) == 2


def test_a_member_that_cannot_read_the_answer_to_its_join_is_kept_in_the_next_generation(
    kafka: ScriptedBroker, heartbeats: Heartbeats
) -> None:
    """With concurrency a handler may keep the lock while its member joins."""
    kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    heartbeats.send(ME)
    assert [each.generation_id for each in received(kafka, 2)] == [4, 5]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_heartbeat_that_is_refused_is_said_once_and_the_next_one_goes_all_the_same(
    kafka: ScriptedBroker, heartbeats: Heartbeats, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.script(m.HeartbeatRequest, *[m.HeartbeatResponse(error_code=code)] * 2)
    for count in (1, 2, 3):
        send_until(heartbeats, kafka, count)
    heartbeats.close()
    assert caplog.text.count("could not send a heartbeat") == 1


def test_a_member_of_the_consumer_protocol_is_kept_by_heartbeats_of_that(
    kafka: ScriptedBroker, heartbeats: Heartbeats
) -> None:
    """The pool asks for it by the classic one first: the coordinator knows which one a member speaks."""
    kafka.versions[m.ConsumerGroupHeartbeatRequest] = (0, 1)
    kafka.script(m.HeartbeatRequest, m.HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    answer = m.ConsumerGroupHeartbeatResponse(member_epoch=6, heartbeat_interval_ms=5_000)
    kafka.script(m.ConsumerGroupHeartbeatRequest, *[answer] * 2)
    for count in (1, 2):
        send_until(heartbeats, kafka, count, m.ConsumerGroupHeartbeatRequest)
    beats = kafka.requests(m.ConsumerGroupHeartbeatRequest)[:2]
    assert [(b.group_id, b.member_id, b.instance_id) for b in beats] == [("g", "member-1", "g-0")] * 2
    assert [b.member_epoch for b in beats] == [4, 6], "the epoch of the answer"
    assert all(b.topic_partitions is None and b.subscribed_topic_names is None for b in beats), "nothing is given up"
    assert len(kafka.requests(m.HeartbeatRequest)) == 1


def send_until(
    heartbeats: Heartbeats, kafka: ScriptedBroker, count: int, kind: type[m.ApiMessage] = m.HeartbeatRequest
) -> None:
    """Send until so many have come: one that is under way stands for those that are sent meanwhile."""
    with kafka.changed:
        for _ in range(600):
            heartbeats.send(ME)
            if kafka.changed.wait_for(lambda: len(kafka.requests(kind)) >= count, 0.1):
                return
    raise AssertionError("no heartbeat came")


def test_where_a_login_is_asked_for_the_pool_logs_in_as_its_members_do(tmp_path: Path) -> None:
    """A helper process that took over the member's connection could not do this: the TLS state is in the member."""
    authority = Authority(tmp_path)
    path = tmp_path / "password"
    path.touch(0o600)
    path.write_text(PASSWORD)
    with secure_broker(authority.server("127.0.0.1"), {"alice": PASSWORD}) as kafka:
        secure = spec(
            kafka,
            security_protocol="SASL_SSL",
            ssl_cafile=authority.cafile,
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="alice",
            sasl_password_file=str(path),
        )
        heartbeats = Heartbeats(lambda: secure, REAL)
        heartbeats.send(ME)
        received(kafka, 1)
        heartbeats.close()
        assert kafka.logins >= 1


def test_credentials_that_are_not_on_the_pools_machine_are_named(
    kafka: ScriptedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice"}
    nowhere = spec(kafka, sasl_password_file=str(tmp_path / "nowhere"), **settings)
    heartbeats = Heartbeats(lambda: nowhere, REAL)
    for _ in range(3):
        heartbeats.send(ME)
    heartbeats.close()
    assert caplog.text.count("nowhere: No such file or directory on ") == 1


def test_after_its_end_nothing_is_sent(kafka: ScriptedBroker) -> None:
    heartbeats = Heartbeats(lambda: spec(kafka), REAL)
    heartbeats.close()
    heartbeats.send(ME)
    assert kafka.connections == 0


# --- the member says under what it stands in the group, before its handler goes on ---


def test_a_pool_knows_of_a_membership_before_the_first_record_of_it_is_handled() -> None:
    """The report came a fifth of a second later, when the handler had the lock, and told of no member."""
    seen: list[tuple[str, int]] = []
    told = threading.Event()

    def handle(_: ConsumerRecord) -> None:
        assert told.is_set()
        seen.append(known[-1])

    known: list[tuple[str, int]] = []
    member = Member(handle, [{T0: [record(1)]}, {T0: [record(2)]}])

    def tell() -> None:
        report = member.loop.report()
        known.append((report.member_id, report.generation_id))
        told.set()

    member.loop.run(tell)
    assert seen == [("member-1", 4)] * 2
    assert known == [("member-1", 4)], "it is told when it is new"


@pytest.mark.parametrize("hook", ["on_assigned", "on_revoked"])
def test_a_pool_knows_of_a_membership_before_a_hook_of_the_handler_runs(hook: str) -> None:
    known: list[int] = []
    seen: list[list[int]] = []

    class Hooked:
        def __call__(self, _: ConsumerRecord) -> None: ...

        def on_assigned(self, _: Any) -> None:
            seen.append(list(known))

        on_revoked = on_assigned

    def rebalance() -> None:
        listener = member.consumer.listener
        (listener.on_partitions_assigned if hook == "on_assigned" else listener.on_partitions_revoked)([T0])

    member = Member(Hooked, [rebalance])
    member.loop.run(lambda: known.append(member.loop.report().generation_id))
    assert seen[0] == [4]


class Told:
    """A member whose reports have a count."""

    def __init__(self) -> None:
        self.count = 0
        self.server = MemberServer("127.0.0.1", SECRET, self, self.report, lambda: None)

    def report(self) -> MemberReport:
        return MemberReport("Running", generation_id=self.count)


def test_what_a_member_tells_is_out_when_it_goes_on() -> None:
    member = Told()
    client = MemberClient.connect("127.0.0.1", member.server.port, SECRET)
    reports = client.reports()
    next(reports)
    for count in (1, 2, 3):
        member.count = count
        member.server.tell()
        member.count = -1  # a report that is made from now on has this
        while (found := next(reports).generation_id) != count:
            assert found < count
    client.close()


def test_a_pool_that_does_not_read_keeps_no_member_from_going_on() -> None:
    reporting = Reporting(60.0)
    sending, release = threading.Event(), threading.Event()

    def send() -> None:
        sending.set()
        assert release.wait(60)

    thread = threading.Thread(target=reporting.run, args=(send,))
    thread.start()
    assert sending.wait(60)
    reporting.now(0.01)  # returns
    reporting.end()
    release.set()
    thread.join(60)
    assert not thread.is_alive()


# --- what ends a connection, and what does not ---


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    return ours, theirs


def closing(*sockets: socket.socket) -> None:
    for each in sockets:
        each.close()


def test_a_machine_answers_for_a_process_that_says_nothing() -> None:
    ours, theirs = pair()
    keepalive.probe(ours)
    assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    before = keepalive.unanswered_s(ours)
    ours.sendall(b"x")  # nobody reads it
    assert 0 <= before < 5
    assert keepalive.unanswered_s(ours) < 5
    closing(ours, theirs)
    assert keepalive.unanswered_s(ours) == 0, "a closed connection is silent for its own reasons"


def test_a_lease_is_not_held_up_by_a_message_that_nobody_reads() -> None:
    """Otherwise the pool's watch over all its members would wait, too."""
    ours, theirs = pair()
    link = MemberConnection(ours)
    client = MemberClient(link)
    large = threading.Thread(target=client.call, args=("m", bytes(1 << 26)), daemon=True)
    large.start()
    until_full(theirs)
    client.renew_lease()  # returns
    assert large.is_alive()
    client.close()
    large.join(60)
    closing(theirs)


def until_full(theirs: socket.socket) -> None:
    """Wait until a message has begun to come."""
    theirs.settimeout(60)
    assert theirs.recv(1, socket.MSG_PEEK)


def test_a_killed_process_that_does_not_end_is_waited_for_only_so_long() -> None:
    ours, theirs = pair()
    client = MemberClient(MemberConnection(ours))
    client.limit_silence(0.05)
    assert list(client.reports()) == []
    client.close()
    closing(theirs)
