"""Real clients at a listener with TLS that asks for certificates: they send records, and read them by partition.

One broker in this process, without groups: those go through the same connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.helpers import create_ssl_context

from actors.client import Consumer, Producer, TopicPartition
from tests.compat.drivers import aiokafka, confluent_kafka, kafka_python
from tests.compat.java_tools import TOOLS, run_tools
from tests.compat.peers import UnavailableError, kafka_jars
from tests.support.authority import Pem
from tests.support.certificates import chain_of, key_of
from tests.support.one_broker import World, create
from tests.support.tls_world import CA, port, secure

RECORDS = [(b"%d" % n, b"value-%d " % n * (40_000 if n == 7 else 1)) for n in range(200)]
"""One of them is larger than what one turn of the loop writes."""
Found = list[tuple[bytes | None, bytes | None]]


class Client:
    """What a client is given: where to connect, whom to trust, and its own certificate."""

    def __init__(self, w: World, folder: Path) -> None:
        certificate = CA.issue_cert("client@example.com", common_name="anne")
        self.servers = f"localhost:{port(w)}"
        self.cafile = str(folder / "trust.pem")
        self.own = Pem(*(str(folder / f"client.{end}") for end in ("crt", "key", "pem")))
        texts = chain_of(certificate), key_of(certificate), key_of(certificate) + chain_of(certificate)
        for path, text in zip((self.own.certificate, self.own.key, self.own.both), texts, strict=True):
            Path(path).write_text(text)

    @property
    def python(self) -> dict[str, Any]:
        """As kafka-python spells it, and ours."""
        return {
            "bootstrap_servers": self.servers,
            "security_protocol": "SSL",
            "ssl_cafile": self.cafile,
            "ssl_certfile": self.own.certificate,
            "ssl_keyfile": self.own.key,
        }


def _confluent(client: Client, topic: str) -> Found:
    settings = {
        "bootstrap.servers": client.servers,
        "security.protocol": "SSL",
        "ssl.ca.location": client.cafile,
        "ssl.certificate.location": client.own.certificate,
        "ssl.key.location": client.own.key,
    }
    producer = confluent_kafka.Producer(settings)
    for key, value in RECORDS:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: Found = []
    while len(found) < len(RECORDS):
        found += [(m.key(), m.value()) for m in consumer.consume(100, 1.0) if not m.error()]
    consumer.close()
    return found


def _kafka_python(client: Client, topic: str) -> Found:
    producer = kafka_python.KafkaProducer(**client.python, max_request_size=1 << 20)
    for key, value in RECORDS:
        producer.send(topic, value, key, partition=0)
    producer.flush(60)
    producer.close()
    consumer = kafka_python.KafkaConsumer(**client.python, auto_offset_reset="earliest")
    consumer.assign([kafka_python.TopicPartition(topic, 0)])
    found: Found = []
    while len(found) < len(RECORDS):
        found += [(r.key, r.value) for batch in consumer.poll(1000).values() for r in batch]
    consumer.close()
    return found


def _aiokafka(client: Client, topic: str) -> Found:
    context = create_ssl_context(cafile=client.cafile, certfile=client.own.certificate, keyfile=client.own.key)
    settings: dict[str, Any] = {
        "bootstrap_servers": client.servers,
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    async def produce_and_consume() -> Found:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            sent = [await producer.send(topic, value, key, partition=0) for key, value in RECORDS]
            await asyncio.gather(*sent)
        found: Found = []
        async with aiokafka.AIOKafkaConsumer(**settings, auto_offset_reset="earliest") as consumer:
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            while len(found) < len(RECORDS):
                found += [
                    (r.key, r.value) for batch in (await consumer.getmany(timeout_ms=1000)).values() for r in batch
                ]
        return found

    return asyncio.run(produce_and_consume())


def _ours(client: Client, topic: str) -> Found:
    with Producer(**client.python) as producer:
        futures = [producer.send(topic, value, key=key, partition=0) for key, value in RECORDS]
        producer.flush(60)
        assert all(future.succeeded() for future in futures)
    found: Found = []
    with Consumer(**client.python, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < len(RECORDS):
            found += [(r.key, r.value) for batch in consumer.poll(1.0).values() for r in batch]
    return found


@pytest.mark.parametrize("of", [_confluent, _kafka_python, _aiokafka, _ours])
async def test_what_a_client_sends_in_tls_is_what_it_reads(tmp_path: Path, of: Callable[[Client, str], Found]) -> None:
    async with secure(tmp_path, listener_name_secure_ssl_client_auth="required") as w:
        inside = await w.client()
        inside.send(create("t"))
        assert (await inside.answer()).topics[0].error_code == 0
        found = await asyncio.to_thread(of, Client(w, tmp_path), "t")
        assert sorted(found) == sorted(RECORDS)


async def test_kafkas_own_tools_speak_tls(tmp_path: Path) -> None:
    try:
        kafka_jars()
    except UnavailableError as reason:
        pytest.skip(f"Kafka's tools cannot run here: {reason}")
    async with secure(tmp_path, listener_name_secure_ssl_client_auth="required") as w:
        client = Client(w, tmp_path)
        config = tmp_path / "client.properties"
        config.write_text(
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
            f"ssl.truststore.location={client.cafile}\nssl.keystore.location={client.own.both}\n"
        )
        shared = ("--bootstrap-server", client.servers, "--command-config", str(config))
        printed = await asyncio.to_thread(
            run_tools,
            [
                (f"{TOOLS}.TopicCommand", *shared, "--create", "--topic", "made", "--partitions", "3"),
                (f"{TOOLS}.TopicCommand", *shared, "--list"),
            ],
        )
        assert [each.status for each in printed] == [0, 0], printed
        assert "made" in printed[1].text.split()
