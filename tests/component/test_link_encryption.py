"""Connections between the processes of a cluster in TLS: who knows the secret gets in, and nobody else is heard."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from actors.broker.controller_link import ControllerLink
from actors.broker.replication.links import FollowerLink
from actors.links.connection import dial
from actors.links.control import Join
from actors.links.secret import Secrets
from actors.runtime.environment import REAL
from actors.security.tls import TlsError
from actors.settings import BrokerConfig, LinkStores, SettingError
from tests.support.link_ends import OWN, End, accepting, link_stores, of_files
from tests.support.runtime_helpers import SECRET, until
from tests.support.three_brokers import world

ANOTHER = Secrets(b"t" * 32)


@pytest.mark.conformance("XE-01")
async def test_two_processes_that_know_the_secret_speak_in_tls() -> None:
    controller, broker = End("controller"), End("broker")
    server, port = await accepting(controller)
    transport = await dial(lambda: broker.protocol, "127.0.0.1", port, SECRET, tls=OWN)
    await broker.ready.wait()
    assert transport.get_extra_info("cipher")[1] == "TLSv1.3"
    broker.protocol.send(Join(7))
    await until(lambda: controller.heard == [Join(7)])
    broker.protocol.close()
    server.close()


@pytest.mark.conformance("XE-01")
@pytest.mark.parametrize("stranger", ["another secret", "no certificate", "no TLS"])
async def test_who_does_not_know_the_secret_is_not_spoken_to(stranger: str) -> None:
    controller, broker = End("controller"), End("broker", ANOTHER)
    server, port = await accepting(controller)
    loop = asyncio.get_running_loop()
    try:
        if stranger == "another secret":
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
                await dial(lambda: broker.protocol, "127.0.0.1", port, ANOTHER, tls=OWN)
        else:
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            options = {"ssl": trusting} if stranger == "no certificate" else {}
            await loop.create_connection(lambda: broker.protocol, "127.0.0.1", port, **options)
            await broker.lost.wait()
    finally:
        broker.protocol.close()
        server.close()
    assert not broker.ready.is_set()
    assert not controller.ready.is_set()


@pytest.mark.conformance("XE-01")
async def test_a_broker_speaks_to_no_controller_that_does_not_know_the_secret() -> None:
    """Somebody in the middle accepts with a certificate of his own."""
    middle = End("controller", ANOTHER)
    server, port = await accepting(middle, ANOTHER)
    link = ControllerLink(asyncio.get_running_loop(), SECRET, REAL.chance, tls=OWN)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        await link.connect("127.0.0.1", port)
    assert not link.connected
    server.close()


@pytest.mark.conformance("XE-02")
@pytest.mark.parametrize(
    ("settings", "encrypted"),
    [
        ({}, False),
        ({"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN"}, False),
        ({"listeners": "PLAINTEXT://:1,SASL_SSL://:2", "sasl.enabled.mechanisms": "PLAIN"}, True),
        ({"listeners": "SSL://:1", "coterie.internal.security": "proof"}, False),
        ({"coterie.internal.security": "tls"}, True),
    ],
)
def test_links_are_encrypted_where_a_listener_is_unless_it_is_said(settings: dict[str, str], encrypted: bool) -> None:
    assert BrokerConfig.from_mapping(settings).link_security.encrypts is encrypted


@pytest.mark.conformance("XE-02")
async def test_three_brokers_replicate_over_encrypted_links(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_internal_security="tls") as w:
        await w.create("t", factor=3)
        for number in range(5):
            await w.produce("t", b"value %d" % number)
        for broker_id in w.servers:
            await until(lambda broker_id=broker_id: len(w.records(broker_id, "t")) == 5)
        for session in w.controller.brokers.values():
            assert session.protocol.transport.get_extra_info("ssl_object").version() == "TLSv1.3"


# --- certificates of the operator's ---


@pytest.mark.conformance("XE-03")
async def test_three_brokers_replicate_with_certificates_of_the_operators(tmp_path: Path) -> None:
    given = of_files(link_stores(tmp_path, trustme.CA(), "127.0.0.1"))
    async with world(tmp_path, coterie_internal_security="tls", **given) as w:
        await w.create("t", factor=3)
        assert await w.produce("t", b"value") == 0
        for session in w.controller.brokers.values():
            shown = session.protocol.transport.get_extra_info("ssl_object").getpeercert()
            assert ("IP Address", "127.0.0.1") in shown["subjectAltName"]


@pytest.mark.conformance("XE-03")
@pytest.mark.parametrize("wrong", ["another authority", "another address", "made by itself"])
async def test_the_authority_and_the_address_have_to_be_right(tmp_path: Path, wrong: str) -> None:
    authority = trustme.CA()
    host = "10.0.0.9" if wrong == "another address" else "127.0.0.1"
    accepts = LinkStores() if wrong == "made by itself" else link_stores(tmp_path, authority, host)
    own = trustme.CA() if wrong == "another authority" else authority
    (tmp_path / "broker").mkdir()
    dials = link_stores(tmp_path / "broker", own, "127.0.0.1")
    controller, broker = End("controller"), End("broker")
    server, port = await accepting(controller, tls=accepts)
    with pytest.raises(ssl.SSLCertVerificationError):
        await dial(lambda: broker.protocol, "127.0.0.1", port, SECRET, tls=dials)
    assert not broker.ready.is_set()
    assert not controller.ready.is_set()
    server.close()


@pytest.mark.conformance("XE-03")
async def test_the_operators_certificate_takes_the_place_of_no_secret(tmp_path: Path) -> None:
    files = link_stores(tmp_path, trustme.CA(), "127.0.0.1")
    controller, broker = End("controller"), End("broker", ANOTHER)
    server, port = await accepting(controller, tls=files)
    await dial(lambda: broker.protocol, "127.0.0.1", port, ANOTHER, tls=files)
    await broker.lost.wait()
    assert not controller.ready.is_set()
    server.close()


@pytest.mark.conformance("XE-03")
async def test_files_of_links_that_will_not_do_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"coterie\.internal\.ssl\.truststore\.location, too"):
        BrokerConfig.from_mapping({"coterie.internal.ssl.keystore.location": "/keys.pem"})
    files = link_stores(tmp_path, trustme.CA(), "127.0.0.1")
    link = ControllerLink(asyncio.get_running_loop(), SECRET, REAL.chance, tls=replace(files, keys="/nowhere.pem"))
    with pytest.raises(TlsError, match=r"/nowhere.pem.* cannot be used: No such file"):
        await link.connect("127.0.0.1", 1)
    with pytest.raises(TlsError, match=r"/nowhere.pem.* cannot be used: No such file"):
        await accepting(End("controller"), tls=replace(files, keys="/nowhere.pem"))


@pytest.mark.conformance("XE-03")
async def test_a_leader_that_cannot_read_the_files_of_links_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read again when the secret is another one, and may be about to change."""
    tries: list[LinkStores | None] = []

    async def fails(*_: object, tls: LinkStores | None) -> None:
        tries.append(tls)
        raise TlsError("the certificates of links cannot be used")

    monkeypatch.setattr("actors.broker.replication.links.dial", fails)
    owner: Any = None
    link = FollowerLink(0, ("127.0.0.1", 1), lambda: SECRET, REAL.chance, 1, owner, tls=OWN)
    await until(lambda: len(tries) > 1)
    link.close()
    assert tries == [OWN] * 2
