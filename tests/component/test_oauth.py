"""A broker whose clients log in by OAUTHBEARER, over real sockets: SECURITY.md, B.4 and X-F."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from actors.broker.entrance.tokens import Tokens
from actors.broker.spec import StartError
from actors.client import Admin, Consumer, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import SaslAuthenticationError
from actors.client.net.login import Login
from actors.links.status import Logins
from actors.security.oauth import INVALID_TOKEN, OAUTHBEARER
from actors.wire.messages import MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.one_broker import Client, World, world
from tests.support.own_log import logged
from tests.support.runtime_helpers import until
from tests.support.tls_world import CA, LEAF, install
from tests.support.tokens import AUDIENCE, ISSUER, claims, everything, jwk, jwks, message, provider, token

T = TypeVar("T")
SASL = "LOGIN"
METADATA = (MetadataRequest(topics=[]), 5)
QUICK = {"default_api_timeout_ms": 20_000, "reconnect_backoff_max_ms": 200}


def settings_of(path: Path, **settings: str) -> dict[str, str]:
    keys = path / "keys.json"
    if not keys.exists():
        keys.write_bytes(everything())
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,{SASL}://127.0.0.1:0",
        "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,{SASL}:SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": OAUTHBEARER,
        "sasl_oauthbearer_jwks_endpoint_url": keys.as_uri(),
        "sasl_oauthbearer_expected_issuer": ISSUER,
        "sasl_oauthbearer_expected_audience": AUDIENCE,
        **settings,
    }


@asynccontextmanager
async def locked(path: Path, **settings: str) -> AsyncIterator[World]:
    async with world(path, **settings_of(path, **settings)) as made:
        yield made


def fresh(lifetime: float = 3600, **more: Any) -> str:
    """A token that is valid now; `more` has claims and, after `header_`, fields of the header."""
    header = {name.removeprefix("header_"): more.pop(name) for name in list(more) if name.startswith("header_")}
    now = time.time()
    return token(claims(now, **{"exp": now + lifetime, **more}), **header)


async def show(client: Client, text: str, authorization_id: str = "", version: int = 2) -> Any:
    assert (await client.ask(SaslHandshakeRequest(mechanism=OAUTHBEARER), 1)).error_code == 0
    return await client.ask(SaslAuthenticateRequest(auth_bytes=message(text, authorization_id)), version)


async def refused(client: Client, text: str) -> None:
    """Show a token that is not valid: the answer is that of XB-27."""
    answer = await show(client, text)
    assert (answer.error_code, answer.auth_bytes) == (0, INVALID_TOKEN.encode())
    last = await client.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
    assert (last.error_code, last.error_message) == (58, INVALID_TOKEN)
    assert await client.closed()


def principals(w: World) -> list[str]:
    return [each.principal for each in w.server.clients if each.listener == SASL]


@pytest.mark.conformance("XB-26", "XB-30")
@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES512"])
async def test_who_shows_a_valid_token_is_who_it_says_for_as_long_as_it_says(tmp_path: Path, algorithm: str) -> None:
    async with locked(tmp_path) as w:
        client = await w.client(SASL)
        answer = await show(client, fresh(600, header_algorithm=algorithm))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert 590_000 < answer.session_lifetime_ms <= 600_000
        assert (await client.ask(*METADATA)).brokers
        assert principals(w) == ["User:anne"]


@pytest.mark.conformance("XB-27", "XB-28", "XA-34")
async def test_tokens_that_are_not_valid_are_told_so_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with locked(tmp_path) as w:
        for text, reason in (
            (fresh(-60), "an expired token"),
            (fresh(aud="others"), "a token for another audience"),
            (fresh(header_alg="none"), "a token with an algorithm that is not allowed"),
            (fresh(header_which=1), "a token with a wrong signature"),
            ("rubbish", "a token that has not three parts"),
        ):
            w.server.socket_server.admission.failures.logged.clear()
            await refused(await w.client(SASL), text)
            assert logged(caplog)[-1].endswith(f"failed authentication by OAUTHBEARER: {reason}")
            assert text not in caplog.text
        assert w.server.socket_server.load().logins == (Logins(SASL, failed=5),)


@pytest.mark.conformance("XB-27")
async def test_who_wants_to_act_as_somebody_else_is_refused_at_once(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        answer = await show(await w.client(SASL), fresh(), "bert")
        assert answer.error_code == 58
        assert "authorization id" in answer.error_message
        assert (await show(await w.client(SASL), fresh(), "anne")).error_code == 0


@pytest.mark.conformance("XB-27")
async def test_raw_tokens_are_taken_too(tmp_path: Path) -> None:
    async def raw(client: Client, sent: bytes) -> bytes:
        client.writer.write(len(sent).to_bytes(4, "big") + sent)
        return await client.reader.readexactly(int.from_bytes(await client.reader.readexactly(4), "big"))

    async with locked(tmp_path) as w:
        for text, answer in ((fresh(), b""), ("rubbish", INVALID_TOKEN.encode())):
            client = await w.client(SASL)
            assert (await client.ask(SaslHandshakeRequest(mechanism=OAUTHBEARER), 0)).error_code == 0
            assert await raw(client, message(text)) == answer
        client.writer.write(b"\0\0\0\x01\x01")
        assert await client.closed()


@pytest.mark.conformance("XB-27", "XA-27")
async def test_nothing_is_served_behind_a_token_that_is_not_valid(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        for text, served in ((fresh(), True), ("rubbish", False)):
            client = await w.client(SASL)
            client.send((SaslHandshakeRequest(mechanism=OAUTHBEARER), 1))
            client.send((SaslAuthenticateRequest(auth_bytes=message(text)), 2), METADATA)
            assert (await client.answer()).error_code == 0
            assert (await client.answer()).error_code == 0
            if served:
                assert (await client.answer()).brokers
            else:
                assert await client.closed()


@pytest.mark.conformance("XB-30", "XA-57")
async def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    settings = {f"listener.name.{SASL.lower()}.oauthbearer.connections.max.reauth.ms": "60000"}
    async with locked(tmp_path, **settings) as w:
        client = await w.client(SASL)
        lifetime = (await show(client, fresh(1.0))).session_lifetime_ms
        assert 0 < lifetime <= 1_000
        ends = asyncio.get_running_loop().time() + 1.0
        await until(lambda: asyncio.get_running_loop().time() > ends)
        client.send(METADATA)
        assert await client.closed()
        assert (await show(await w.client(SASL), fresh())).session_lifetime_ms == 60_000


@pytest.mark.conformance("XB-29")
async def test_a_new_key_is_known_as_soon_as_somebody_shows_a_token_by_it(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        (tmp_path / "keys.json").write_bytes(jwks(jwk("RSA", "new", 1)))
        assert not (await show(await w.client(SASL), fresh(header_kid="new", header_which=1))).auth_bytes
        await refused(await w.client(SASL), fresh())


@pytest.mark.conformance("XB-28")
@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "No such file"),
        (b"<html>", "no JSON object"),
        (jwks(), "no RSA or EC key"),
        (b" " * (1 << 20) + b" ", "more than"),
    ],
)
async def test_a_file_without_keys_is_a_start_error(tmp_path: Path, document: bytes | None, words: str) -> None:
    w = World(tmp_path, **settings_of(tmp_path))
    keys = tmp_path / "keys.json"
    keys.unlink() if document is None else keys.write_bytes(document)
    await w.start_controller()
    with pytest.raises(StartError, match=words):
        await w.start_broker()
    w.stop_controller()


@pytest.mark.conformance("XB-29")
async def test_keys_come_by_https_and_stay_while_their_provider_is_away(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(CA.cert_pem.bytes())
    with provider(LEAF) as keys:
        settings = {
            "sasl_oauthbearer_jwks_endpoint_url": keys.url,
            "coterie_oauthbearer_jwks_ca_file": str(tmp_path / "ca.pem"),
        }
        async with locked(tmp_path, **settings) as w:
            assert not (await show(await w.client(SASL), fresh())).auth_bytes
            keys.close()
            assert not (await show(await w.client(SASL), fresh())).auth_bytes
            await refused(await w.client(SASL), fresh(header_kid="new"))
            assert not (await show(await w.client(SASL), fresh())).auth_bytes
            assert keys.asked == ["/keys"]


# --- our clients ---


class Provided:
    """A provider of tokens, which counts."""

    def __init__(self, make: Callable[[], str] = fresh) -> None:
        self.make = make
        self.asked = 0

    def token(self) -> str:
        self.asked += 1
        return self.make()


async def beside(call: Callable[[], T]) -> T:
    """Run a client's call in a thread: it waits for the broker, which is on this loop."""
    return await asyncio.to_thread(call)


def client_settings(w: World, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": f"localhost:{w.server.socket_server.ports[SASL]}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": OAUTHBEARER,
        **QUICK,
        **more,
    }


@pytest.mark.conformance("XF-01", "XB-26")
@pytest.mark.parametrize("by", ["file", "provider"])
async def test_our_clients_show_a_token(tmp_path: Path, by: str) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(fresh() + "\n")
    own = {"sasl_oauth_token_file": str(path)} if by == "file" else {"sasl_oauth_token_provider": Provided()}
    values = [b"%d" % number for number in range(50)]

    def work(settings: dict[str, Any]) -> list[bytes]:
        with Admin(**settings) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        with Producer(**settings) as producer:
            for value in values:
                producer.send("t", value)
        with Consumer(auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            found: list[bytes] = []
            while len(found) < len(values):
                found += [record.value for some in consumer.poll(1000).values() for record in some]
        return found

    async with locked(tmp_path) as w:
        assert await beside(lambda: work(client_settings(w, **own))) == values


@pytest.mark.conformance("XF-06", "XB-27")
async def test_our_client_is_told_that_its_token_is_not_valid(tmp_path: Path) -> None:
    expired = fresh(-60)

    def failure(settings: dict[str, Any]) -> str:
        with Admin(**settings) as admin, pytest.raises(SaslAuthenticationError) as raised:
            admin.list_topics()
        return f"{raised.value} {raised.value!r} {admin.config}"

    async with locked(tmp_path) as w:
        text = await beside(lambda: failure(client_settings(w, sasl_oauth_token_provider=Provided(lambda: expired))))
        assert "logging in by OAUTHBEARER: " in text
        assert INVALID_TOKEN in text
        assert expired not in text


@pytest.mark.conformance("XF-07", "XB-30")
async def test_our_client_shows_a_new_token_before_the_old_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins: list[int] = []
    really = Login.log_in

    async def counted(self: Login, broker: Any) -> int:
        logins.append(id(broker))
        return await really(self, broker)

    def work(settings: dict[str, Any]) -> None:
        deadline = time.monotonic() + 60
        with Admin(**settings) as admin:
            while len(logins) - len(set(logins)) < 2:
                assert time.monotonic() < deadline, logins
                admin.list_topics()

    monkeypatch.setattr(Login, "log_in", counted)
    async with locked(tmp_path) as w:
        await beside(lambda: work(client_settings(w, sasl_oauth_token_provider=Provided(lambda: fresh(1.5)))))
        assert w.server.socket_server.load().logins[0].repeated == 2


async def test_a_broker_that_stops_reads_no_more_keys(tmp_path: Path) -> None:
    async with locked(tmp_path) as w:
        tokens = w.server.socket_server.admission.listeners[SASL].tokens
        assert isinstance(tokens, Tokens)
        follower = tokens.source.follower
        assert follower is not None
    await until(follower.done)


async def test_tls_and_a_token_go_together(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(CA.cert_pem.bytes())
    settings = {
        "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,{SASL}:SASL_SSL",
        "ssl_keystore_location": install(tmp_path, LEAF),
    }
    async with locked(tmp_path, **settings) as w:
        own = client_settings(
            w,
            security_protocol="SASL_SSL",
            ssl_cafile=str(tmp_path / "ca.pem"),
            sasl_oauth_token_provider=Provided(),
        )

        def topics() -> list[str]:
            with Admin(**own) as admin:
                return list(admin.list_topics())

        assert await beside(topics) == []
