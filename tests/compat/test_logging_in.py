"""Real clients log in at a SASL_PLAINTEXT listener: by SCRAM and PLAIN, with right and wrong passwords, and again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.drivers import aiokafka, confluent_kafka, kafka_python
from tests.compat.peers import ROOT, Coterie, UnavailableError, coterie, free_ports, kafka_jars
from tests.compat.raw import create_topics
from tests.compat.support import numbered_records, wait_until

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORD = "pencil, ="
RECORDS = numbered_records(100)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    """A cluster of one broker: who knows the password of `alice` may use one of its listeners, anybody the other."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "password").write_text(PASSWORD)
    free, sasl = free_ports(2)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free},LOGIN://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.login.scram-sha-256.connections.max.reauth.ms": "2000",
        "offsets.topic.num.partitions": "1",
    }
    user = f"SCRAM-SHA-256=[name=alice,password-file={folder / 'password'}]"
    with coterie(folder, 1, None, config, ["--add-scram", user]) as cluster:
        made = Locked(cluster, f"127.0.0.1:{free}", f"127.0.0.1:{sasl}")
        made.command("users", "set", "alice", "--mechanism", "SCRAM-SHA-512", password=PASSWORD)
        yield made


class Locked:
    def __init__(self, cluster: Coterie, free: str, sasl: str) -> None:
        self.cluster = cluster
        self.free = free
        self.sasl = sasl

    def command(self, *arguments: str, password: str = "") -> str:
        """What a `coterie` command prints."""
        line = [sys.executable, "-m", "actors.cli.main", *arguments, "--bootstrap-server", self.free]
        done = subprocess.run(line, cwd=ROOT, input=password, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


# --- the same with each client: send all records, and read them as a group ---


def _confluent(servers: str, topic: str, mechanism: str, password: str) -> list[tuple[bytes, bytes]]:
    settings = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }
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


def _kafka_python(servers: str, topic: str, mechanism: str, password: str) -> list[tuple[bytes, bytes]]:
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
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


def _aiokafka(servers: str, topic: str, mechanism: str, password: str) -> list[tuple[bytes, bytes]]:
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
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


@clients
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_that_logs_in_does_all_that_clients_do(
    locked: Locked, client: Callable[..., list[tuple[bytes, bytes]]], mechanism: str, name: str
) -> None:
    create_topics(locked.free, {name: 2})
    assert sorted(client(locked.sasl, name, mechanism, PASSWORD)) == RECORDS


@clients
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_with_a_wrong_password_is_told_so(
    locked: Locked, client: Callable[..., list[tuple[bytes, bytes]]], mechanism: str, name: str
) -> None:
    with pytest.raises(PermissionError):
        client(locked.sasl, name, mechanism, "crayon")


@pytest.mark.conformance("XA-55")
def test_librdkafka_logs_in_again_before_its_session_ends(locked: Locked, name: str) -> None:
    create_topics(locked.free, {name: 1})
    errors: list[Any] = []
    settings = {
        "bootstrap.servers": locked.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "error_cb": errors.append,
        "log_level": 0,
    }
    producer = confluent_kafka.Producer(settings)
    sent: list[float] = []

    def delivered(error: Any, message: confluent_kafka.Message) -> None:
        assert error is None
        sent.append(message.timestamp()[1] / 1000)

    def goes_on() -> bool:
        producer.produce(name, b"value", on_delivery=delivered)
        producer.flush(10)
        return sent[-1] - sent[0] > 5.0  # two sessions and a half

    wait_until(goes_on, 60)
    assert errors == []


def test_passwords_are_set_by_other_peoples_tools(locked: Locked, name: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": locked.free})
    made = confluent_kafka.admin
    info = made.ScramCredentialInfo(made.ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = made.UserScramCredentialUpsertion("bob", info, b"brush", b"salt of bob")
    assert admin.alter_user_scram_credentials([upsertion])["bob"].result(30) is None
    found = admin.describe_user_scram_credentials(["bob"])["bob"].result(30)
    assert [each.iterations for each in found.scram_credential_infos] == [4096]
    assert "bob" in locked.command("users", "list")
    locked.command("users", "delete", "bob")
    assert "bob" not in locked.command("users", "list")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_own_tools_log_in(locked: Locked, mechanism: str, tmp_path: Path) -> None:
    try:
        jars = kafka_jars()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    settings = tmp_path / "client.properties"
    settings.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="alice" password="{PASSWORD}";\n'
    )
    tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", locked.sasl, "--command-config", str(settings)]
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*", *tool]
    command = [*java, "--describe", "--entity-type", "users"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "'alice' are SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=8192" in done.stdout
