"""A pool calls a member's methods and hears its reports and lines, until one of them ends. No Ray process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from actors.links.member import MemberReport
from actors.members import member_link
from actors.members.member_link import LAST_LINES, MemberClient, MemberEndedError, MemberServer
from tests.support.member_end import SECRET, Handler, Member, pickled


class UnpicklableError(Exception):
    def __init__(self) -> None:
        super().__init__("held by a lock")
        self.lock = threading.Lock()


@dataclass(frozen=True)
class FrozenError(Exception):
    """Takes neither a note nor the state that unpickling gives it."""

    text: str


class SilentError(UnpicklableError):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.fixture
def member() -> Member:
    return Member()


@contextlib.contextmanager
def connected(server: MemberServer) -> Iterator[MemberClient]:
    """A client whose reports a thread reads, as a pool's does."""
    made = MemberClient.connect("127.0.0.1", server.port, SECRET)
    reader = threading.Thread(target=lambda: list(made.reports()))
    reader.start()
    yield made
    made.close()
    reader.join(60)
    assert not reader.is_alive()


@pytest.fixture
def client(member: Member) -> Iterator[MemberClient]:
    with connected(member.server) as made:
        yield made


def test_a_method_is_called_and_its_result_comes_back(client: MemberClient) -> None:
    assert client.call("add", pickled(2)).result(60) == 2
    assert client.call("add", pickled(3)).result(60) == 5


def test_a_call_that_takes_long_does_not_hold_up_others(member: Member, client: MemberClient) -> None:
    waiting = client.call("wait", pickled())
    assert member.handler.entered.wait(60)
    assert client.call("add", pickled(1)).result(60) == 1
    assert not waiting.done()
    member.handler.left.set()
    assert waiting.result(60) == "waited"


def test_what_a_method_raises_is_raised_at_the_caller_with_where_it_was(client: MemberClient) -> None:
    with pytest.raises(ValueError, match="not so") as raised:
        client.call("fail", pickled()).result(60)
    assert "in fail" in raised.value.__notes__[0]
    with pytest.raises(SystemExit):
        client.call("leave", pickled()).result(60)
    with pytest.raises(AttributeError, match="no_such"):
        client.call("no_such", pickled()).result(60)
    with pytest.raises(TypeError, match=r"pickle.*lock"):
        client.call("lock", pickled()).result(60)
    with pytest.raises(RuntimeError, match="UnpicklableError: held by a lock"):
        client.call("fail_badly", pickled(UnpicklableError)).result(60)


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
    waiting = client.call("wait", pickled())
    assert member.handler.entered.wait(60)
    client.close()  # as the pool does when the member's end of the connection ends
    for call in (waiting, client.call("add", pickled(1))):
        with pytest.raises(MemberEndedError):
            call.result(60)
    member.handler.left.set()


@pytest.mark.parametrize(
    ("error", "text"), [((FrozenError, "cold"), "FrozenError: cold"), ((SilentError,), "SilentError")]
)
def test_an_error_that_takes_no_note_or_has_no_text_is_told_by_its_class(
    client: MemberClient, error: tuple[Any, ...], text: str
) -> None:
    """The thread that calls the method died of it, and the caller waited for ever."""
    with pytest.raises(RuntimeError, match=text):
        client.call("fail_badly", pickled(*error)).result(60)


def test_a_result_that_is_too_long_is_an_error_of_the_call(member: Member) -> None:
    with connected(member.listen(limit=10_000)) as client:
        with pytest.raises(ValueError, match="longer than 10000"):
            client.call("zeros", pickled(20_000)).result(60)
        assert client.call("zeros", pickled(2)).result(60) == b"\0\0"


def test_a_member_that_cannot_report_hangs_up_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def report() -> MemberReport:
        raise ValueError("no report")

    server = MemberServer("127.0.0.1", SECRET, Handler(), report, lambda: None)
    client = MemberClient.connect("127.0.0.1", server.port, SECRET)
    assert list(client.reports()) == []
    assert "ValueError: no report" in caplog.text
    client.close()


def test_a_member_with_a_lease_ends_with_its_pool(member: Member) -> None:
    """Its pool's successor starts one in its place, which would handle the same records."""
    lost = threading.Event()
    server = member.listen(lost=lost.set)
    with connected(server) as client, connected(server) as other:
        client.renew_lease()
        assert client.call("add", pickled(1)).result(60) == 1  # so that has been heard
        other.close()
        assert client.call("add", pickled(1)).result(60) == 2
        assert not lost.is_set(), "that was not who keeps it"
    assert lost.wait(60)


def test_a_member_with_a_lease_ends_when_its_pool_is_silent(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's machine has been cut off: no connection ends by that."""
    monkeypatch.setattr(member_link, "LEASE_SECONDS", 0.1)
    lost = threading.Event()
    with connected(member.listen(lost=lost.set)) as client:
        client.renew_lease()
        assert lost.wait(60)


def test_a_connection_closed_by_another_thread_is_the_end_of_the_reports(member: Member) -> None:
    client = MemberClient.connect("127.0.0.1", member.server.port, SECRET)
    reports = client.reports()
    assert next(reports).state == "Running"
    client.close()  # as by a thread that comes between two reports
    assert list(reports) == []


def test_a_members_lines_are_sent_when_they_are_asked_for(member: Member, client: MemberClient) -> None:
    for number in range(1, 5):
        member.ring.add("stdout", f"line {number}")
    found = client.read_lines(after=1, tail=2, since_ms=5).result(60)
    assert [(line.number, line.wall_ms, line.level, line.text) for line in found] == [
        (3, 5, "stdout", "line 3"),
        (4, 5, "stdout", "line 4"),
    ]
    assert client.read_lines(after=0, tail=9, since_ms=6).result(60) == ()


def test_a_member_that_keeps_no_lines_has_none() -> None:
    stopped = threading.Event()
    server = MemberServer("127.0.0.1", SECRET, Handler(), MemberReport, stopped.set)
    with connected(server) as made:
        assert made.read_lines(after=0, tail=9, since_ms=0).result(60) == ()


def test_the_last_lines_come_by_themselves_before_the_last_report(member: Member) -> None:
    """The pool hangs up at the last report."""
    for number in range(LAST_LINES + 1):
        member.ring.add("stdout", str(number))
    client = MemberClient.connect("127.0.0.1", member.server.port, SECRET)
    reports = client.reports()
    assert next(reports).state == "Running"
    assert client.last_lines == ()
    member.server.ended()
    member.stopped.set()
    assert any(report.state == "Stopped" for report in reports)
    assert [line.text for line in client.last_lines] == [str(number) for number in range(1, LAST_LINES + 1)]
    client.close()


def test_lines_of_a_member_that_has_ended_are_not_waited_for(member: Member, client: MemberClient) -> None:
    client.close()
    with pytest.raises(MemberEndedError):
        client.read_lines(after=0, tail=1, since_ms=0).result(60)
