"""A member and its pool prove that they know the secret; a message that cannot be read or sent ends their link."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from actors.links import proof
from actors.links.codec import LinkError
from actors.links.member import CODEC, MemberConnection, MemberReport, Raised, Returned, StopMember
from actors.links.versions import OWN, Spoken, VersionError
from actors.members.member_link import MemberClient
from tests.support.member_end import SECRET, Member, pickled


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our socket, for a client, and the member's."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    yield ours, theirs
    ours.close()
    theirs.close()


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
