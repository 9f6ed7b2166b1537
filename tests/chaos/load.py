"""Clients that keep a cluster busy and write down what they were told: confluent-kafka's and our own.

Those that produce, and those that only commit. Members of groups are in members.py.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from abc import ABC, abstractmethod
from typing import Any

from confluent_kafka import Producer as ConfluentProducer

from actors.client import Admin, Producer, RecordMetadata, TopicPartition
from actors.client.errors import KafkaError
from tests.chaos.history import History
from tests.support.librdkafka import KEEPS_BROKERS

PATIENCE_MS = 600_000  # nothing is given up while a cluster is being tormented


class Load(ABC):
    """A thread that works until told to stop. `error` is what ended it before."""

    def __init__(self, name: str, history: History, servers: str) -> None:
        self.name, self.history, self.servers = name, history, servers
        self.error: BaseException | None = None
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask it to finish; `join` waits."""
        self.stopping.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name} does not end")
        if self.error is not None:
            raise RuntimeError(f"{self.name} has failed") from self.error

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def run(self) -> None:
        """The work."""


class ConfluentSender(Load):
    """librdkafka's idempotent producer, acks=all."""

    def __init__(self, name: str, history: History, servers: str, topic: str) -> None:
        super().__init__(name, history, servers)
        self._topic = topic

    def run(self) -> None:
        producer = ConfluentProducer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": PATIENCE_MS,
                "linger.ms": 5,
                "log_level": 0,
                **KEEPS_BROKERS,
            }
        )
        for number in itertools.count():
            if self.stopping.wait(0.01):
                break
            producer.produce(self._topic, f"{self.name}-{number}", on_delivery=self._delivered)
            producer.poll(0)
        left = producer.flush(120)
        if left:
            raise TimeoutError(f"{left} records were never acknowledged")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            place = {"partition": message.partition(), "offset": message.offset()}
            self.history.note("acked", id=message.value().decode(), **place)


class OwnSender(Load):
    """Our own producer, idempotent, acks=all."""

    def __init__(self, name: str, history: History, servers: str, topic: str) -> None:
        super().__init__(name, history, servers)
        self._topic = topic

    def run(self) -> None:
        settings = {"delivery_timeout_ms": PATIENCE_MS, "max_block_ms": PATIENCE_MS, "linger_ms": 5}
        with Producer(bootstrap_servers=self.servers, **settings) as producer:
            for number in itertools.count():
                if self.stopping.wait(0.01):
                    break
                name = f"{self.name}-{number}"
                producer.send(self._topic, name.encode()).add_callback(self._delivered, name)
            producer.flush(120)

    def _delivered(self, name: str, where: RecordMetadata) -> None:
        self.history.note("acked", id=name, partition=where.partition, offset=where.offset)


class Committer(Load):
    """Commits rising offsets for a group of its own, and now and then reads them back through another client."""

    def __init__(self, name: str, history: History, servers: str, topic: str, writer: Admin, reader: Admin) -> None:
        super().__init__(name, history, servers)
        self._writer, self._reader = writer, reader
        self._at = TopicPartition(topic, 0)

    def run(self) -> None:
        for offset in itertools.count(1):
            if self.stopping.wait(0.1):
                return
            self.history.note("committing", group=self.name, offset=offset)
            with contextlib.suppress(KafkaError):
                self._writer.alter_consumer_group_offsets(self.name, {self._at: offset}, timeout_ms=2000)
                self.history.note("committed", group=self.name, offset=offset)
            if offset % 5 == 0:
                self.read(offset)

    def read(self, number: int) -> bool:
        """Read the offset back; False if nobody answers."""
        self.history.note("reading", group=self.name, number=number)
        try:
            found = self._reader.list_consumer_group_offsets(self.name, [self._at], timeout_ms=2000)
        except KafkaError:
            return False
        offset = found[self._at].offset if self._at in found else -1
        self.history.note("read", group=self.name, number=number, offset=offset)
        return True
