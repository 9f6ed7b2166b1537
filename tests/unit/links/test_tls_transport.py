"""TLS between a socket's transport and a Connection, without a socket: SECURITY.md, XA-25, XA-27, XG-04."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from actors.links.tls_transport import TlsTransport
from actors.security.certificates import TrustStore, key_store
from actors.security.tls import ClientTls, Negotiation, client_context, server_context
from actors.settings.secret import Secret
from tests.support.certificates import NOW_MS, authority_of, chain_of, key_of, no_file, settings, texts

CA = trustme.CA()
LEAF = CA.issue_cert("localhost")
CLIENT = CA.issue_cert("client@example.com")
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class Socket(asyncio.Transport):
    """The socket's transport: written bytes reach the peer when the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.calls = list[str]()

    def write(self, data: Any) -> None:
        assert not self.calls or self.calls[-1] not in ("close", "abort")
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("peer", 1) if name == "peername" else default

    def __getattribute__(self, name: str) -> Any:
        if name in ("pause_reading", "resume_reading", "close", "abort"):
            return lambda: self.calls.append(name)
        return super().__getattribute__(name)


class App(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: Any = None
        self.data = b""
        self.calls = list[str]()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")


class Line:
    """A server's end with its socket, and a client's end; `told` has the failures that the watch heard."""

    def __init__(
        self,
        version: ssl.TLSVersion = VERSIONS[1],
        client_auth: str = "none",
        own: trustme.LeafCert | None = None,
        welcome: bool = True,
    ) -> None:
        keys = key_store(settings(**texts(LEAF)), no_file, NOW_MS)
        assert keys is not None
        context = server_context(Negotiation(), keys, TrustStore(authority_of(CA)), client_auth)
        self.app, self.socket, self.told = App(), Socket(), list[str]()
        self.welcome = welcome
        self.end = TlsTransport(context, self.app, self)
        self.end.connection_made(self.socket)
        certificate: dict[str, Any] = (
            {"certdata": chain_of(own), "keydata": Secret(key_of(own))} if own is not None else {}
        )
        theirs = client_context(ClientTls(cadata=authority_of(CA), **certificate))
        theirs.minimum_version = theirs.maximum_version = version
        self.to_client, self.to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = theirs.wrap_bio(self.to_client, self.to_server, server_hostname="localhost")

    def secured(self, transport: TlsTransport) -> bool:
        self.told.append("secured")
        return self.welcome

    def failed(self, transport: TlsTransport, why: str) -> None:
        self.told.append(why)

    def deliver(self, step: int = 1 << 18) -> None:
        """The client's bytes reach the server, so many at a time, and the answers reach the client."""
        data = self.to_server.read()
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            self.end.get_buffer(-1)[: len(piece)] = piece
            self.end.buffer_updated(len(piece))
        self.to_client.write(bytes(self.socket.written))
        self.socket.written.clear()

    def shake(self, step: int = 1 << 18) -> Line:
        while "secured" not in self.told:
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.deliver(step)
        return self

    def go_on(self) -> None:
        """Another step of the handshake, and a read, for the client. Raises SSLError."""
        try:
            self.client.do_handshake()
            self.deliver()
            self.client.read()
        except ssl.SSLWantReadError:
            self.deliver()

    def read(self) -> bytes:
        found = b""
        while True:
            try:
                chunk = self.client.read(1 << 16)
            except ssl.SSLWantReadError:
                return found
            if not chunk:
                return found
            found += chunk


@pytest.mark.conformance("XG-04")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("step", [1, 7, 1 << 18])
def test_bytes_pass_whichever_way_they_are_cut(version: ssl.TLSVersion, step: int) -> None:
    line = Line(version)
    assert line.app.transport is line.end, "it is a connection from accept on"
    assert line.app.transport.get_extra_info("peername") == ("peer", 1)
    line.shake(step)
    assert line.told == ["secured"]
    for message in (b"a", b"b" * 70_000):
        line.client.write(message)
        line.deliver(step)
        assert line.app.data == message
        line.app.data = b""
        line.end.write(message)
        line.deliver(step)
        assert line.read() == message


@pytest.mark.parametrize("end", ["close", "abort"])
def test_who_ends_it_in_the_middle_of_what_has_come_hears_no_more(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line().shake()
    heard: list[int] = []

    def data_received(data: bytes) -> None:
        heard.append(len(data))
        getattr(line.end, end)()

    monkeypatch.setattr(line.app, "data_received", data_received)
    line.client.write(b"x" * 70_000)
    line.deliver()
    assert heard == [1 << 14]


@pytest.mark.conformance("XG-04")
@pytest.mark.parametrize("version", VERSIONS)
def test_records_may_be_cut_at_every_byte(version: ssl.TLSVersion) -> None:
    line = Line(version).shake()
    cut, size = 0, 1
    while cut <= size:
        for message in (b"first", b"second"):
            line.client.write(message)
        data = line.to_server.read()
        size = len(data)
        line.end.data_received(data[:cut])
        assert b"firstsecond".startswith(line.app.data), "a record is whole or not there"
        line.end.data_received(data[cut:])
        assert line.app.data == b"firstsecond", f"cut at {cut}"
        line.app.data = b""
        cut += 1
    assert size > 50


def test_what_stands_in_one_segment_with_the_end_of_the_handshake_is_read() -> None:
    line = Line()
    with pytest.raises(ssl.SSLWantReadError):
        line.client.do_handshake()
    line.deliver()
    line.client.do_handshake()
    line.client.write(b"one")
    line.client.write(b"two")
    line.deliver()
    assert line.app.data == b"onetwo"


def test_parts_of_an_answer_keep_their_order() -> None:
    line = Line().shake()
    parts = [bytes((n,)) * size for n, size in enumerate((1, 100_000, 16_384, 0, 5))]
    line.end.writelines([memoryview(part) for part in parts if part])
    line.deliver()
    assert line.read() == b"".join(parts)


@pytest.mark.conformance("XA-25")
@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("0000001f001200030000000100") + b"k" * 30])
def test_plain_bytes_get_an_alert_and_the_end(data: bytes) -> None:
    line = Line()
    line.end.data_received(data)
    assert line.told == ["no TLS: the client may need security.protocol SSL or SASL_SSL"]
    assert line.socket.written[:1] == b"\x15", "an alert"
    assert line.socket.calls == ["close"]
    line.end.data_received(data)
    line.end.connection_lost(None)
    assert len(line.told) == 1
    assert (line.app.data, line.app.calls) == (b"", ["lost"])


@pytest.mark.conformance("XA-25", "XA-37")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_is_told_why_its_certificate_will_not_do(version: ssl.TLSVersion) -> None:
    for own, alert in (
        (None, "(?i)certificate.required|handshake.failure"),
        (trustme.CA().issue_cert("x@y.z"), "unknown ca"),
    ):
        line = Line(version, "required", own)
        for _ in range(VERSIONS.index(version), 2):  # steps that go well: the newer version has fewer
            line.go_on()
        with pytest.raises(ssl.SSLError, match=f"(?i){alert}"):
            line.go_on()
        assert len(line.told) == 1
        assert "secured" not in line.told
        assert line.socket.calls == ["close"]


def test_a_peer_that_sends_nothing_is_not_told_of() -> None:
    for end in ("eof", "lost", "aborted"):
        line = Line()
        if end == "eof":
            assert not line.end.eof_received(), "the socket's transport closes itself"
        elif end == "aborted":
            line.end.abort()
        line.end.connection_lost(None)
        assert (line.told, line.app.calls) == ([], ["lost"])


def test_a_peer_that_goes_during_the_handshake_is_told_of_once() -> None:
    for gone in (None, ConnectionResetError()):
        line = Line()
        with pytest.raises(ssl.SSLWantReadError):
            line.client.do_handshake()
        line.end.data_received(line.to_server.read()[:-1])
        if gone is None:
            line.end.eof_received()
        line.end.connection_lost(gone)
        assert len(line.told) == 1
        assert line.app.calls == ["lost"]


def test_one_who_is_not_welcome_gets_nothing_through() -> None:
    line = Line(welcome=False).shake()
    line.client.write(b"x")
    line.deliver()
    line.end.write(b"y")
    assert line.app.data == b""
    assert line.told == ["secured"]
    line.deliver()
    assert line.read() == b""
    assert line.socket.calls == ["abort"]


def test_a_broken_record_ends_the_connection() -> None:
    line = Line().shake()
    line.client.write(b"x")
    data = bytearray(line.to_server.read())
    data[-1] ^= 1
    line.end.data_received(bytes(data))
    assert line.told == ["secured"]
    assert line.socket.calls == ["close"]
    line.end.write(b"y")
    line.end.connection_lost(None)
    assert line.app.data == b""
    assert line.app.calls == ["lost"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_peers_farewell_is_answered_after_what_it_had_sent(version: ssl.TLSVersion) -> None:
    line = Line(version).shake()
    line.client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        line.client.unwrap()
    line.deliver()
    assert line.app.data == b"last"
    assert line.socket.calls == ["close"]
    line.client.unwrap()


def test_our_farewell_comes_after_what_was_written() -> None:
    line = Line().shake()
    line.end.write(b"last")
    line.end.close()
    line.end.write(b"too late")
    assert line.end.is_closing()
    assert line.socket.calls == ["close"]
    line.deliver()
    assert line.read() == b"last"


def test_pauses_are_those_of_the_socket() -> None:
    line = Line().shake()
    line.end.pause_reading()
    line.end.resume_reading()
    line.end.pause_writing()
    line.end.resume_writing()
    assert line.socket.calls == ["pause_reading", "resume_reading"]
    assert line.app.calls == ["pause", "resume"]
    line.end.write(b"x" * 100)
    assert line.end.get_write_buffer_size() == len(line.socket.written) > 100
    line.end.abort()
    line.end.pause_reading()
    assert line.socket.calls[-1] == "abort"


def test_the_certificate_that_was_shown() -> None:
    line = Line(client_auth="requested", own=CLIENT).shake()
    certificate = ssl.PEM_cert_to_DER_cert(CLIENT.cert_chain_pems[0].bytes().decode())
    assert line.end.certificate == certificate
    assert Line(client_auth="requested").shake().end.certificate is None


@pytest.mark.conformance("XA-25")
@given(st.data())
def test_no_bytes_of_a_peer_raise_anything(data: st.DataObject) -> None:
    """Those of a handshake, spoilt somewhere, or others, in any pieces."""
    line = Line()
    with pytest.raises(ssl.SSLWantReadError):
        line.client.do_handshake()
    sent = bytearray(line.to_server.read())
    for at in data.draw(st.lists(st.integers(0, len(sent) - 1), max_size=3)):
        sent[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(sent)))
    rest = bytes(sent[:cut]) + data.draw(st.binary(max_size=50)) + bytes(sent[cut:])
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        line.end.data_received(rest[:size])
        rest = rest[size:]
    line.end.connection_lost(None)
    assert line.app.data == b""
    assert line.app.calls == ["lost"]
    assert len(line.told) == 1
    assert line.told != ["secured"]


@given(st.lists(st.binary(min_size=1, max_size=40_000), max_size=6), st.sampled_from(VERSIONS), st.integers(1, 20_000))
def test_what_is_written_is_what_is_read(parts: list[bytes], version: ssl.TLSVersion, step: int) -> None:
    line = Line(version).shake()
    for part in parts:
        line.end.write(part)
        line.client.write(part)
    line.deliver(step)
    assert line.read() == b"".join(parts)
    assert line.app.data == b"".join(parts)
