"""Connections between the processes of a cluster in TLS: who knows the secret gets in, and nobody else is heard."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from actors.broker.controller_link import ControllerLink
from actors.links.connection import dial
from actors.links.control import Join
from actors.links.secret import Secrets
from actors.runtime.environment import REAL
from actors.settings import BrokerConfig
from tests.support.link_ends import End, accepting
from tests.support.runtime_helpers import SECRET, until
from tests.support.three_brokers import world

ANOTHER = Secrets(b"t" * 32)


@pytest.mark.conformance("XE-01")
async def test_two_processes_that_know_the_secret_speak_in_tls() -> None:
    controller, broker = End("controller"), End("broker")
    server, port = await accepting(controller)
    transport = await dial(lambda: broker.protocol, "127.0.0.1", port, SECRET, encrypted=True)
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
                await dial(lambda: broker.protocol, "127.0.0.1", port, ANOTHER, encrypted=True)
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
    link = ControllerLink(asyncio.get_running_loop(), SECRET, REAL.chance, encrypted=True)
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
