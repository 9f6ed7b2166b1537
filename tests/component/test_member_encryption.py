"""The connection between a pool and a member of it, in TLS, and how many of them a member has."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
from ray import cloudpickle

from actors.links.codec import LinkError
from actors.links.encryption import link_tls
from actors.links.member import CODEC, MemberConnection, MemberReport, StopMember
from actors.links.secret import Secrets
from actors.members.member_link import CONNECTIONS_MAX, MemberClient, MemberServer
from actors.settings import LinkStores

SECRET, ANOTHER = b"s" * 16, b"t" * 16
HUNG_UP = (OSError, EOFError, LinkError)


class Handler:
    """A user's handler."""

    def length(self, data: bytes) -> int:
        return len(data)

    def zeros(self, count: int) -> bytes:
        return bytes(count)


class Between:
    """Somebody between a pool and a member. Once `changing`, a bit of whatever passes is another one."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.changing = threading.Event()
        self.carried = bytearray()
        threading.Thread(target=self._accept, args=(port,), daemon=True).start()

    def _accept(self, port: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                outer, _ = self._listener.accept()
                inner = socket.create_connection(("127.0.0.1", port))
                for source, sink in ((outer, inner), (inner, outer)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.carried += data
                sink.sendall(data[:-1] + bytes([data[-1] ^ 1]) if self.changing.is_set() else data)
            sink.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


class Member:
    """A member's end in this process."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.server = MemberServer("127.0.0.1", SECRET, Handler(), self.report, self.stopped.set, encrypted=True)

    def report(self) -> MemberReport:
        return MemberReport("Running", error="a report")


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.fixture
def between(member: Member) -> Iterator[Between]:
    made = Between(member.server.port)
    yield made
    made.close()


@contextlib.contextmanager
def connected(port: int) -> Iterator[tuple[MemberClient, threading.Thread]]:
    """A client whose reports a thread reads, as a pool's does."""
    made = MemberClient.connect("127.0.0.1", port, SECRET, encrypted=True)
    reader = threading.Thread(target=lambda: list(made.reports()))
    reader.start()
    yield made, reader
    made.close()
    reader.join(60)
    assert not reader.is_alive()


def pickled(*arguments: object) -> bytes:
    data: bytes = cloudpickle.dumps(arguments)
    return data


@pytest.mark.conformance("XE-23")
def test_calls_go_both_ways_at_once_and_nothing_is_read_in_between(between: Between) -> None:
    size = 3_000_001  # more than is encrypted at a time
    with connected(between.port) as (client, _):
        calls = [client.call("zeros", pickled(size)) for _ in range(3)]
        calls += [client.call("length", pickled(bytes(size))) for _ in range(3)]
        found = [call.result(60) for call in calls]
    assert found == [bytes(size)] * 3 + [size] * 3
    assert len(between.carried) > 6 * size
    seen = [text for text in (b"zeros", b"Running", b"a report", bytes(1000)) if text in between.carried]
    assert seen == []


@pytest.mark.conformance("XG-13")
def test_what_is_changed_on_the_way_ends_the_connection(member: Member, between: Between) -> None:
    with connected(between.port) as (client, reader):
        assert client.call("length", pickled(b"abc")).result(60) == 3
        between.changing.set()
        client.stop()
        reader.join(60)
        assert not reader.is_alive()
    assert not member.stopped.is_set()


@pytest.mark.conformance("XE-23")
@pytest.mark.parametrize("stranger", ["another secret", "the links' secret", "no certificate", "no TLS"])
def test_a_stranger_is_not_spoken_to(member: Member, stranger: str) -> None:
    of_links = {"another secret": ANOTHER, "the links' secret": SECRET}
    contexts = {name: link_tls(Secrets(secret), LinkStores()).client for name, secret in of_links.items()}
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", member.server.port)) as connection:
        connection.settimeout(60)
        link = MemberConnection(connection)
        if stranger == "no TLS":
            body = CODEC.encode(StopMember())
            connection.sendall(len(body).to_bytes(4, "big") + body)
        else:
            with contextlib.suppress(ssl.SSLError):  # the member may refuse us only after we have refused it
                link.encrypt(contexts.get(stranger, anybody), accepts=False)
        with pytest.raises(HUNG_UP):
            link.prove("pool", SECRET)
        link.close()
    assert not member.stopped.is_set()


@pytest.mark.conformance("XE-23")
def test_a_pool_speaks_to_no_member_that_has_another_secret() -> None:
    server = MemberServer("127.0.0.1", ANOTHER, Handler(), MemberReport, lambda: None, encrypted=True)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        MemberClient.connect("127.0.0.1", server.port, SECRET, encrypted=True)


@pytest.mark.conformance("XE-23")
def test_of_more_than_eight_connections_the_oldest_stranger_goes(member: Member) -> None:
    with connected(member.server.port) as (client, _):
        client.call("length", pickled(b"")).result(60)
        strangers = [socket.create_connection(("127.0.0.1", member.server.port)) for _ in range(CONNECTIONS_MAX)]
        strangers[0].settimeout(60)
        assert strangers[0].recv(1) == b""
        with connected(member.server.port) as (another, _):
            assert another.call("length", pickled(b"ab")).result(60) == 2
        assert client.call("length", pickled(b"abc")).result(60) == 3
        for each in strangers:
            each.close()
    assert CONNECTIONS_MAX == 8


@pytest.mark.conformance("XE-23")
def test_a_member_has_no_more_than_eight_pools(member: Member) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS_MAX):
            client, _ = stack.enter_context(connected(member.server.port))
            client.call("length", pickled(b"")).result(60)
        with pytest.raises(HUNG_UP):
            MemberClient.connect("127.0.0.1", member.server.port, SECRET, encrypted=True)
