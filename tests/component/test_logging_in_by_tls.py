"""A broker with a SASL_SSL listener: TLS first, then a login. SECURITY.md, XA-32, XA-33, XA-38, B.1."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.security.scram import ScramMechanism
from actors.wire.messages import MetadataRequest
from tests.component.test_logging_in import plain, scram, set_password
from tests.support.one_broker import Client, World
from tests.support.runtime_helpers import until
from tests.support.tls_world import CA, connect, raw, secure

METADATA = (MetadataRequest(topics=[]), 5)


@asynccontextmanager
async def locked(path: Path, **settings: str) -> AsyncIterator[World]:
    given = {
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    async with secure(path, **(given | settings)) as w:
        await set_password(w, "anne", "pencil")
        yield w


def principals(w: World) -> list[str]:
    return [each.principal for each in w.server.clients if each.listener == "SECURE"]


async def test_a_client_logs_in_after_its_handshake(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        await set_password(w, "bert", "rubber", ScramMechanism.SHA_512)
        clients = [await connect(w) for _ in range(3)]
        assert (await scram(clients[0], "anne", "pencil")).error_code == 0
        assert (await scram(clients[1], "bert", "rubber", ScramMechanism.SHA_512)).error_code == 0
        assert (await plain(clients[2], "anne", "pencil")).error_code == 0
        for client in clients:
            metadata = await client.ask(*METADATA)
            assert [broker.port for broker in metadata.brokers] == [w.server.socket_server.ports["SECURE"]]
        assert principals(w) == ["User:anne", "User:bert", "User:anne"]


async def test_a_wrong_password_is_answered_and_then_the_connection_ends(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        client = await connect(w)
        assert (await scram(client, "anne", "pen")).error_code == 58
        assert await client.closed()
        await until(lambda: not principals(w))


async def test_nothing_is_served_between_handshake_and_login(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        client = await connect(w)
        client.send(METADATA)
        assert await client.closed()


@pytest.mark.conformance("XA-38")
async def test_with_a_certificate_too_a_client_is_who_it_logs_in_as(tmp_path: Path) -> None:
    async with locked(tmp_path, listener_name_secure_ssl_client_auth="required") as w:
        client = await connect(w, CA.issue_cert("c@example.com", common_name="carl"))
        assert principals(w) == ["User:ANONYMOUS"]
        assert (await scram(client, "anne", "pencil")).error_code == 0
        assert principals(w) == ["User:anne"]
        await client.ask(*METADATA)


@pytest.mark.conformance("XA-32")
async def test_a_handshake_alone_does_not_extend_the_time_for_the_login(tmp_path: Path) -> None:
    async with locked(tmp_path, coterie_connection_setup_timeout_ms="1500") as w:
        silent, shaken = Client(*await raw(w)), await connect(w)
        good = await connect(w)
        assert (await scram(good, "anne", "pencil")).error_code == 0
        assert await silent.closed()
        assert await shaken.closed()
        assert (await good.ask(*METADATA)).brokers


@pytest.mark.conformance("XA-33")
async def test_handshakes_and_logins_share_one_limit(tmp_path: Path) -> None:
    async with locked(tmp_path, coterie_unauthenticated_connections_max="2") as w:
        silent, shaken = Client(*await raw(w)), await connect(w)
        good = await connect(w)
        assert await silent.closed()
        assert (await scram(good, "anne", "pencil")).error_code == 0
        another = await connect(w)
        assert (await scram(another, "anne", "pencil")).error_code == 0
        assert not shaken.reader.at_eof()
