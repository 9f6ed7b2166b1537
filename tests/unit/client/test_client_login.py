"""The client's end of a login, against brokers that are honest and brokers that are not."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.client.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from actors.client.net import login as login_module
from actors.client.net.login import Login
from actors.client.net.security import Sasl
from actors.client.net.versions import Ranges
from actors.security.scram import ScramCredential, ScramMechanism, ScramServer, salted_password
from actors.settings.secret import Secret
from actors.wire.messages import (
    ApiMessage,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

SALT, ROUNDS = b"salt", 4096
GOOD = b"n,,\x01auth=Bearer a.b.c\x01\x01"


class Broker:
    """The broker's end of a login. `alter` may change each token before the client gets it."""

    def __init__(
        self, handshake: tuple[int, int] | None = (0, 1), authenticate: tuple[int, int] | None = (0, 2)
    ) -> None:
        self.versions: Ranges = {
            key: value for key, value in ((17, handshake), (36, authenticate)) if value is not None
        }
        self.asked: list[tuple[str, int]] = []
        self.tokens: list[bytes] = []
        self.code = 0
        self.offered = ["PLAIN", "SCRAM-SHA-256"]
        self.lifetime_ms = 0
        self.alter: Callable[[bytes], bytes] = lambda token: token
        self._steps: list[Callable[[bytes], bytes]] = []

    async def ask(self, request: ApiMessage, version: int) -> Any:
        self.asked.append((type(request).__name__, version))
        if isinstance(request, SaslHandshakeRequest):
            self._begin(request.mechanism)
            return SaslHandshakeResponse(error_code=self.code, mechanisms=self.offered)
        assert isinstance(request, SaslAuthenticateRequest)
        answer = await self.ask_raw(request.auth_bytes)
        if answer == b"wrong":
            return SaslAuthenticateResponse(error_code=58, error_message="Authentication failed: it is wrong")
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=self.lifetime_ms)

    async def ask_raw(self, token: bytes) -> bytes:
        self.tokens.append(token)
        return self.alter(self._steps.pop(0)(token))

    def _begin(self, name: str) -> None:
        if name == "OAUTHBEARER":
            self._steps = [
                lambda token: b"" if token == GOOD else b'{"status":"invalid_token"}',
                lambda token: b"wrong",
            ]
            return
        if name == "PLAIN":
            self._steps = [lambda token: b"" if token == b"\0alice\0secret" else b"wrong"]
            return
        mechanism = next(each for each in ScramMechanism if each.wire_name == name)
        credential = ScramCredential.of(mechanism, salted_password(mechanism, "secret", SALT, ROUNDS), SALT, ROUNDS)
        server = ScramServer(mechanism, lambda user: credential, lambda user: credential, "server")
        self._steps = [server.first, server.final]


def login(mechanism: str = "SCRAM-SHA-256", password: str = "secret") -> Login:
    return Login(Sasl(mechanism, "alice", Secret(password)), random.Random(1))


@pytest.mark.conformance("XF-03")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("newest", [0, 1, 2, 9])
async def test_it_logs_in_with_the_highest_common_version(mechanism: str, newest: int) -> None:
    broker = Broker(authenticate=(0, newest))
    await login(mechanism).log_in(broker)
    tokens = 1 if mechanism == "PLAIN" else 2
    assert broker.asked == [("SaslHandshakeRequest", 1), *[("SaslAuthenticateRequest", min(newest, 2))] * tokens]


@pytest.mark.conformance("XF-03")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_broker_without_sasl_authenticate_gets_raw_tokens(mechanism: str) -> None:
    broker = Broker(handshake=(0, 0), authenticate=None)
    assert await login(mechanism).log_in(broker) == 0
    assert broker.asked == [("SaslHandshakeRequest", 0)]
    assert broker.tokens


@pytest.mark.conformance("XF-04")
async def test_a_mechanism_that_is_not_offered_is_an_error_that_lists_what_is() -> None:
    broker = Broker()
    broker.code, broker.offered = 33, ["PLAIN", "GSSAPI"]
    with pytest.raises(
        UnsupportedSaslMechanismError, match=r"sasl_mechanism=SCRAM-SHA-256 here; it offers GSSAPI, PLAIN"
    ):
        await login().log_in(broker)
    assert broker.tokens == []


@pytest.mark.parametrize("known", [True, False])
async def test_a_broker_without_logins_is_an_error(known: bool) -> None:
    broker = Broker() if known else Broker(handshake=None, authenticate=None)
    broker.code = 34
    with pytest.raises(IllegalSaslStateError, match="security_protocol may have to be PLAINTEXT or SSL"):
        await login().log_in(broker)


@pytest.mark.conformance("XF-06")
async def test_a_wrong_password_is_told_with_the_brokers_words() -> None:
    with pytest.raises(SaslAuthenticationError, match=r"logging in as 'alice' by PLAIN: .* it is wrong") as raised:
        await login("PLAIN", "wrong password").log_in(Broker())
    assert not raised.value.retriable
    assert "wrong password" not in str(raised.value)


@pytest.mark.parametrize(
    ("sasl", "source"),
    [
        (Sasl("PLAIN", "alice", Secret("no")), "sasl_plain_username and sasl_plain_password"),
        (Sasl("PLAIN", "alice", password_file="{path}"), "sasl_plain_username and sasl_password_file={path}"),
        (Sasl("PLAIN", "alice", password_env="WRONG_ONE"), "sasl_plain_username and sasl_password_env=WRONG_ONE"),
        (Sasl("OAUTHBEARER", token_file="{path}"), "sasl_oauth_token_file={path}"),
    ],
)
async def test_a_wrong_password_named_neither_its_setting_nor_its_file(
    sasl: Sasl, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    path.write_text("d.e.f")
    path.chmod(0o600)
    monkeypatch.setenv("WRONG_ONE", "d.e.f")
    there = {each: str(path) for each in ("password_file", "token_file") if getattr(sasl, each)}
    with pytest.raises(SaslAuthenticationError) as raised:
        await Login(replace(sasl, **there), random.Random(1)).log_in(Broker())
    assert str(raised.value).endswith(f"it is wrong; check {source.format(path=path)}")


class Provider:
    def __init__(self, token: str, **extensions: str) -> None:
        self.given, self.given_too = token, extensions

    def token(self) -> str:
        return self.given

    def extensions(self) -> dict[str, str]:
        return self.given_too


def by_token(token: str, **extensions: str) -> Login:
    return Login(Sasl("OAUTHBEARER", token_provider=Provider(token, **extensions)), random.Random(1))


@pytest.mark.conformance("XB-26", "XF-03")
async def test_a_token_is_shown_in_one_message() -> None:
    broker = Broker()
    broker.lifetime_ms = 60_000
    assert await by_token("a.b.c").log_in(broker) == 60_000
    assert broker.tokens == [GOOD]
    raw = Broker(handshake=(0, 0), authenticate=None)
    assert await by_token("a.b.c").log_in(raw) == 0
    assert raw.tokens == [GOOD]


@pytest.mark.conformance("XB-27", "XF-06")
async def test_a_token_that_is_refused_is_told_with_the_brokers_words() -> None:
    broker = Broker()
    with pytest.raises(SaslAuthenticationError, match=r"logging in by OAUTHBEARER: .* it is wrong") as raised:
        await by_token("d.e.f").log_in(broker)
    assert broker.tokens[1:] == [b"\x01"]
    assert "d.e.f" not in f"{raised.value!r} {by_token('d.e.f')!r}"


async def test_a_broker_that_refuses_a_token_and_goes_on_is_not_believed() -> None:
    broker = Broker()
    broker.alter = lambda token: b"" if token == b"wrong" else token
    with pytest.raises(SaslAuthenticationError, match="and then went on"):
        await by_token("d.e.f").log_in(broker)


async def test_a_provider_may_have_more_to_say() -> None:
    broker = Broker()
    with pytest.raises(SaslAuthenticationError):
        await by_token("a.b.c", logicalCluster="lkc-1", pool="x y").log_in(broker)
    assert broker.tokens[0] == b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01pool=x y\x01\x01"


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {}),
        ("a.b\x01c", {}),
        ("a b", {}),
        ("ä", {}),
        ("a.b.c", {"auth": "Bearer x"}),
        ("a.b.c", {"Auth": "x"}),
        ("a.b.c", {"x1": "y"}),
        ("a.b.c", {"x": "y\x01auth=Bearer z"}),
        ("a.b.c", {"x": ""}),
    ],
)
async def test_what_would_break_the_message_is_not_sent(token: str, extensions: dict[str, str]) -> None:
    broker = Broker()
    with pytest.raises(SaslAuthenticationError):
        await by_token(token, **extensions).log_in(broker)
    assert broker.tokens == []


@pytest.mark.conformance("XF-07")
async def test_the_lifetime_of_the_last_answer_counts() -> None:
    broker = Broker()
    broker.lifetime_ms = 3_600_000
    assert await login().log_in(broker) == 3_600_000


def _replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda token: token.replace(old, new)


@pytest.mark.conformance("XF-05", "XG-08")
@pytest.mark.parametrize(
    "alter",
    [
        _replaced(b"i=4096", b"i=1"),
        _replaced(b"i=4096", b"i=4095"),
        _replaced(b"i=4096", b"i=1000001"),
        _replaced(b"i=4096", b"i=1000000000"),
        _replaced(b"i=4096", b"i=-4096"),
        _replaced(b"r=", b"r=x"),
        lambda token: token.replace(token[2 : token.find(b",")], token[2:26]) if token.startswith(b"r=") else token,
        lambda token: b"v=" + base64.b64encode(bytes(32)) if token.startswith(b"v=") else token,
        lambda token: b"" if token.startswith(b"v=") else token,
        lambda token: b"v=" if token.startswith(b"v=") else token,
        lambda token: b"e=other-error" if token.startswith(b"v=") else token,
        lambda token: token[:-1],
        lambda token: b"\xff" * 20_000,
    ],
)
async def test_a_broker_that_cannot_prove_itself_is_refused(alter: Callable[[bytes], bytes]) -> None:
    broker = Broker()
    broker.alter = alter
    with pytest.raises(AuthenticationError):
        await login().log_in(broker)


@pytest.mark.conformance("XF-05")
async def test_each_flipped_bit_of_the_brokers_signature_is_noticed() -> None:
    kept = login()
    for bit in range(0, 256, 7):
        broker = Broker()

        def flip(token: bytes, bit: int = bit) -> bytes:
            if not token.startswith(b"v="):
                return token
            signature = bytearray(base64.b64decode(token[2:]))
            signature[bit // 8] ^= 1 << bit % 8
            return b"v=" + base64.b64encode(signature)

        broker.alter = flip
        with pytest.raises(SaslAuthenticationError, match="has not proved that it knows this user"):
            await kept.log_in(broker)


@pytest.mark.conformance("XF-05")
async def test_all_connections_cost_one_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = []

    def counted(mechanism: ScramMechanism, password: str, salt: bytes, rounds: int) -> bytes:
        derived.append((salt, rounds))
        return salted_password(mechanism, password, salt, rounds)

    monkeypatch.setattr(login_module, "salted_password", counted)
    kept = login()
    for _ in range(5):
        await kept.log_in(Broker())
    assert derived == [(SALT, ROUNDS)]


async def test_each_login_has_a_nonce_of_its_own() -> None:
    kept, nonces = login(), set()
    for _ in range(5):
        broker = Broker()
        await kept.log_in(broker)
        nonces.add(broker.tokens[0])
        assert len(base64.b64decode(broker.tokens[0].rpartition(b"r=")[2])) * 8 >= 128
    assert len(nonces) == 5


async def test_no_error_and_no_representation_shows_the_password() -> None:
    kept = login(password="hunter2")
    with pytest.raises(KafkaError) as raised:
        await kept.log_in(Broker())
    assert "hunter2" not in f"{raised.value} {raised.value!r} {kept!r} {vars(kept)}"
