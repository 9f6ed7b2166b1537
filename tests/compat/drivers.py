"""Four real clients behind one face, so that each scenario is written once: confluent-kafka, kafka-python, aiokafka
and kcat. Their common part is in driving.py, kcat in kcat.py. No asserts here.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
import time
import types
import warnings
from collections.abc import Mapping
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import cramjam

if importlib.util.find_spec("snappy") is None:  # kafka-python knows python-snappy only; its work is cramjam's
    _snappy: Any = types.ModuleType("snappy")
    _snappy.compress = lambda data: bytes(cramjam.snappy.compress_raw(data))
    _snappy.decompress = lambda data: bytes(cramjam.snappy.decompress_raw(data))
    sys.modules["snappy"] = _snappy
    if "kafka.codec" in sys.modules:  # another module of tests has imported it first
        sys.modules["kafka.codec"].snappy = _snappy  # type: ignore[attr-defined]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    import kafka as kafka_python
    import kafka.admin

from tests.compat.driving import (
    HEARTBEAT_INTERVAL_MS,
    OPERATION_TIMEOUT_S,
    SESSION_TIMEOUT_MS,
    Driver,
    Known,
    Member,
    Polling,
    Records,
    answer,
    collected,
)
from tests.compat.kcat import Kcat
from tests.compat.raw import await_topics

# ------------------------------------------------------------------ confluent-kafka


class _ConfluentMember(Polling):
    def __init__(self, settings: Mapping[str, Any], group: str, topic: str) -> None:
        self._topic = topic
        self._settings = {
            **settings,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        }
        super().__init__()

    def _loop(self) -> None:
        with contextlib.closing(confluent_kafka.Consumer(self._settings)) as consumer:
            consumer.subscribe([self._topic])
            while not self._stop.is_set():
                for message in consumer.consume(500, 0.1):
                    if message.error() is None:
                        self._records.append((message.key(), message.value()))
                    elif not message.error().retriable() and message.error().code() >= 0:
                        raise confluent_kafka.KafkaException(message.error())
                self._owned = frozenset(p.partition for p in consumer.assignment())
                while self._commits:
                    answer(self._commits.pop(), lambda: consumer.commit(asynchronous=False))
            self._owned = frozenset()


class Confluent(Known):
    name = "confluent-kafka"
    servers = "bootstrap.servers"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        admin = confluent_kafka.admin.AdminClient(self.settings(servers))
        new = confluent_kafka.admin.NewTopic(topic, partitions, 1)
        admin.create_topics([new])[topic].result(OPERATION_TIMEOUT_S)
        await_topics(servers, {topic: partitions})

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        failures: list[Any] = []
        refused: list[Any] = []
        settings = {
            **self.settings(servers),
            "compression.type": compression,
            "enable.idempotence": idempotent,
            "linger.ms": 5,
            "error_cb": lambda error: (
                refused.append(error) if error.code() == confluent_kafka.KafkaError._AUTHENTICATION else None
            ),
        }
        producer = confluent_kafka.Producer(settings)
        for key, value in records:
            producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None)
        deadline = time.monotonic() + OPERATION_TIMEOUT_S
        while (left := producer.flush(0.2)) and not failures and time.monotonic() < deadline:
            failures += refused
        if left or failures:
            raise RuntimeError(f"{left} records not sent, failures: {failures[:3]}")

    def consume(self, servers: str, topic: str, count: int) -> Records:
        settings = {
            **self.settings(servers),
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        consumer = confluent_kafka.Consumer(settings)
        try:
            partitions = consumer.list_topics(topic, OPERATION_TIMEOUT_S).topics[topic].partitions
            beginning = confluent_kafka.OFFSET_BEGINNING
            consumer.assign([confluent_kafka.TopicPartition(topic, p, beginning) for p in partitions])
            return collected(count, lambda: self._polled(consumer.consume(count, 0.5)))
        finally:
            consumer.close()

    def _polled(self, messages: list[confluent_kafka.Message]) -> Records:
        for message in messages:
            if message.error():
                raise confluent_kafka.KafkaException(message.error())
        return [(message.key(), message.value()) for message in messages]

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _ConfluentMember(self.settings(servers), group, topic)


# ------------------------------------------------------------------ kafka-python


class _KafkaPythonMember(Polling):
    def __init__(self, settings: Mapping[str, Any], group: str, topic: str) -> None:
        self._topic = topic
        self._settings = {
            **settings,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        }
        super().__init__()

    def _loop(self) -> None:
        with contextlib.closing(kafka_python.KafkaConsumer(**self._settings)) as consumer:
            # By name, it may lead the group before it knows the topic and then never assign again; by pattern, it
            # waits for metadata first.
            consumer.subscribe(pattern=f"^{self._topic}$")
            while not self._stop.is_set():
                for batch in consumer.poll(timeout_ms=100).values():
                    self._records += [(r.key, r.value) for r in batch]
                self._owned = frozenset(p.partition for p in consumer.assignment())
                while self._commits:
                    answer(self._commits.pop(), consumer.commit)
            self._owned = frozenset()


class KafkaPython(Known):
    name = "kafka-python"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        admin = kafka_python.KafkaAdminClient(**self.settings(servers))
        try:
            admin.create_topics([kafka.admin.NewTopic(topic, partitions, 1)])
        finally:
            admin.close()
        await_topics(servers, {topic: partitions})

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        producer = kafka_python.KafkaProducer(
            **self.settings(servers),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            sent = [producer.send(topic, value, key) for key, value in records]
            producer.flush(OPERATION_TIMEOUT_S)
            for future in sent:
                future.get(OPERATION_TIMEOUT_S)
        finally:
            producer.close()

    def consume(self, servers: str, topic: str, count: int) -> Records:
        consumer = kafka_python.KafkaConsumer(**self.settings(servers), group_id=None, auto_offset_reset="earliest")
        try:
            partitions = consumer.partitions_for_topic(topic)
            consumer.assign([kafka_python.TopicPartition(topic, p) for p in partitions])
            polled = lambda: [(r.key, r.value) for batch in consumer.poll(timeout_ms=500).values() for r in batch]  # noqa: E731
            return collected(count, polled)
        finally:
            consumer.close()

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _KafkaPythonMember(self.settings(servers), group, topic)


# ------------------------------------------------------------------ aiokafka


class _AiokafkaMember(Polling):
    def __init__(self, settings: Mapping[str, Any], group: str, topic: str) -> None:
        self._topic = topic
        self._settings = {
            **settings,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            "metadata_max_age_ms": 2_000,
        }
        super().__init__()

    def _loop(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        async with aiokafka.AIOKafkaConsumer(self._topic, **self._settings) as consumer:
            while not self._stop.is_set():
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    self._records += [(r.key, r.value) for r in batch]
                self._owned = frozenset(p.partition for p in consumer.assignment())
                while self._commits:
                    done = self._commits.pop()
                    try:
                        await consumer.commit()
                        done.set_result(None)
                    except Exception as failure:
                        done.set_exception(failure)
            self._owned = frozenset()


class Aiokafka(Known):
    name = "aiokafka"

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        asyncio.run(self._create_topic(servers, topic, partitions))
        await_topics(servers, {topic: partitions})

    async def _create_topic(self, servers: str, topic: str, partitions: int) -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(**self.settings(servers))
        await admin.start()
        try:
            answer = await admin.create_topics([aiokafka.admin.NewTopic(topic, partitions, 1)])
            if any(code for _, code, *_ in answer.topic_errors):
                raise RuntimeError(f"not created: {answer}")
        finally:
            await admin.close()

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        asyncio.run(self._produce(servers, topic, records, compression, idempotent))

    async def _produce(self, servers: str, topic: str, records: Records, compression: str, idempotent: bool) -> None:
        producer = aiokafka.AIOKafkaProducer(
            **self.settings(servers),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        async with producer:
            sent = [await producer.send(topic, value, key) for key, value in records]
            await asyncio.wait_for(asyncio.gather(*sent), OPERATION_TIMEOUT_S)

    def consume(self, servers: str, topic: str, count: int) -> Records:
        return asyncio.run(self._consume(servers, topic, count))

    async def _consume(self, servers: str, topic: str, count: int) -> Records:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **self.settings(servers), group_id=None, auto_offset_reset="earliest"
        )
        records: Records = []
        async with consumer:
            deadline = time.monotonic() + OPERATION_TIMEOUT_S
            while len(records) < count and time.monotonic() < deadline:
                for batch in (await consumer.getmany(timeout_ms=500)).values():
                    records += [(r.key, r.value) for r in batch]
        return records

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _AiokafkaMember(self.settings(servers), group, topic)


DRIVERS: list[Driver] = [Confluent(), KafkaPython(), Aiokafka(), Kcat()]
