"""A broker with a TLS listener, and clients of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trustme

from actors.security.tls import ClientTls, client_context
from actors.settings.secret import Secret
from tests.support.certificates import authority_of, chain_of, key_of
from tests.support.one_broker import VERSIONS, Client, World, world

CA = trustme.CA()
UNIT = "brokers"
LEAF = CA.issue_cert("localhost", "127.0.0.1", organization_unit_name=UNIT)


def install(path: Path, leaf: trustme.LeafCert, password: str | None = None) -> str:
    """Put a key store in place of an older one, as a whole."""
    new = path / "new.pem"
    new.write_text(key_of(leaf, password) + chain_of(leaf))
    new.chmod(0o600)
    return str(new.rename(path / "keys.pem"))


@asynccontextmanager
async def secure(path: Path, **settings: str) -> AsyncIterator[World]:
    """A broker with a listener SECURE beside its plain one."""
    (path / "trust.pem").write_text(authority_of(CA))
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
        "ssl_keystore_location": install(path, LEAF),
        "ssl_truststore_location": str(path / "trust.pem"),
        "coterie_certificates_check_ms": "0",
        **settings,
    }
    async with world(path, **given) as w:
        yield w


def port(w: World) -> int:
    return w.server.socket_server.ports["SECURE"]


async def connect(w: World, own: trustme.LeafCert | None = None, **given: Any) -> Client:
    if own is not None:
        given |= {"certdata": chain_of(own), "keydata": Secret(key_of(own))}
    context = client_context(ClientTls(cadata=authority_of(CA), **given))
    return Client(*await asyncio.open_connection("127.0.0.1", port(w), ssl=context, server_hostname="localhost"))


async def raw(w: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that does not shake hands by itself."""
    return await asyncio.open_connection("127.0.0.1", port(w))


async def served(client: Client) -> bool:
    client.send(VERSIONS)
    return (await client.answer()).error_code == 0  # type: ignore[no-any-return]
