"""librdkafka's members of consumer groups (KIP-848), in threads and in processes of their own. No asserts here."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka

from actors.wire.messages import ConsumerGroupDescribeRequest
from tests.compat.driving import Polling, answer
from tests.compat.peers import ROOT, START_TIMEOUT_S
from tests.compat.processes import end_process, read_ready_line, spawn
from tests.compat.raw import Raw, serving_coordinator


class Member(Polling):
    """A member of a consumer group, which reads one topic and commits when it is told to."""

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        self._topic = topic
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        super().__init__()

    def _loop(self) -> None:
        with contextlib.closing(confluent_kafka.Consumer(self._settings)) as consumer:
            consumer.subscribe([self._topic])
            while not self._stop.is_set():
                for message in consumer.consume(500, 0.1):
                    if message.error() is None:
                        self._records.append((message.key(), message.value()))
                    elif message.error().fatal():
                        raise confluent_kafka.KafkaException(message.error())
                self._owned = frozenset(p.partition for p in consumer.assignment())
                while self._commits:
                    answer(self._commits.pop(), lambda: consumer.commit(asynchronous=False))
            self._owned = frozenset()


@contextlib.contextmanager
def member(servers: str, name: str, **settings: Any) -> Iterator[Member]:
    """A member of the group of this name, which reads the topic of this name."""
    made = Member(servers, name, name, **settings)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def member_process(servers: str, name: str, folder: Path, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process to be killed, which is a member once it was given a line."""
    code = f"from tests.compat.consumer_members import stay; stay({servers!r}, {name!r}, **{settings!r})"
    log_path = folder / "member.log"
    with log_path.open("wb") as log:
        process = spawn([sys.executable, "-W", "ignore", "-c", code], log, ROOT)
        try:
            read_ready_line(process, log_path, START_TIMEOUT_S)
            yield process
        finally:
            end_process(process)


def stay(servers: str, name: str, **settings: Any) -> None:
    """Be a member, once there is a line to read, until somebody ends this process."""
    sys.stdout.write("ready \n")
    sys.stdout.flush()
    sys.stdin.readline()
    made = Member(servers, name, name, **settings)
    while True:
        made.owned()
        time.sleep(0.1)


def described(servers: str, group: str) -> Any:
    """The group as its coordinator describes it."""
    with Raw(serving_coordinator(servers, group)) as raw:
        return raw.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
