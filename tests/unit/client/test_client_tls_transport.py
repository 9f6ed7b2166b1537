"""TLS between a connection and its socket, without a socket: bytes in any pieces, ends of any kind."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from actors.client.errors import SslAuthenticationError
from actors.client.net.tls import TlsTransport
from tests.support.authority import Authority


class Socket:
    """The transport under TLS: what is written stays here."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = ""

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def abort(self) -> None:
        self.closed = self.closed or "aborted"

    def close(self) -> None:
        self.closed = self.closed or "closed"


class Inner(asyncio.BufferedProtocol):
    """The connection over TLS: what arrives stays here. Its buffer is small, so that one read is not enough."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self.at_once = 0
        self._buffer = bytearray(1000)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        if self.at_once and len(self.received) >= self.at_once:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Ends:
    """A client's and a server's end, with `piece` bytes on the way at a time."""

    def __init__(self, folder: Path, piece: int) -> None:
        authority = Authority(folder)
        context = ssl.create_default_context(cafile=authority.cafile)
        self.inner, self.socket, self._piece = Inner(), Socket(), piece
        self._in, self.sent_by_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = authority.server("broker").wrap_bio(self._in, self.sent_by_server, server_side=True)
        self.client = TlsTransport(context, "broker", self.inner)
        self.client.connection_made(self.socket)  # type: ignore[arg-type]
        while not self.client.ready.done():
            self.exchange()
            try:
                self.server.do_handshake()
            except ssl.SSLWantReadError:
                continue
        self.exchange()

    def exchange(self) -> None:
        """Carry what there is to the other end, first to the server."""
        self._in.write(bytes(self.socket.written))
        self.socket.written.clear()
        self.arrive(self.sent_by_server.read())

    def arrive(self, data: bytes) -> None:
        """Have bytes reach the client, in pieces."""
        for at in range(0, len(data), self._piece):
            some = data[at : at + self._piece]
            self.client.get_buffer(-1)[: len(some)] = some
            self.client.buffer_updated(len(some))

    def send(self, data: bytes) -> None:
        """Have the server send data."""
        self.server.write(data)
        self.exchange()


@pytest.mark.parametrize("piece", [1, 7, 1000, 60_000])
async def test_bytes_arrive_whole_and_in_order_in_whatever_pieces_they_come(tmp_path: Path, piece: int) -> None:
    ends = Ends(tmp_path, piece)
    await ends.client.ready
    data = bytes(range(256)) * 50
    ends.send(data[:5])
    ends.send(data[5:])
    assert ends.inner.received == data
    assert ends.inner.lost == []


async def test_what_is_written_arrives_and_is_counted_until_it_has_left(tmp_path: Path) -> None:
    ends = Ends(tmp_path, 60_000)
    data = bytes(range(256)) * 4096
    ends.inner.transport.write(data)
    assert ends.inner.transport.get_write_buffer_size() > len(data)
    ends.exchange()
    assert ends.inner.transport.get_write_buffer_size() == 0
    received = bytearray()
    while len(received) < len(data):
        received += ends.server.read(1 << 20)
    assert received == data


async def test_a_server_that_says_goodbye_closes_the_connection(tmp_path: Path) -> None:
    ends = Ends(tmp_path, 100)
    ends.send(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        ends.server.unwrap()
    ends.exchange()
    assert ends.socket.closed == "closed"
    ends.client.connection_lost(None)
    assert (ends.inner.received, ends.inner.lost) == (b"last", [None])


@pytest.mark.parametrize("piece", [1, 1000])
async def test_bytes_that_somebody_altered_end_it_and_nothing_of_them_is_delivered(tmp_path: Path, piece: int) -> None:
    ends = Ends(tmp_path, piece)
    ends.server.write(b"account=1")
    altered = bytearray(ends.sent_by_server.read())
    altered[-1] ^= 1
    ends.arrive(bytes(altered))
    ends.client.connection_lost(None)
    assert ends.inner.received == b""
    assert [type(each) for each in ends.inner.lost] == [SslAuthenticationError]
    assert ends.socket.closed == "aborted"


async def test_nothing_is_delivered_or_sent_after_the_connection_has_closed_it(tmp_path: Path) -> None:
    ends = Ends(tmp_path, 60_000)
    ends.inner.at_once = 1000
    ends.send(bytes(5000))
    assert len(ends.inner.received) == 1000
    ends.inner.transport.write(b"more")
    assert ends.socket.written == b""
    ends.client.connection_lost(None)
    assert ends.inner.lost == []
