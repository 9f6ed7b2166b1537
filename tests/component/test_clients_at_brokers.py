"""Our clients at a broker of ours with a listener of each kind, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from actors.cli.calls import check_reachable
from actors.client import Admin, Producer
from actors.client.admin.types import NewTopic
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import IllegalSaslStateError, KafkaError, SaslAuthenticationError, SslAuthenticationError
from actors.client.net.login import Login
from actors.client.records import OffsetRange
from actors.security.scram import ScramMechanism, salted_password
from actors.wire.messages import AlterUserScramCredentialsRequest
from tests.support.authority import Authority, Pem
from tests.support.one_broker import World, world
from tests.support.runtime_helpers import until

T = TypeVar("T")
PASSWORD = "pä,ss=word"
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
QUICK = {"default_api_timeout_ms": 20_000, "reconnect_backoff_max_ms": 200}


class Place:
    """A broker, and what a client needs to reach it."""

    def __init__(self, broker: World, authority: Authority, own: Pem) -> None:
        self.broker = broker
        self._authority = authority
        self._own = own

    def servers(self, listener: str) -> str:
        return f"localhost:{self.broker.server.socket_server.ports[listener]}"

    def settings(self, protocol: str, mechanism: str = "SCRAM-SHA-256", **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"bootstrap_servers": self.servers(protocol), "security_protocol": protocol, **QUICK}
        if protocol.endswith("SSL"):
            found["ssl_cafile"] = self._authority.cafile
        if protocol == "SSL":
            found |= {"ssl_certfile": self._own.certificate, "ssl_keyfile": self._own.key}
        if protocol.startswith("SASL"):
            found |= {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
        return found | more


@asynccontextmanager
async def place(folder: Path, **settings: str) -> AsyncIterator[Place]:
    authority = Authority(folder)
    given = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "ssl_keystore_location": authority.sign("localhost", "127.0.0.1").both,
        "ssl_truststore_location": authority.cafile,
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl_enabled_mechanisms": ",".join(MECHANISMS),
        **settings,
    }
    async with world(folder, **given) as broker:
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
        client = await broker.client()
        for mechanism in ScramMechanism:
            salted = salted_password(mechanism, PASSWORD, b"salt", 4096)
            one = upsertion(
                name="alice", mechanism=mechanism.code, iterations=4096, salt=b"salt", salted_password=salted
            )
            answer = await client.ask(AlterUserScramCredentialsRequest(upsertions=[one]), 0)
            assert [result.error_code for result in answer.results] == [0]
        yield Place(broker, authority, authority.sign("alice"))


async def beside(call: Callable[[], T]) -> T:
    """Run a client's call in a thread: it waits for the broker, which is on this loop."""
    return await asyncio.to_thread(call)


@pytest.mark.conformance("XF-01", "XF-03")
@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", ""), *((p, m) for p in ("SASL_PLAINTEXT", "SASL_SSL") for m in MECHANISMS)],
)
async def test_records_go_there_and_back(tmp_path: Path, protocol: str, mechanism: str) -> None:
    values = [b"%d" % number * 20_000 for number in range(50)]

    def work(settings: dict[str, Any]) -> list[bytes]:
        with Admin(**settings) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        with Producer(**settings, linger_ms=5, batch_size=200_000) as producer:
            for value in values:
                producer.send("t", value)
        with RangeReader(**settings) as reader:
            batches = list(reader.read([OffsetRange("t", 0, 0, len(values))]))
        return [value for batch in batches for value in batch.column("value").to_pylist()]

    async with place(tmp_path) as there:
        assert await beside(lambda: work(there.settings(protocol, mechanism))) == values


@pytest.mark.conformance("XF-06", "XF-10")
async def test_who_does_not_fit_is_told_why(tmp_path: Path) -> None:
    def failure(**settings: Any) -> KafkaError:
        with (
            Admin(**QUICK | {"default_api_timeout_ms": 2_000} | settings) as admin,
            pytest.raises(KafkaError) as raised,
        ):
            admin.list_topics()
        return raised.value

    async with place(tmp_path) as there:
        for mechanism in MECHANISMS:
            wrong = there.settings("SASL_SSL", mechanism, sasl_plain_password="wrong")
            assert isinstance(await beside(lambda wrong=wrong: failure(**wrong)), SaslAuthenticationError)
        plain = {"bootstrap_servers": there.servers("SASL_SSL")}
        assert "set security_protocol to SASL_SSL, with sasl_mechanism" in str(await beside(lambda: failure(**plain)))
        strange = {"bootstrap_servers": there.servers("SASL_PLAINTEXT")}
        assert "it may expect a login" in str(await beside(lambda: failure(**strange)))
        eager = there.settings("SASL_PLAINTEXT") | {"bootstrap_servers": there.servers("PLAINTEXT")}
        assert isinstance(await beside(lambda: failure(**eager)), IllegalSaslStateError)
        bare = {k: v for k, v in there.settings("SSL").items() if k not in ("ssl_certfile", "ssl_keyfile")}
        refused = await beside(lambda: failure(**bare))
        assert isinstance(refused, SslAuthenticationError)
        assert "ssl_certfile and ssl_keyfile say what the client shows" in str(refused)


@pytest.mark.conformance("XF-07")
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_login_is_renewed_before_it_ends(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
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
    async with place(tmp_path, connections_max_reauth_ms="2000") as there:
        await beside(lambda: work(there.settings("SASL_SSL", mechanism, reconnect_backoff_max_ms=60_000)))
        assert len(set(logins)) <= 2


@pytest.mark.conformance("XF-09")
async def test_a_look_whether_somebody_listens_is_no_failed_handshake(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with place(tmp_path) as there:
        caplog.set_level(logging.INFO)
        before = there.broker.server.socket_server.load()
        for listener in LISTENERS:
            await beside(lambda listener=listener: check_reachable(there.servers(listener)))
        await until(lambda: len(there.broker.server.clients) <= 1, what="the end of the looks")
        after = there.broker.server.socket_server.load()
        assert after.logins == before.logins
    assert not [record for record in caplog.records if "handshake" in record.message or "login" in record.message]
