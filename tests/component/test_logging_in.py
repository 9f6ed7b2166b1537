"""A broker with a SASL listener, over real sockets: SECURITY.md, A.3 and B."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.broker.spec import StartError
from actors.links.status import Logins
from actors.security.scram import ScramClient, ScramMechanism, salted_password
from actors.security.tls import ClientTls, client_context
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tests.support.certificates import authority_of
from tests.support.one_broker import Client, World, create, world
from tests.support.own_log import logged
from tests.support.runtime_helpers import until
from tests.support.tls_world import CA, LEAF, install

SASL = "LOGIN"
LISTENERS = {
    "listeners": f"PLAINTEXT://127.0.0.1:0,{SASL}://127.0.0.1:0",
    "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,{SASL}:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
}
METADATA = (MetadataRequest(topics=[]), 5)


@asynccontextmanager
async def locked(path: Path, **settings: str) -> AsyncIterator[World]:
    async with world(path, **{**LISTENERS, **settings}) as made:
        yield made


async def set_password(w: World, user: str, password: str, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> None:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.code,
        iterations=4096,
        salt=b"salt",
        salted_password=salted_password(mechanism, password, b"salt", 4096),
    )
    client = await w.client()
    answer = await client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
    assert [result.error_code for result in answer.results] == [0]


async def scram(client: Client, user: str, password: str, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> Any:
    assert (await client.ask(SaslHandshakeRequest(mechanism=mechanism.wire_name), 1)).error_code == 0
    machine = ScramClient(mechanism, user, "ours")
    first = await client.ask(SaslAuthenticateRequest(auth_bytes=machine.first()), 2)
    asked = machine.read_first(first.auth_bytes)
    salted = salted_password(mechanism, password, asked.salt, asked.iterations)
    last = await client.ask(SaslAuthenticateRequest(auth_bytes=machine.final(salted)), 2)
    if not last.error_code:
        machine.read_final(last.auth_bytes)
    return last


def unauthenticated(w: World) -> int:
    """Connections whose clients have not logged in, TLS handshakes included."""
    _, found = w.server.socket_server.load().listeners
    return found.handshaking + found.authenticating


async def plain(client: Client, user: str, password: str) -> Any:
    assert (await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 0
    return await client.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)


@pytest.mark.conformance("XB-37")
@pytest.mark.parametrize("mechanism", ScramMechanism)
async def test_who_was_given_a_password_is_served_at_once(tmp_path: Path, mechanism: ScramMechanism) -> None:
    async with locked(tmp_path) as w:
        await set_password(w, "anne", "pencil", mechanism)
        client = await w.client(SASL)
        versions = await client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        assert {17, 36} <= {key.api_key for key in versions.api_keys}
        assert (await scram(client, "anne", "pencil", mechanism)).error_code == 0
        metadata = await client.ask(*METADATA)
        assert [broker.port for broker in metadata.brokers] == [w.server.socket_server.ports[SASL]]
        (connection,) = [each for each in w.server.clients if each.listener == SASL]
        assert connection.principal == "User:anne"


@pytest.mark.conformance("XA-13")
@pytest.mark.parametrize("version", range(5))
async def test_versions_are_told_in_full_before_a_login(tmp_path: Path, version: int) -> None:
    """They are what clients choose the versions of the login by."""
    asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    async with locked(tmp_path) as w:
        before = await (await w.client(SASL)).ask(asked, version)
        open_to_all = await (await w.client()).ask(asked, version)
        assert before == open_to_all
        assert len(before.api_keys) > 40


@pytest.mark.conformance("XB-25")
async def test_a_changed_password_ends_no_session(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        await set_password(w, "anne", "pencil")
        client = await w.client(SASL)
        await scram(client, "anne", "pencil")
        await set_password(w, "anne", "crayon")
        assert (await client.ask(*METADATA)).brokers
        assert (await scram(await w.client(SASL), "anne", "pencil")).error_code == 58
        assert (await scram(await w.client(SASL), "anne", "crayon")).error_code == 0


@pytest.mark.conformance("XC-01")
async def test_who_has_logged_in_has_the_rights_of_his_name(tmp_path: Path) -> None:
    authorizer = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:anne;User:ANONYMOUS",
    }
    async with locked(tmp_path, **authorizer) as w:
        for user, code in (("anne", 0), ("bert", ErrorCode.TOPIC_AUTHORIZATION_FAILED)):
            await set_password(w, user, "pencil")
            client = await w.client(SASL)
            await scram(client, user, "pencil")
            client.send(create(f"of-{user}"))
            assert [topic.error_code for topic in (await client.answer()).topics] == [code]


@pytest.mark.conformance("XB-22", "XA-30")
async def test_who_does_not_exist_and_who_errs_are_told_the_same(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        await set_password(w, "anne", "pencil")
        told = []
        for user in ("anne", "bert"):
            client = await w.client(SASL)
            answer = await scram(client, user, "pen")
            told.append((answer.error_code, answer.error_message))
            assert await client.closed()
        assert told[0] == told[1]
        assert told[0][0] == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert w.server.socket_server.load().logins == (Logins(SASL, failed=2),)


@pytest.mark.conformance("XB-22")
async def test_an_unknown_users_salt_is_the_same_after_a_restart_and_like_those_of_others(tmp_path: Path) -> None:
    async def salt(w: World) -> tuple[bytes, int]:
        client = await w.client(SASL)
        await client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        machine = ScramClient(ScramMechanism.SHA_256, "nobody", "ours")
        first = await client.ask(SaslAuthenticateRequest(auth_bytes=machine.first()), 2)
        asked = machine.read_first(first.auth_bytes)
        return asked.salt, asked.iterations

    async with locked(tmp_path) as w:
        await set_password(w, "anne", "pencil")
        before = await salt(w)
        assert (len(before[0]), before[1]) == (4, 4096), "as anne's"
        assert await salt(w) == before
    async with locked(tmp_path) as w:
        await until(lambda: w.server.context.metadata.scram_secret != b"")
        assert await salt(w) == before


@pytest.mark.conformance("XB-09", "XB-10", "XB-11")
async def test_the_same_password_will_do_for_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.broker.entrance import users

    derived: list[str] = []
    fits = users.fits

    def counted(password: str, *rest: Any) -> bool:
        derived.append(password)
        return fits(password, *rest)

    monkeypatch.setattr(users, "fits", counted)
    async with locked(tmp_path) as w:
        await set_password(w, "anne", "pencil", ScramMechanism.SHA_512)
        for user, password, code in (
            ("anne", "pencil", 0),
            ("anne", "pencil", 0),
            ("anne", "pen", 58),
            ("anne", "pen", 58),
            ("bert", "pencil", 58),
        ):
            client = await w.client(SASL)
            assert (await plain(client, user, password)).error_code == code
        assert derived == ["pencil", "pen", "pen", "pencil"], "a right one is remembered, an unknown user costs as much"
        await set_password(w, "anne", "crayon", ScramMechanism.SHA_512)
        client = await w.client(SASL)
        assert (await plain(client, "anne", "pencil")).error_code == 58


@pytest.mark.conformance("XB-09")
async def test_a_file_has_more_users_of_plain(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text('user_carl="crayon" user_dora="";')
    path.chmod(0o600)
    async with locked(tmp_path, coterie_plain_users_file=str(path)) as w:
        for user, password, code in (
            ("carl", "crayon", 0),
            ("carl", "pencil", 58),
            ("dora", "x", 58),
            ("emil", "crayon", 58),
        ):
            client = await w.client(SASL)
            assert (await plain(client, user, password)).error_code == code
        assert (await scram(await w.client(SASL), "carl", "crayon")).error_code == 58, "of PLAIN alone"


@pytest.mark.conformance("XB-09")
@pytest.mark.parametrize("mode", [0o640, 0o604])
async def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "users"
    path.write_text('user_carl="crayon"')
    path.chmod(mode)
    w = World(tmp_path, **LISTENERS, coterie_plain_users_file=str(path))
    await w.start_controller()
    with pytest.raises(StartError, match=r"others may read .*: chmod 600 it"):
        await w.start_broker()
    w.stop_controller()


@pytest.mark.conformance("XA-27")
@pytest.mark.parametrize("right", [True, False])
async def test_what_comes_in_one_segment_with_a_password_is_served_after_a_right_one_alone(
    tmp_path: Path, right: bool
) -> None:
    async with locked(tmp_path) as w:
        await set_password(w, "anne", "pencil")
        client = await w.client(SASL)
        token = b"\0anne\0" + (b"pencil" if right else b"pen")
        client.send((SaslHandshakeRequest(mechanism="PLAIN"), 1), (SaslAuthenticateRequest(auth_bytes=token), 2))
        client.send(METADATA)
        assert (await client.answer()).error_code == 0
        assert (await client.answer()).error_code == (0 if right else 58)
        if right:
            assert len((await client.answer()).brokers) == 1
        else:
            assert await client.closed()


@pytest.mark.conformance("XA-22")
@pytest.mark.parametrize("listener", ["PLAINTEXT", SASL])
async def test_who_logs_in_where_it_is_not_expected_is_told_so_and_stays(tmp_path: Path, listener: str) -> None:
    async with locked(tmp_path) as w:
        await set_password(w, "anne", "pencil")
        client = await w.client(listener)
        if listener == SASL:
            await scram(client, "anne", "pencil")
        handshake = await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (handshake.error_code, handshake.mechanisms) == (34, [])
        answer = await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0anne\0pencil"), 2)
        assert (answer.error_code, answer.error_message) == (
            34,
            "SaslAuthenticate request received after successful authentication",
        )
        assert (await client.ask(*METADATA)).brokers


@pytest.mark.conformance("XA-32")
async def test_who_takes_too_long_is_closed_on(tmp_path: Path) -> None:
    async with locked(tmp_path, coterie_connection_setup_timeout_ms="1") as w:
        await set_password(w, "anne", "pencil")
        client = await w.client(SASL)
        assert await client.closed()
        plaintext = await w.client()
        assert (await plaintext.ask(*METADATA)).brokers, "who need not log in is in no hurry"


@pytest.mark.conformance("XA-33")
async def test_strangers_count_and_the_oldest_gives_way(tmp_path: Path) -> None:
    async with locked(tmp_path, coterie_unauthenticated_connections_max="2") as w:
        await set_password(w, "anne", "pencil")
        first, second = await w.client(SASL), await w.client(SASL)
        await until(lambda: sum(each.listener == SASL for each in w.server.clients) == 2)
        third = await w.client(SASL)
        assert await first.closed()
        assert (await scram(second, "anne", "pencil")).error_code == 0
        assert (await scram(third, "anne", "pencil")).error_code == 0


@pytest.mark.conformance("XA-54", "XA-57")
async def test_a_session_ends_where_its_listener_says_so(tmp_path: Path) -> None:
    settings = {f"listener.name.{SASL.lower()}.scram-sha-256.connections.max.reauth.ms": "50"}
    async with locked(tmp_path, **settings) as w:
        await set_password(w, "anne", "pencil")
        client = await w.client(SASL)
        assert (await scram(client, "anne", "pencil")).session_lifetime_ms == 50
        expires = asyncio.get_running_loop().time() + 0.05
        await until(lambda: asyncio.get_running_loop().time() > expires)
        client.send(METADATA)
        assert await client.closed()
        by_plain = await w.client(SASL)
        assert (await plain(by_plain, "anne", "pencil")).session_lifetime_ms == 0


@pytest.mark.conformance("XA-32", "XA-33", "XA-38")
@pytest.mark.parametrize("right", [True, False])
async def test_under_tls_a_client_is_whoever_it_logs_in_as(tmp_path: Path, right: bool) -> None:
    settings = {
        "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,{SASL}:SASL_SSL",
        "ssl_keystore_location": install(tmp_path, LEAF),
        "coterie_unauthenticated_connections_max": "2",
    }
    async with locked(tmp_path, **settings) as w:
        await set_password(w, "anne", "pencil")
        hesitant = await w.client(SASL)  # it does not even begin the handshake
        await until(lambda: unauthenticated(w) == 1)
        context = client_context(ClientTls(cadata=authority_of(CA)))
        port = w.server.socket_server.ports[SASL]
        first = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost"))
        assert unauthenticated(w) == 2, "the handshake is no login"
        await asyncio.open_connection("127.0.0.1", port)
        assert await hesitant.closed()
        answer = await scram(first, "anne", "pencil" if right else "pen")
        if right:
            assert (await first.ask(*METADATA)).brokers
            (connection,) = [each for each in w.server.clients if each.principal != "User:ANONYMOUS"]
            assert (connection.principal, connection.listener) == ("User:anne", SASL)
        else:
            assert answer.error_code == 58
            assert await first.closed()


@pytest.mark.conformance("XA-36")
async def test_a_failure_names_the_clients_software(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with locked(tmp_path) as w:
        client = await w.client(SASL)
        software = ApiVersionsRequest(client_software_name="slow-client", client_software_version="1.2.3")
        await client.ask(software, 3)
        assert (await scram(client, "anne", "pencil")).error_code == 58
        assert logged(caplog)[-1].endswith("of 'anne' by SCRAM-SHA-256 with slow-client 1.2.3: wrong credentials")


@pytest.mark.conformance("XA-33", "XA-34")
async def test_a_stranger_is_logged_by_its_address_and_listener(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with locked(tmp_path) as w:
        with caplog.at_level(logging.WARNING):
            for _ in range(5):
                client = await w.client(SASL)
                client.send(METADATA)
                assert await client.closed()
        lines = [line for line in caplog.messages if "failed authentication" in line]
        assert lines == [f"127.0.0.1 at {SASL}: failed authentication: an unexpected request"]
        await until(lambda: not len(w.server.clients))
