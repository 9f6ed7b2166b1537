"""A broker's listeners with TLS, over real sockets: SECURITY.md, A.4, and XA-32 and XA-33 from accept on."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import struct
from pathlib import Path

import pytest

from actors.broker.connections.connection import Connection
from actors.broker.spec import StartError
from actors.links.tls_transport import TlsTransport
from actors.security.authority import CLIENTS, Authority
from actors.security.tls import ClientTls, client_context
from actors.wire import messages
from tests.support.certificates import authority_of
from tests.support.one_broker import VERSIONS, Client, World, create, world
from tests.support.runtime_helpers import SECRET, until
from tests.support.tls_world import CA, LEAF, connect, install, port, raw, secure, served


def hello() -> bytes:
    """The first bytes of a client's handshake."""
    out = ssl.MemoryBIO()
    end = client_context(ClientTls(cadata=authority_of(CA))).wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        end.do_handshake()
    return out.read()


def connections(w: World) -> list[Connection]:
    return list(w.server.clients)


# --- service ---


async def test_requests_are_answered_as_without_tls(tmp_path: Path) -> None:
    async with secure(tmp_path) as w:
        client = await connect(w)
        client.send(VERSIONS, create("t"), (messages.MetadataRequest(topics=None), 5))
        assert (await client.answer()).error_code == 0
        assert [t.error_code for t in (await client.answer()).topics] == [0]
        shown = await client.answer()
        assert [(b.host, b.port) for b in shown.brokers] == [("127.0.0.1", port(w))]
        assert await served(await w.client()), "the plain listener is as before"


async def test_openssls_client_sees_the_chain_it_expects(tmp_path: Path) -> None:
    async with secure(tmp_path) as w:
        command = ("s_client", "-connect", f"127.0.0.1:{port(w)}", "-CAfile", str(tmp_path / "trust.pem"), "-brief")
        for version in ("-tls1_2", "-tls1_3"):
            process = await asyncio.create_subprocess_exec(
                "openssl",
                *command,
                "-verify_return_error",
                version,
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
            )
            _, said = await process.communicate()
            assert b"Verification: OK" in said, said.decode()
        process = await asyncio.create_subprocess_exec(
            "openssl",
            *command,
            "-tls1_1",
            "-cipher",
            "ALL:@SECLEVEL=0",
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        _, said = await process.communicate()
        assert b"alert protocol version" in said, said.decode()


@pytest.mark.conformance("XA-50", "XA-52")
async def test_a_brokers_own_certificate_is_for_the_name_of_a_service_in_front_of_it(tmp_path: Path) -> None:
    given = {"listeners": "SECURE://127.0.0.1:0", "listener_security_protocol_map": "SECURE:SSL"}
    given |= {"coterie_ssl_own_certificates": "true", "coterie_ssl_own_names": "kafka.example.com"}
    async with world(tmp_path, **given) as w:
        context = client_context(ClientTls(cadata=Authority(SECRET.current, CLIENTS).trusted.pem))

        async def dialled(name: str) -> Client:
            return Client(*await asyncio.open_connection("127.0.0.1", port(w), ssl=context, server_hostname=name))

        assert await served(await dialled("kafka.example.com"))
        assert await served(await dialled("localhost"))
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            await dialled("other.example.com")


async def test_who_a_client_is_comes_from_its_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rules = "RULE:^CN=(duke),.*$/$1/U,RULE:^CN=[^,]+,OU=([^,]+).*$/$1/"
    async with secure(
        tmp_path, ssl_client_auth="requested", listener_name_secure_ssl_principal_mapping_rules=rules
    ) as w:
        duke = CA.issue_cert("d@example.com", common_name="duke", organization_unit_name="x")
        other = CA.issue_cert("o@example.com", common_name="other", organization_unit_name="Ray Users")
        unnamed = CA.issue_cert("u@example.com", organization_unit_name="x")
        clients = [await connect(w, own) for own in (duke, other, None)]
        assert [await served(client) for client in clients] == [True] * 3
        assert [each.principal for each in connections(w)] == ["User:DUKE", "User:Ray Users", "User:ANONYMOUS"]
        assert await (await connect(w, unnamed)).closed()
        assert "no rule of ssl.principal.mapping.rules applies to 'OU=x,O=" in caplog.text
        assert len(connections(w)) == 3


@pytest.mark.conformance("XA-37")
async def test_a_client_without_the_certificate_that_is_required_gets_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secure(tmp_path, listener_name_secure_ssl_client_auth="required") as w:
        stranger = await connect(w)  # in TLS 1.3 a client's handshake ends before its certificate is looked at
        stranger.send(VERSIONS)
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
            await stranger.answer()
        assert "TLS handshake failed: peer did not return a certificate" in caplog.text
        assert await served(await connect(w, CA.issue_cert("c@example.com")))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl_keystore_location": "/no/such.pem"}, "broker 0: listener SECURE: .*such.pem cannot be read"),
        ({"ssl_keystore_location": ""}, "TLS needs a certificate: set ssl.keystore.location"),
        ({"ssl_keystore_type": "JKS"}, "ssl.keystore.type=JKS: only PEM is read"),
        ({"ssl_client_auth": "required", "ssl_truststore_location": ""}, "ssl.truststore.location or"),
        ({"ssl_principal_mapping_rules": "default"}, "ssl.principal.mapping.rules: 'default' does not begin"),
        ({"ssl_enabled_protocols": "TLSv1"}, "ssl.enabled.protocols: TLSv1 is not one of"),
        ({"ssl_cipher_suites": "RC4-MD5"}, "ssl.cipher.suites: RC4-MD5 is no cipher suite"),
    ],
)
async def test_a_broker_does_not_start_with_what_cannot_be_used(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(StartError, match=words):
        async with secure(tmp_path, **settings):
            pass  # not reached


async def test_an_encrypted_key_is_opened_by_a_password_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("right\n")
    async with secure(
        tmp_path,
        ssl_keystore_location=install(tmp_path, LEAF, "right"),
        coterie_ssl_key_password_file=str(tmp_path / "password"),
    ) as w:
        assert await served(await connect(w))


# --- connections count from accept on ---


@pytest.mark.conformance("XA-33")
async def test_a_connection_counts_during_its_handshake(tmp_path: Path) -> None:
    async with secure(tmp_path, max_connections_per_ip="2") as w:
        silent, half = await raw(w), await raw(w)
        half[1].write(hello()[:20])
        await until(lambda: len(connections(w)) == 2)
        third = await raw(w)
        assert await Client(*third).closed()
        silent[1].close()
        await until(lambda: len(connections(w)) == 1)
        assert await served(await connect(w))


@pytest.mark.conformance("XA-33")
async def test_beyond_the_limit_the_oldest_handshake_makes_room(tmp_path: Path) -> None:
    async with secure(tmp_path, listener_name_secure_coterie_unauthenticated_connections_max="2") as w:
        good = await connect(w)
        assert await served(good), "who has shaken hands does not count"
        first, second = Client(*await raw(w)), Client(*await raw(w))
        await until(lambda: len(connections(w)) == 3)
        newest = await connect(w)
        assert await served(newest)
        assert await first.closed()
        assert await served(good)
        assert len(connections(w)) == 3
        assert not second.reader.at_eof()


@pytest.mark.conformance("XA-32")
async def test_a_handshake_that_takes_too_long_ends_whatever_is_sent(tmp_path: Path) -> None:
    async with secure(tmp_path, coterie_connection_setup_timeout_ms="300") as w:
        good = await connect(w)
        silent, slow = Client(*await raw(w)), Client(*await raw(w))
        for byte in hello() * 100:
            slow.writer.write(bytes((byte,)))
            await asyncio.sleep(0.02)
            if slow.reader.at_eof() or slow.writer.is_closing():
                break
        assert await slow.closed()
        assert await silent.closed()
        assert await served(good)
        assert len(connections(w)) == 1


# --- what goes wrong ---


@pytest.mark.conformance("XF-09")
async def test_a_bare_connection_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with secure(tmp_path) as w:
        caplog.clear()
        for _ in range(3):
            _, writer = await raw(w)
            writer.close()
            await writer.wait_closed()
        assert await served(await connect(w))
        await until(lambda: len(connections(w)) == 1)
        assert caplog.records == []


@pytest.mark.conformance("XA-25")
async def test_a_plain_request_gets_an_alert_and_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secure(tmp_path) as w:
        for _ in range(5):
            lost = Client(*await raw(w))
            lost.send(VERSIONS)
            assert (await lost.reader.read())[:1] == b"\x15"
        lines = [record.getMessage() for record in caplog.records if "TLS handshake failed" in record.getMessage()]
        assert lines[0] == (
            "127.0.0.1 at SECURE: TLS handshake failed: no TLS: the client may need security.protocol SSL or SASL_SSL"
        )
        assert len(lines) < 5
        assert connections(w) == []
        assert await served(await connect(w))
        (told,) = w.server.socket_server.load().tls
        assert (told.listener, told.handshakes, told.failed, told.problem) == ("SECURE", 1, 5, None)


@pytest.mark.conformance("XG-16")
async def test_resets_in_the_handshake_leave_nothing(tmp_path: Path) -> None:
    async with secure(tmp_path) as w:
        links = _ends()  # the controller's
        begin = hello()
        for cut in range(0, len(begin), 16):
            reader, writer = await raw(w)
            writer.write(begin[:cut])
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            del reader
        await until(lambda: not connections(w))
        last = await connect(w)
        assert await served(last), "all before it were accepted"
        last.writer.close()  # 3.11.2 does not do it by itself when the writer is dropped: gh-106684
        await until(lambda: _ends() == links)


@pytest.mark.conformance("XG-16")
async def test_nothing_stays_of_connections_that_have_gone(tmp_path: Path) -> None:
    async with secure(tmp_path) as w:
        links = _ends()  # the controller's
        for _ in range(50):
            client = await connect(w)
            assert await served(client)
            client.writer.close()
            await client.writer.wait_closed()
        await until(lambda: not connections(w))
        assert await until(lambda: _ends() == links)


def _ends() -> int:
    gc.collect()
    return sum(isinstance(each, TlsTransport) for each in gc.get_objects())


async def test_a_client_that_does_not_read_is_not_read_from(tmp_path: Path) -> None:
    """Under TLS too, reading stops at the socket."""
    async with secure(tmp_path) as w:
        client = await connect(w)
        client.send(create("t", 1000))
        assert (await client.answer()).topics[0].error_code == 0
        client.writer.transport.pause_reading()
        client.send(*[(messages.MetadataRequest(topics=None), 5)] * 500)
        waiting = await until(lambda: [each for each in connections(w) if not each.is_read])
        assert waiting[0].transport is not None
        assert waiting[0].write_buffer_size > 0
        client.writer.close()
        await until(lambda: not connections(w))


async def test_a_broker_that_stops_closes_handshakes_too(tmp_path: Path) -> None:
    async with secure(tmp_path) as w:
        half, good = Client(*await raw(w)), await connect(w)
        half.writer.write(hello()[:9])
        await until(lambda: len(connections(w)) == 2)
    assert await half.closed()
    assert await good.closed()
