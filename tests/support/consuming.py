"""Consumers of a scripted broker: made in a hurry, read from, waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from actors.client import (
    Consumer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from actors.client.group.member import MakeMember
from actors.client.group.protocols import PROTOCOLS
from tests.support.client_broker import ScriptedBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Watched(Consumer):
    """A consumer whose member of its group a test can look at."""

    member: Any

    def __init__(self, *topics: str, protocols: Mapping[str, MakeMember] = PROTOCOLS, **settings: Any) -> None:
        watched = {name: self._watch(make) for name, make in protocols.items()}
        super().__init__(*topics, protocols=watched, **settings)

    def _watch(self, make: MakeMember) -> MakeMember:
        def made(*given: Any) -> Any:
            self.member = make(*given)
            return self.member

        return made


def consumer(kafka: ScriptedBroker, *topics: str, **settings: Any) -> Watched:
    settings.setdefault("auto_offset_reset", "earliest")
    settings.setdefault("fetch_max_wait_ms", 50)
    settings.setdefault("retry_backoff_ms", 20)
    return Watched(*topics, bootstrap_servers=kafka.bootstrap_servers, **settings)


def poll_until(reader: Consumer, condition: Callable[[], Any], timeout_s: float = 60) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        for some in reader.poll(20).values():
            records += some
    return records


def read(reader: Consumer, count: int, timeout_s: float = 60) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        for some in reader.poll(50).values():
            records += some
    return records


def wait_for(condition: Callable[[], Any], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


class Recorder(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.calls.append(("revoked", revoked))

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.calls.append(("assigned", assigned))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.calls.append(("lost", lost))
