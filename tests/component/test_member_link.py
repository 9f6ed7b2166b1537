"""The connection to a member's actor: who may use it, what is called, what ends it. No Ray process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from actors.links.member import CODEC, Introduction, MemberConnection, MemberReport, StopMember
from actors.members.member_link import MemberClient, MemberEndedError, MemberServer

SECRET = b"s" * 16


class UnpicklableError(Exception):
    def __init__(self) -> None:
        super().__init__("held by a lock")
        self.lock = threading.Lock()


class Handler:
    """A user's handler with a state."""

    def __init__(self) -> None:
        self.total = 0
        self.entered, self.left = threading.Event(), threading.Event()

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def wait(self) -> str:
        self.entered.set()
        assert self.left.wait(60)
        return "waited"

    def fail(self) -> None:
        raise ValueError("not so")

    def leave(self) -> None:
        raise SystemExit(3)

    def lock(self) -> threading.Lock:
        return threading.Lock()

    def fail_badly(self) -> None:
        raise UnpicklableError


class Member:
    """A member's end in this process."""

    def __init__(self) -> None:
        self.handler = Handler()
        self.stopped = threading.Event()
        self.server = MemberServer("127.0.0.1", SECRET, self.handler, self.report, self.stopped.set)

    def report(self) -> MemberReport:
        return MemberReport("Stopped" if self.stopped.is_set() else "Running", handled=self.handler.total)


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.fixture
def client(member: Member) -> Iterator[MemberClient]:
    """A client whose reports a thread reads, as a pool's does."""
    made = MemberClient.connect("127.0.0.1", member.server.port, SECRET)
    reader = threading.Thread(target=lambda: list(made.reports()))
    reader.start()
    yield made
    made.close()
    reader.join(60)
    assert not reader.is_alive()


def test_a_method_is_called_and_its_result_comes_back(client: MemberClient) -> None:
    assert client.call("add", 2).result(60) == 2
    assert client.call("add", 3).result(60) == 5


def test_a_call_that_takes_long_does_not_hold_up_others(member: Member, client: MemberClient) -> None:
    waiting = client.call("wait")
    assert member.handler.entered.wait(60)
    assert client.call("add", 1).result(60) == 1
    assert not waiting.done()
    member.handler.left.set()
    assert waiting.result(60) == "waited"


def test_what_a_method_raises_is_raised_at_the_caller_with_where_it_was(client: MemberClient) -> None:
    with pytest.raises(ValueError, match="not so") as raised:
        client.call("fail").result(60)
    assert "in fail" in raised.value.__notes__[0]
    with pytest.raises(SystemExit):
        client.call("leave").result(60)
    with pytest.raises(AttributeError, match="no_such"):
        client.call("no_such").result(60)
    with pytest.raises(TypeError, match=r"pickle.*lock"):
        client.call("lock").result(60)
    with pytest.raises(RuntimeError, match="UnpicklableError: held by a lock"):
        client.call("fail_badly").result(60)


def test_the_last_report_comes_when_the_member_has_stopped(member: Member) -> None:
    client = MemberClient.connect("127.0.0.1", member.server.port, SECRET)
    reports = client.reports()
    assert next(reports).state == "Running"
    client.stop()
    assert member.stopped.wait(60)
    member.server.ended()
    assert "Stopped" in (report.state for report in reports)
    client.close()


def test_a_call_of_a_member_that_ends_raises(member: Member, client: MemberClient) -> None:
    waiting = client.call("wait")
    assert member.handler.entered.wait(60)
    client.close()  # as the pool does when the member's end of the connection ends
    for call in (waiting, client.call("add", 1)):
        with pytest.raises(MemberEndedError):
            call.result(60)
    member.handler.left.set()


@pytest.mark.parametrize(
    "said", [CODEC.encode(Introduction(b"t" * 16)), CODEC.encode(StopMember()), b"\xc1", b"x" * 5000]
)
def test_a_stranger_is_told_nothing_and_hung_up_on(member: Member, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", member.server.port)) as stranger:
        stranger.settimeout(60)
        stranger.sendall(len(said).to_bytes(4, "big") + said)
        stranger.sendall(len(CODEC.encode(StopMember())).to_bytes(4, "big") + CODEC.encode(StopMember()))
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    assert not member.stopped.is_set()


def test_a_message_cut_short_is_the_end_of_the_reports() -> None:
    ours, theirs = socket.socketpair()
    client = MemberClient(ours, SECRET)
    MemberConnection(theirs).send(MemberReport("Running"))
    theirs.sendall(b"\0\0\0\x09half")
    theirs.shutdown(socket.SHUT_RDWR)
    assert [report.state for report in client.reports()] == ["Running"]
    client.close()
    theirs.close()
