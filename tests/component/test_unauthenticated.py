"""Many connections that mean no good, over real sockets: who is closed, who is kept, and what stays of them.

Small numbers, and no times: `python -m benchmarks abuse` has the large ones and measures.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import SlotQueue
from actors.broker.entrance.authenticating import Gate
from actors.links.connection import ControlProtocol
from actors.links.status import Connections, Logins
from actors.links.tls_transport import TlsTransport
from actors.links.unproved import UNPROVED_MAX
from benchmarks.attackers import ANNOUNCED_BYTES, hello_of, log_in, trusting
from tests.component.test_logging_in import METADATA, scram, set_password
from tests.support.one_broker import Client, World, world
from tests.support.runtime_helpers import until
from tests.support.three_brokers import world as three_brokers
from tests.support.tls_world import CA, LEAF, authority_of, install

AT_ONCE = 10
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
    "connection_failed_authentication_delay_ms": "1",
    "coterie_certificates_check_ms": "0",
}


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[World]:
    """A broker whose listener SECURE is SASL_SSL, and which knows anne."""
    (path / "ca.pem").write_text(authority_of(CA))
    async with world(path, **LISTENERS, ssl_keystore_location=install(path, LEAF)) as w:
        await set_password(w, "anne", "pencil")
        yield w


async def connect(w: World, path: Path, *, encrypted: bool = True) -> Client:
    options: dict[str, Any] = {"server_hostname": "localhost", "ssl": trusting(str(path / "ca.pem"))}
    port = w.server.socket_server.ports["SECURE"]
    return Client(*await asyncio.open_connection("127.0.0.1", port, **(options if encrypted else {})))


def secure(w: World) -> Connections:
    return w.server.socket_server.load().listeners[1]


def ends() -> Counter[str]:
    """The broker's objects for connections, by type. The garbage collector is off: a broker's runs rarely."""
    kinds = (Gate, Connection, SlotQueue, TlsTransport)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.conformance("XG-09", "XA-31", "XA-32")
async def test_slow_silent_and_announcing_clients_keep_nobody_out_and_are_closed_in_the_end(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        hello = hello_of(trusting(str(tmp_path / "ca.pem")))
        silent = [await connect(w, tmp_path, encrypted=False) for _ in range(AT_ONCE)]
        slow = [await connect(w, tmp_path, encrypted=False) for _ in range(AT_ONCE)]
        announcing = [await connect(w, tmp_path) for _ in range(AT_ONCE)]
        for byte in hello[:8]:
            for client in slow:
                client.writer.write(bytes([byte]))
                await client.writer.drain()
        for client in announcing:
            client.writer.write(ANNOUNCED_BYTES.to_bytes(4, "big") + bytes(20))
        await until(lambda: sum(len(each.gathering) for each in w.server.clients) == AT_ONCE * 24)
        assert secure(w) == Connections("SECURE", handshaking=2 * AT_ONCE, authenticating=AT_ONCE)
        good = await connect(w, tmp_path)
        assert (await scram(good, "anne", "pencil")).error_code == 0
        loop, admission = asyncio.get_running_loop(), w.server.socket_server.admission
        admission.listeners["SECURE"].unauthenticated.clock = lambda: loop.time() + 30.0
        for client in (*silent, *slow, *announcing):
            assert await client.closed()
        await until(lambda: secure(w) == Connections("SECURE", ready=1))
        assert (await good.ask(*METADATA)).brokers


@pytest.mark.conformance("XG-10", "XA-34")
@pytest.mark.usefixtures("uncollected")
async def test_of_bad_logins_nothing_stays_but_counts_and_nobody_is_locked_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with locked(tmp_path) as w:
        member = await w.client()
        assert (await member.ask(*METADATA)).brokers
        await until(lambda: len(w.server.clients) == 1)  # the client that set the password has gone
        before = ends()

        async def bad(number: int) -> int:
            client = await connect(w, tmp_path)
            mechanism = ("SCRAM-SHA-256", "PLAIN")[number % 2]
            user = ("anne", "nobody")[number // 2 % 2]
            code = await log_in((client.reader, client.writer), mechanism, user, None)
            assert await client.closed()
            client.writer.close()
            return code

        with caplog.at_level(logging.INFO):
            for first in range(0, 6 * AT_ONCE, AT_ONCE):
                codes = await asyncio.gather(*map(bad, range(first, first + AT_ONCE)))
                assert codes == [58] * AT_ONCE
                assert (await member.ask(*METADATA)).brokers
        lines = [line for line in caplog.messages if "SECURE" in line]
        assert 1 <= len(lines) < AT_ONCE, "one a second"
        assert w.server.socket_server.load().logins == (Logins("SECURE", failed=6 * AT_ONCE),)
        await until(lambda: secure(w) == Connections("SECURE"))
        assert await until(lambda: ends() == before)
        assert (await scram(await connect(w, tmp_path), "anne", "pencil")).error_code == 0


@pytest.mark.conformance("XE-08")
async def test_a_flood_of_unproved_connections_ends_no_link_and_stops_no_push(tmp_path: Path) -> None:
    """At the ports of the controller and of all replicas. Heartbeats and pushes go on; 64 connections stay at each."""
    async with three_brokers(tmp_path) as w:
        await w.create("t", min_insync_replicas="3")
        listeners = [server.replicas.listener for server in w.servers.values()]
        unproved: list[Any] = [w.node.acceptor.unproved, *(each.unproved for each in listeners)]
        ports = [w.port, *(each.listening.sockets[0].getsockname()[1] for each in listeners)]  # type: ignore[union-attr]
        sessions: list[ControlProtocol] = [each.protocol for each in w.controller.sessions.connected]
        heard = [session.last_heard for session in w.controller.brokers.values()]
        idle = []
        for number in range(2 * UNPROVED_MAX):
            idle += [await asyncio.open_connection("127.0.0.1", port) for port in ports]
            if number % 32 == 0:
                assert await w.produce("t", b"%d" % number) == 0, "all three have it"
        assert all(len(each) <= UNPROVED_MAX for each in unproved)
        assert await w.produce("t", b"last") == 0
        await until(
            lambda: all(
                session.last_heard > before
                for session, before in zip(w.controller.brokers.values(), heard, strict=True)
            )
        )
        assert [each.protocol for each in w.controller.sessions.connected] == sessions, "none was lost"
        assert w.partition("t").isr == w.partition("t").replicas
        for _, writer in idle:
            writer.transport.abort()
