"""A broker's figures of its listeners: connections by state, logins, handshakes. SECURITY.md, XA-35."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.links.control import CODEC, Heartbeat
from actors.links.status import Connections, Load, Logins, TlsListener
from actors.security.tls import ClientTls, client_context
from actors.wire.messages import SaslHandshakeRequest
from tests.component.test_logging_in import METADATA, scram, set_password
from tests.support.certificates import authority_of
from tests.support.one_broker import Client, World, world
from tests.support.runtime_helpers import until
from tests.support.tls_world import CA, LEAF, install

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
    "sasl_enabled_mechanisms": "SCRAM-SHA-256",
    "connections_max_reauth_ms": "3600000",
}


async def encrypted(w: World) -> Client:
    context = client_context(ClientTls(cadata=authority_of(CA)))
    port = w.server.socket_server.ports["SECURE"]
    return Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost"))


def load(w: World) -> Load:
    return w.server.socket_server.load()


def at(w: World) -> Connections:
    return load(w).listeners[1]


@pytest.mark.conformance("XA-35")
async def test_connections_are_counted_by_listener_and_state(tmp_path: Path) -> None:
    delay = {"connection_failed_authentication_delay_ms": "100000"}
    async with world(tmp_path, **LISTENERS, **delay, ssl_keystore_location=install(tmp_path, LEAF)) as w:
        await set_password(w, "anne", "pencil")
        _, silent = await asyncio.open_connection("127.0.0.1", w.server.socket_server.ports["SECURE"])
        hesitant, ready = await encrypted(w), await encrypted(w)
        await hesitant.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        await scram(ready, "anne", "pencil")
        for stranger in (wrong := await encrypted(w), again := await encrypted(w)):
            if stranger is again:
                await scram(again, "anne", "pencil")
                again.send((SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1))
            else:
                wrong.send(METADATA)
        await until(lambda: at(w).failed == 2)
        assert at(w) == Connections("SECURE", handshaking=1, authenticating=1, ready=1, failed=2)
        plain = load(w).listeners[0]
        assert plain == Connections("PLAINTEXT", ready=w.server.clients.at("PLAINTEXT"))
        assert load(w).logins == (Logins("SECURE", succeeded=2, failed=1, repeats_failed=1),)
        assert (await ready.ask(*METADATA)).brokers
        await scram(ready, "anne", "pencil")
        assert load(w).logins[0].repeated == 1
        for each in (silent, hesitant.writer):
            each.close()
        await until(lambda: at(w) == Connections("SECURE", ready=1, failed=2))


@pytest.mark.conformance("XA-35")
async def test_handshakes_are_counted_and_timed(tmp_path: Path) -> None:
    async with world(tmp_path, **LISTENERS, ssl_keystore_location=install(tmp_path, LEAF)) as w:
        for _ in range(2):
            await encrypted(w)
        _, stranger = await asyncio.open_connection("127.0.0.1", w.server.socket_server.ports["SECURE"])
        await until(lambda: at(w).handshaking == 1)
        assert load(w).tls[0].under_way == 1
        stranger.write(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: at(w).handshaking == 0)
        (figures,) = load(w).tls
        assert (figures.listener, figures.handshakes, figures.failed, figures.under_way) == ("SECURE", 2, 1, 0)
        assert 0 <= figures.longest_ms <= figures.total_ms <= 2 * figures.longest_ms
        (known,) = w.controller.status().brokers if w.controller else ()
        assert known.load is not None
        assert [each.listener for each in known.load.listeners] == ["PLAINTEXT", "SECURE"]


def test_the_controller_is_told_all_of_it() -> None:
    told = Load(
        1, 2, 3.0, 4, (Connections("A", 1, 2, 3, 4),), (Logins("A", 1, 2, 3, 4, 5),), (TlsListener("A", 1.5, None, 2),)
    )
    assert CODEC.read(Heartbeat, CODEC.encode(Heartbeat(1.0, told))).load == told
