"""The connection to a member's actor: who may use it, what is called, what ends it. No Ray process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ray import cloudpickle

from actors.links import proof
from actors.links.codec import LinkError
from actors.links.member import CODEC, MemberConnection, MemberReport, Raised, Returned, StopMember
from actors.links.versions import OWN, Spoken, VersionError
from actors.members import member_link
from actors.members.logs.ring import Ring
from actors.members.member_link import LAST_LINES, MemberClient, MemberEndedError, MemberServer

SECRET = b"s" * 16


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

    def fail_badly(self, error: type[Exception], *arguments: object) -> None:
        raise error(*arguments)

    def zeros(self, count: int) -> bytes:
        return bytes(count)


class Member:
    """A member's end in this process."""

    def __init__(self) -> None:
        self.handler = Handler()
        self.stopped = threading.Event()
        self.ring = Ring(lambda: 5)
        self.server = self.listen()

    def listen(self, **options: Any) -> MemberServer:
        return MemberServer("127.0.0.1", SECRET, self.handler, self.report, self.stopped.set, ring=self.ring, **options)

    def report(self) -> MemberReport:
        return MemberReport("Stopped" if self.stopped.is_set() else "Running", handled=self.handler.total)


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


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our socket, for a client, and the member's."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    yield ours, theirs
    ours.close()
    theirs.close()


def pickled(*arguments: object) -> bytes:
    data: bytes = cloudpickle.dumps(arguments)
    return data


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


@pytest.mark.parametrize("answer", [Returned(1, b"cnowhere\nThing\n."), Raised(1, b"cnowhere\nThing\n.")])
def test_an_answer_that_cannot_be_unpickled_here_is_an_error_of_the_call_alone(
    pair: tuple[socket.socket, socket.socket], answer: Returned | Raised
) -> None:
    """The thread that reads the reports died of it."""
    ours, theirs = pair
    client, member = MemberClient(MemberConnection(ours)), MemberConnection(theirs)
    call = client.call("get", pickled())
    member.send(answer)
    member.send(MemberReport("Running"))
    assert next(client.reports()).state == "Running"
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        call.result(0)
    client.close()
    member.close()


def test_a_member_that_cannot_report_hangs_up_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def report() -> MemberReport:
        raise ValueError("no report")

    server = MemberServer("127.0.0.1", SECRET, Handler(), report, lambda: None)
    client = MemberClient.connect("127.0.0.1", server.port, SECRET)
    assert list(client.reports()) == []
    assert "ValueError: no report" in caplog.text
    client.close()


def test_a_member_on_a_leash_ends_with_its_pool(member: Member) -> None:
    """Its pool's successor starts one in its place, which would handle the same records."""
    lost = threading.Event()
    server = member.listen(lost=lost.set)
    with connected(server) as client, connected(server) as other:
        client.hold()
        assert client.call("add", pickled(1)).result(60) == 1  # so that has been heard
        other.close()
        assert client.call("add", pickled(1)).result(60) == 2
        assert not lost.is_set(), "that was not who keeps it"
    assert lost.wait(60)


def test_a_member_on_a_leash_ends_when_its_pool_is_silent(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's machine has been cut off: no connection ends by that."""
    monkeypatch.setattr(member_link, "LEASH_SECONDS", 0.1)
    lost = threading.Event()
    with connected(member.listen(lost=lost.set)) as client:
        client.hold()
        assert lost.wait(60)


@pytest.mark.parametrize("say", [lambda client: client.call("zeros", bytes(1 << 24)), MemberClient.stop])
def test_a_message_that_could_not_be_sent_whole_ends_the_connection(
    pair: tuple[socket.socket, socket.socket], say: Callable[[MemberClient], object]
) -> None:
    """The next message was read as the rest of half a message."""
    ours, theirs = pair
    ours.settimeout(0.05)
    client = MemberClient(MemberConnection(ours))
    with contextlib.suppress(TimeoutError):
        while True:
            ours.send(bytes(1 << 16))
    say(client)
    while theirs.recv(1 << 20):
        pass  # until the end, which came at once
    client.close()


def test_a_connection_closed_by_another_thread_is_the_end_of_the_reports(member: Member) -> None:
    client = MemberClient.connect("127.0.0.1", member.server.port, SECRET)
    reports = client.reports()
    assert next(reports).state == "Running"
    client.close()  # as by a thread that comes between two reports
    assert list(reports) == []


@pytest.mark.parametrize(
    "said", [proof.CODEC.encode(proof.Proof(b"t" * 32)), CODEC.encode(StopMember()), b"\xc1", b"x" * 5000]
)
def test_a_stranger_is_told_nothing_and_hung_up_on(member: Member, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", member.server.port)) as stranger:
        stranger.settimeout(60)
        assert isinstance(proof.CODEC.decode(framed(stranger)), proof.Challenge)
        stranger.sendall(len(said).to_bytes(4, "big") + said)
        with contextlib.suppress(ConnectionError):
            stranger.sendall(len(CODEC.encode(StopMember())).to_bytes(4, "big") + CODEC.encode(StopMember()))
            assert stranger.recv(1) == b""
    assert not member.stopped.is_set()


def framed(connection: socket.socket) -> bytes:
    """The next message."""
    length = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return connection.recv(length, socket.MSG_WAITALL)


def test_a_client_without_the_secret_is_hung_up_on(member: Member) -> None:
    with socket.create_connection(("127.0.0.1", member.server.port)) as stranger:
        stranger.settimeout(60)
        link = MemberConnection(stranger)
        with pytest.raises((LinkError, EOFError, ConnectionError)):
            link.prove("pool", b"t" * 16)
        link.close()


def test_a_stranger_who_says_nothing_is_hung_up_on(member: Member) -> None:
    server = member.listen(proof_s=0.01)
    with socket.create_connection(("127.0.0.1", server.port)) as stranger:
        stranger.settimeout(60)
        framed(stranger)
        assert stranger.recv(1) == b""


def test_the_time_for_the_proof_does_not_bound_what_comes_after(member: Member) -> None:
    server = member.listen(proof_s=0.5)
    client = MemberClient.connect("127.0.0.1", server.port, SECRET)
    reports = client.reports()
    for _ in range(5):  # 0.2 s apart, and nothing is sent to the member meanwhile
        assert next(reports).state == "Running"
    client.close()


@pytest.mark.parametrize("echo", [False, True], ids=["guesses", "sends back what it hears"])
def test_a_listener_that_does_not_know_the_secret_is_told_nothing(echo: bool) -> None:
    """Another process may listen at the port of a member that has died. It must not get what a pool would unpickle."""
    heard = bytearray()

    def listen() -> None:
        connection, _ = listener.accept()
        with connection:
            for guess in (proof.Challenge(b"c" * 16), proof.Proof(b"p" * 32)):
                body = framed(connection)
                heard.extend(body)
                body = body if echo else proof.CODEC.encode(guess)
                connection.sendall(len(body).to_bytes(4, "big") + body)
            heard.extend(connection.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        with pytest.raises(LinkError, match="member does not know the secret"):
            MemberClient.connect("127.0.0.1", listener.getsockname()[1], SECRET)
        thread.join(60)
    assert not thread.is_alive()
    assert len(heard) == len(
        proof.CODEC.encode(proof.Challenge(proof.challenge_of(bytes(16), OWN)))
        + proof.CODEC.encode(proof.Proof(bytes(32)))
    )
    assert SECRET not in heard


def test_a_message_cut_short_is_the_end_of_the_reports(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    client, member = MemberClient(MemberConnection(ours)), MemberConnection(theirs)
    member.send(MemberReport("Running"))
    theirs.sendall(b"\0\0\0\x09half")
    theirs.shutdown(socket.SHUT_RDWR)
    assert [report.state for report in client.reports()] == ["Running"]
    client.close()
    member.close()


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


# --- members and pools of other builds ---


def prove(link: MemberConnection, role: proof.Role, failed: list[Exception]) -> threading.Thread:
    def run() -> None:
        try:
            link.prove(role, SECRET)
        except LinkError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_pool_and_a_member_without_a_common_version_both_say_so(pair: tuple[socket.socket, socket.socket]) -> None:
    failed: list[Exception] = []
    pool = MemberConnection(pair[0], spoken=Spoken(3, 4, "0.3"))
    member = MemberConnection(pair[1], spoken=Spoken(0, 2, "0.1"))
    for thread in (prove(pool, "pool", failed), prove(member, "member", failed)):
        thread.join(60)
    told = {"pool": "(build 0.3) speaks versions 3 to 4", "member": "(build 0.1) speaks versions 0 to 2"}
    assert all(isinstance(error, VersionError) for error in failed)
    assert sorted(str(error).split(": ")[1] for error in failed) == [
        f"this {us} {told[us]}, and the {them} {told[them]}" for us, them in (("member", "pool"), ("pool", "member"))
    ]
    pool.close()
    member.close()


def test_a_member_says_why_it_hangs_up_on_a_pool_of_another_build(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", member.server.port)) as connection:
        connection.settimeout(60)
        link = MemberConnection(connection, spoken=Spoken(1000, 1001, "99"))
        with pytest.raises(VersionError, match=r"this pool \(build 99\) speaks versions 1000 to 1001, and the member"):
            link.prove("pool", SECRET)
        with pytest.raises(EOFError):
            link.read()
        link.close()
    assert f"this member {OWN}, and the pool (build 99) speaks versions 1000 to 1001" in caplog.text


def test_a_member_from_before_versions_were_told_is_spoken_with() -> None:
    """It takes a challenge of at most 64 bytes, and sends one of 16."""
    ours, theirs = socket.socketpair()
    link, failed = MemberConnection(ours), list[Exception]()
    with theirs:
        proving = prove(link, "pool", failed)
        challenge = proof.CODEC.read(proof.Challenge, framed(theirs)).challenge
        assert proof.is_challenge(challenge)
        for said in (proof.Challenge(b"c" * 16), proof.Proof(proof.proof(SECRET, "member", challenge))):
            body = proof.CODEC.encode(said)
            theirs.sendall(len(body).to_bytes(4, "big") + body)
        proving.join(60)
        assert failed == []
        link.close()


def test_a_message_of_a_kind_that_is_not_known_is_refused_by_name_and_ends_nothing(
    pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = pair
    client, member = MemberClient(MemberConnection(ours)), MemberConnection(theirs)
    for _ in range(2):
        theirs.sendall(b"\0\0\0\x02\x91\x63")
    member.send(MemberReport("Running"))
    theirs.shutdown(socket.SHUT_RDWR)
    assert [report.state for report in client.reports()] == ["Running"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("refused a message: member link: unknown tag 99: the other end ")
    client.close()
    member.close()
