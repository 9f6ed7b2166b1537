"""Attacks on the connections between a cluster's processes: from outside, from in between, and by a broker itself."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from actors.links.connection import Message, dial
from actors.links.control import CODEC, Applied, Join
from actors.links.proof import Role
from actors.links.replication import LeaderHello
from actors.links.unproved import UNPROVED_MAX
from tests.support.controller_world import controller
from tests.support.link_ends import OWN, End, accepting
from tests.support.runtime_helpers import SECRET, FakeBroker, until

Change = Callable[[bytes], bytes]


def injected(message: Message) -> bytes:
    """A message as it would travel without TLS."""
    body = CODEC.encode(message)  # type: ignore[arg-type]
    return len(body).to_bytes(4, "big") + body


def flipped(data: bytes) -> bytes:
    """The same with one bit changed, in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


class Between:
    """An attacker between two processes. Once `changing`, it changes the messages in one direction, `towards`."""

    def __init__(self, port: int, towards: str, change: Change) -> None:
        self._port = port
        self._towards = towards
        self._change = change
        self.changing = False
        self.port = 0
        self._carrying: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def start(self) -> Between:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self._port)
        for towards, source, sink in (("who accepts", reader, outer), ("who dials", inner, writer)):
            task = asyncio.create_task(self._carry(towards, source, sink))
            self._carrying.add(task)

    async def _carry(self, towards: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(self._change(data) if self.changing and towards == self._towards else data)
        sink.close()

    def stop(self) -> None:
        self._server.close()
        for task in self._carrying:
            task.cancel()


@asynccontextmanager
async def between(port: int, towards: str, change: Change) -> AsyncIterator[Between]:
    made = await Between(port, towards, change).start()
    try:
        yield made
    finally:
        made.stop()


# --- from outside ---


async def client_hello() -> bytes:
    """The first bytes of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.conformance("XE-04")
@pytest.mark.parametrize("says", ["nothing", "half a hello", "a hello"])
async def test_handshakes_that_are_never_done_keep_no_broker_out(tmp_path: Path, says: str) -> None:
    hello = await client_hello()
    first = {"nothing": b"", "half a hello": hello[: len(hello) // 2], "a hello": hello}[says]
    async with controller(tmp_path, coterie_internal_security="tls") as c:
        known = await FakeBroker(4, tls=OWN).register(c.port)
        idle = []
        for _ in range(UNPROVED_MAX + 1):
            reader, writer = await asyncio.open_connection("127.0.0.1", c.port)
            writer.write(first)
            idle.append((reader, writer))
        oldest, _ = idle[0]
        with suppress(ConnectionResetError):
            await oldest.read()  # to its end
        await until(lambda: len(c.unproved) == UNPROVED_MAX)
        await FakeBroker(5, tls=OWN).register(c.port)
        assert not known.lost.is_set()
        for _, writer in idle:
            writer.close()


@pytest.mark.conformance("XE-04")
async def test_a_handshake_counts_from_its_first_byte_and_is_ended_in_time(tmp_path: Path) -> None:
    async with controller(tmp_path, coterie_internal_security="tls") as c:
        reader, writer = await asyncio.open_connection("127.0.0.1", c.port)
        writer.write((await client_hello())[:7])
        await until(lambda: len(c.unproved))
        (connection,) = c.unproved
        c.unproved.end(connection)  # as its timer would
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert not len(c.unproved)
        writer.close()


@pytest.mark.conformance("XE-04")
@pytest.mark.parametrize("message", [Join(0), Applied(1)])
async def test_operations_before_the_proof_are_not_decoded(
    tmp_path: Path, message: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a certificate of the cluster's, too, and in one segment with the challenge."""
    decoded: list[bytes] = []
    monkeypatch.setattr(CODEC, "decode", decoded.append)
    async with controller(tmp_path, coterie_internal_security="tls") as c:
        ended = asyncio.Event()

        class Peer(asyncio.Protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                ended.set()

        transport = await dial(Peer, "127.0.0.1", c.port, SECRET, tls=OWN)  # type: ignore[arg-type]
        transport.write(injected(message))
        await ended.wait()
    assert decoded == []


# --- from in between ---


@pytest.mark.conformance("XG-13")
@pytest.mark.parametrize("towards", ["who accepts", "who dials"])
@pytest.mark.parametrize(
    "change",
    [
        flipped,
        lambda data: data + data,
        lambda data: data + injected(Join(9)),
        lambda data: injected(Join(9)) + data,
        lambda data: data[1:],
    ],
    ids=["a bit flipped", "sent twice", "a message after it", "a message before it", "a byte missing"],
)
@pytest.mark.parametrize(
    ("accepts", "dials", "say"),
    [("controller", "broker", Join), ("follower", "leader", LeaderHello)],
)
async def test_what_somebody_in_between_changes_ends_the_link(
    accepts: Role, dials: Role, say: Callable[[int], Message], change: Change, towards: str
) -> None:
    one, other = End(accepts), End(dials)
    server, port = await accepting(one)
    async with between(port, towards, change) as middle:
        await dial(lambda: other.protocol, "127.0.0.1", middle.port, SECRET, tls=OWN)
        await asyncio.gather(one.ready.wait(), other.ready.wait())
        speaks, hears = (other, one) if towards == "who accepts" else (one, other)
        speaks.protocol.send(say(1))
        await until(lambda: hears.heard == [say(1)])
        middle.changing = True
        for number in range(2, 4):
            speaks.protocol.send(say(number))
        await hears.lost.wait()
    said = [say(number) for number in range(1, 4)]
    assert hears.heard == said[: len(hears.heard)], "nothing else, and nothing twice"
    server.close()


@pytest.mark.conformance("XG-13")
@pytest.mark.parametrize("towards", ["who accepts", "who dials"])
async def test_nor_does_a_handshake_that_is_changed_end_well(tmp_path: Path, towards: str) -> None:
    async with controller(tmp_path, coterie_internal_security="tls") as c, between(c.port, towards, flipped) as middle:
        middle.changing = True
        with suppress(OSError):
            assert not (await FakeBroker(0, tls=OWN).connect(middle.port)).ready.is_set()
        assert not c.server.sessions.connected
        await FakeBroker(0, tls=OWN).register(c.port)
