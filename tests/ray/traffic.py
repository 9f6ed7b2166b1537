"""Clients of librdkafka that write, commit and read in the background while something happens to the brokers."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.ray.support import consumer
from tests.support.librdkafka import KEEPS_BROKERS


class InBackground(ABC):
    """Runs `_run` in a thread of its own for as long as the block, or until `end`."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @abstractmethod
    def _run(self) -> None:
        """The work, until `_ended` is set."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


class Writer(InBackground):
    """Produces with acks=all; knows what was acknowledged."""

    def __init__(self, servers: str, name: str, **more: Any) -> None:
        super().__init__()
        self.acknowledged: set[bytes] = set()
        self.failed = 0
        self._name = name
        settings = {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "log_level": 0,
            **KEEPS_BROKERS,
        }
        self._producer = Producer(settings | more)

    def _run(self) -> None:
        prefix, number = os.urandom(4).hex().encode(), 0
        while not self._ended.wait(0.002):
            value = b"%s-%d" % (prefix, number)
            number += 1
            self._producer.produce(self._name, value=value, key=value, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.add(message.value())  # type: ignore[attr-defined]
        else:
            self.failed += 1


class Committer(InBackground):
    """Commits rising offsets for a group; knows the last one acknowledged, and when that was."""

    def __init__(self, client: Consumer, name: str) -> None:
        super().__init__()
        self.last = 0
        self.errors: set[int] = set()
        self.times: list[float] = []
        self._client = client
        self._name = name

    def _run(self) -> None:
        offset = 0
        while not self._ended.is_set():
            offset += 1
            try:
                (answer,) = self._client.commit(offsets=[TopicPartition(self._name, 0, offset)], asynchronous=False)
            except KafkaException as error:
                self.errors.add(error.args[0].code())
                time.sleep(0.01)
                continue
            if answer.error is None:
                self.last = offset
                self.times.append(time.monotonic())


class Member(InBackground):
    """A subscribed consumer that reads; knows what it read, and each change of its partitions."""

    def __init__(self, servers: str, group: str, name: str, **more: Any) -> None:
        super().__init__()
        self.values: set[bytes] = set()
        self.errors: set[str] = set()
        self.changes: list[tuple[str, int]] = []
        self.client = consumer(servers, group, **more)
        self.client.subscribe(
            [name],
            on_assign=lambda _, partitions: self.changes.append(("assigned", len(partitions))),
            on_revoke=lambda _, partitions: self.changes.append(("revoked", len(partitions))),
            on_lost=lambda _, partitions: self.changes.append(("lost", len(partitions))),
        )

    def _run(self) -> None:
        while not self._ended.is_set():
            found = self.client.consume(500, 0.1)
            self.values |= {message.value() for message in found if message.error() is None}
            self.errors |= {message.error().name() for message in found if message.error() is not None}
