"""Real clients show tokens to a listener of ours: right ones, wrong ones, and new ones before the old ones end."""

from __future__ import annotations

import asyncio
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AiokafkaProvider

from actors.client import Admin, Producer
from actors.client.admin.types import NewTopic
from tests.compat.drivers import aiokafka, confluent_kafka, kafka_python
from tests.compat.peers import ApacheKafka, UnavailableError, coterie, free_ports, kafka_jars
from tests.compat.raw import create_topics
from tests.compat.support import numbered_records, wait_until
from tests.support.tokens import AUDIENCE, ISSUER, claims, everything, token

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonProvider

RECORDS = numbered_records(100)
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"

Tokens = Callable[[], tuple[str, float]]
"""A token, and when it ends."""


def fresh(lifetime: float = 600.0, **more: Any) -> tuple[str, float]:
    now = time.time()
    return token(claims(now, **{"exp": now + lifetime, **more}), "ES256"), now + lifetime


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A cluster of one broker: the address of a listener for everybody, and of one for tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "keys.json").write_bytes(everything())
    free, sasl = free_ports(2)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free},LOGIN://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "offsets.topic.num.partitions": "1",
    }
    with coterie(folder, 1, None, config):
        yield f"127.0.0.1:{free}", f"127.0.0.1:{sasl}"


# --- the same with each client: send all records, and read them as a group ---


def _librdkafka(servers: str, tokens: Tokens) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: tokens(),
        "log_level": 0,
    }


def _confluent(servers: str, topic: str, tokens: Tokens) -> list[tuple[bytes, bytes]]:
    settings = _librdkafka(servers, tokens)
    errors: list[Any] = []
    producer = confluent_kafka.Producer({**settings, "error_cb": errors.append})
    for key, value in RECORDS:
        producer.produce(topic, value, key)
    while producer.flush(0.2):
        refused = [e for e in errors if e.code() == confluent_kafka.KafkaError._AUTHENTICATION]
        if refused:
            producer.purge()
            raise PermissionError(str(refused[0]))
    group = {"group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, **group})
    consumer.subscribe([topic])
    found: list[tuple[bytes, bytes]] = []
    try:
        while len(found) < len(RECORDS):
            found += [(m.key(), m.value()) for m in consumer.consume(100, 1.0) if not m.error()]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def _kafka_python(servers: str, topic: str, tokens: Tokens) -> list[tuple[bytes, bytes]]:
    class Provider(KafkaPythonProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens()[0]

        def extensions(self) -> dict[str, str]:
            return {"pool": "a b"}

    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    try:
        producer = kafka_python.KafkaProducer(**settings, bootstrap_timeout_ms=5000)
    except (kafka_python.errors.SaslAuthenticationFailedError, kafka_python.errors.KafkaTimeoutError) as error:
        raise PermissionError(str(error)) from error
    except kafka_python.errors.NoBrokersAvailable as error:
        raise PermissionError("no broker would have it") from error
    for key, value in RECORDS:
        producer.send(topic, value, key)
    producer.flush(30)
    producer.close()
    consumer = kafka_python.KafkaConsumer(topic, **settings, group_id=f"g-{topic}", auto_offset_reset="earliest")
    found: list[tuple[bytes, bytes]] = []
    try:
        while len(found) < len(RECORDS):
            found += [(r.key, r.value) for batch in consumer.poll(1000).values() for r in batch]
        consumer.commit()
    finally:
        consumer.close()
    return found


def _aiokafka(servers: str, topic: str, tokens: Tokens) -> list[tuple[bytes, bytes]]:
    class Provider(AiokafkaProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return tokens()[0]

    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }

    async def produce_and_consume() -> list[tuple[bytes, bytes]]:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
        except aiokafka.errors.KafkaError as error:
            await producer.stop()
            raise PermissionError(str(error)) from error
        sent = [await producer.send(topic, value, key) for key, value in RECORDS]
        await asyncio.gather(*sent)
        await producer.stop()
        group = aiokafka.AIOKafkaConsumer(topic, **settings, group_id=f"g-{topic}", auto_offset_reset="earliest")
        found: list[tuple[bytes, bytes]] = []
        async with group as consumer:
            while len(found) < len(RECORDS):
                found += [
                    (r.key, r.value) for batch in (await consumer.getmany(timeout_ms=1000)).values() for r in batch
                ]
            await consumer.commit()
        return found

    return asyncio.run(produce_and_consume())


CLIENTS = {"confluent-kafka": _confluent, "kafka-python": _kafka_python, "aiokafka": _aiokafka}
clients = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
Client = Callable[[str, str, Tokens], list[tuple[bytes, bytes]]]


@pytest.mark.conformance("XB-26")
@clients
def test_a_client_with_a_token_does_all_that_clients_do(servers: tuple[str, str], client: Client, name: str) -> None:
    free, sasl = servers
    create_topics(free, {name: 2})
    assert sorted(client(sasl, name, fresh)) == RECORDS


@pytest.mark.conformance("XB-27")
@clients
def test_a_client_with_a_wrong_token_is_told_so(servers: tuple[str, str], client: Client, name: str) -> None:
    with pytest.raises(PermissionError):
        client(servers[1], name, lambda: fresh(aud="somebody else"))


@pytest.mark.conformance("XB-30", "XA-55")
def test_librdkafka_shows_a_new_token_before_its_session_ends(servers: tuple[str, str], name: str) -> None:
    # It counts in whole seconds: of tokens of 3 s it shows an old one again, twice in a second.
    free, sasl = servers
    create_topics(free, {name: 1})
    errors: list[Any] = []
    producer = confluent_kafka.Producer(_librdkafka(sasl, lambda: fresh(6.0)) | {"error_cb": errors.append})
    sent: list[float] = []

    def delivered(error: Any, message: confluent_kafka.Message) -> None:
        assert error is None
        sent.append(message.timestamp()[1] / 1000)

    def goes_on() -> bool:
        producer.produce(name, b"value", on_delivery=delivered)
        producer.flush(10)
        return sent[-1] - sent[0] > 13.0  # more than two sessions

    wait_until(goes_on, 60)
    assert errors == []


@pytest.mark.conformance("XB-26")
def test_kafkas_own_tools_show_a_token_of_a_file(servers: tuple[str, str], name: str, tmp_path: Path) -> None:
    try:
        jars = kafka_jars()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    free, sasl = servers
    create_topics(free, {name: 1})
    held, settings = tmp_path / "token", tmp_path / "client.properties"
    held.write_text(fresh()[0])
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={held.as_uri()}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required ;\n"
    )
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-D{ALLOWED}={held.as_uri()}", "-cp", f"{jars}/*"]
    tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", sasl, "--command-config", str(settings)]
    command = [*java, *tool, "--describe", "--entity-type", "topics", "--entity-name", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert name in done.stdout


# --- our clients and Apache Kafka ---


class Provided:
    """A provider of tokens."""

    def __init__(self, **more: Any) -> None:
        self._more = more

    def token(self) -> str:
        return fresh(**self._more)[0]


@pytest.fixture
def kafka_with_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Apache Kafka's listener for tokens."""
    keys = tmp_path / "keys.json"
    keys.write_bytes(everything())
    security = "org.apache.kafka.common.security.oauthbearer"
    prefix = "listener.name.sasl_plaintext.oauthbearer"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}.sasl.server.callback.handler.class": f"{security}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}.sasl.jaas.config": f"{security}.OAuthBearerLoginModule required;",
        f"{prefix}.connections.max.reauth.ms": "3600000",
    }
    kafka = ApacheKafka(tmp_path, config=settings, listeners=["SASL_PLAINTEXT"])
    try:
        kafka.format()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-D{ALLOWED}={keys.as_uri()}")
    try:
        kafka.start()
        yield f"127.0.0.1:{kafka.listeners['SASL_PLAINTEXT']}"
    finally:
        kafka.stop()


@pytest.mark.conformance("XF-01", "XF-07", "XB-27")
def test_our_clients_show_tokens_to_apache_kafka(kafka_with_tokens: str, name: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka_with_tokens,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    with Admin(**settings, sasl_oauth_token_provider=Provided()) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    with Producer(**settings, sasl_oauth_token_provider=Provided(lifetime=3.0)) as producer:
        begun = time.monotonic()
        while time.monotonic() - begun < 7.0:  # more than two sessions
            producer.send(name, b"value").get(30)
    with Admin(**settings, sasl_oauth_token_provider=Provided()) as admin:
        assert name in admin.list_topics()
