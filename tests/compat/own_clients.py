"""Our own clients, for the tests against several brokers: topics, records, and members that run beside a test."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.client import Admin, Consumer, ConsumerRebalanceListener, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import KafkaError
from tests.compat.peers import ROOT, Peer
from tests.compat.raw import await_topics
from tests.compat.support import wait_until
from tests.support.consuming import Watched

COUNT = 12


def make_topic(kafka: Peer, name: str, partitions: int = COUNT) -> list[TopicPartition]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    await_topics(kafka.bootstrap_servers, {name: partitions})
    return [TopicPartition(name, n) for n in range(partitions)]


def produce(kafka: Peer, topic: str, values: list[bytes], **settings: Any) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=5, **settings) as producer:
        futures = [producer.send(topic, value, key=value) for value in values]
        producer.flush(30)
        assert all(future.succeeded() for future in futures)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"value-%06d" % n for n in range(start, start + count)]


def consumer(kafka: Peer, *topics: str, **settings: Any) -> Watched:
    settings.setdefault("auto_offset_reset", "earliest")
    if settings.get("group_protocol", "classic") == "classic":
        settings.setdefault("heartbeat_interval_ms", 300)
        settings.setdefault("session_timeout_ms", 10_000)
    return Watched(*topics, bootstrap_servers=kafka.bootstrap_servers, **settings)


def read(reader: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def enough() -> bool:
        for records in reader.poll(100).values():
            found.extend(record.value for record in records)
        return len(found) >= count

    wait_until(enough, what=f"{count} records")
    return found


class Worker(threading.Thread):
    """A consumer that polls in a thread of its own until told to stop."""

    def __init__(self, kafka: Peer, topic: str, group: str, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.values: list[bytes] = []
        self.owned: set[TopicPartition] = set()
        self.errors: list[Exception] = []
        self._kafka, self._topic = kafka, topic
        self._settings = {"group_id": group, **settings}
        self._stop_now = threading.Event()
        self.start()

    def run(self) -> None:
        with consumer(self._kafka, self._topic, **self._settings) as reader:
            while not self._stop_now.is_set():
                try:
                    for records in reader.poll(100).values():
                        self.values += [record.value for record in records]
                except KafkaError as error:
                    self.errors.append(error)
                self.owned = reader.assignment()

    def stop(self) -> None:
        self._stop_now.set()

    def end(self) -> None:
        self.stop()
        self.join(30)
        assert not self.is_alive()


@contextmanager
def workers(kafka: Peer, topic: str, group: str, count: int, **settings: Any) -> Iterator[list[Worker]]:
    running = [Worker(kafka, topic, group, **settings) for _ in range(count)]
    try:
        yield running
    finally:
        for worker in running:
            worker.stop()
        for worker in running:
            worker.join(30)


def divided(running: list[Worker], partitions: list[TopicPartition]) -> Callable[[], bool]:
    def check() -> bool:
        owned = [tp for worker in running for tp in worker.owned]
        return sorted(owned) == sorted(partitions) and all(worker.owned for worker in running)

    return check


class _Narrator(ConsumerRebalanceListener):
    """Prints what happens to a member's partitions."""

    reader: Consumer

    def _say(self, what: str, partitions: list[TopicPartition]) -> None:
        sys.stdout.write(f"{what} {len(partitions)} {self.reader.group_metadata().generation_id}\n")
        sys.stdout.flush()

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._say("revoked", revoked)

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._say("assigned", assigned)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._say("lost", lost)


def narrate(bootstrap_servers: str, topic: str, **settings: Any) -> None:
    """Be a member of the group named like the topic, for ever."""
    listener = _Narrator()
    if settings.get("group_protocol", "classic") == "classic":
        settings["heartbeat_interval_ms"] = 300
    reader = Consumer(bootstrap_servers=bootstrap_servers, group_id=topic, **settings)
    listener.reader = reader
    reader.subscribe([topic], listener=listener)
    while True:
        reader.poll(100)


@contextmanager
def narrator(kafka: Peer, topic: str, said: Path, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """`narrate` in a process of its own, its words in the file `said`."""
    call = f"from {__name__} import narrate; narrate({kafka.bootstrap_servers!r}, {topic!r}, **{settings!r})"
    with open(said, "wb") as out, subprocess.Popen([sys.executable, "-c", call], cwd=ROOT, stdout=out) as process:
        try:
            yield process
        finally:
            process.kill()
