"""A broker with counters beside its logs, whose logs commit when the test has them do so. Holds no tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.broker.beside.guest import Place
from actors.records.reading import iter_key_values
from actors.wire.errors import ErrorCode
from placement.metadata import PartitionInfo
from placement.records import METADATA_LEVELS, METADATA_VERSION, PartitionRecord
from tests.support.counter_guest import COUNTER, TOPIC, Counter, Fetched, Increment
from tests.support.handler_helpers import Broker, led_by

ALONE = led_by(0)
THREE = PartitionInfo(0, 0, (0, 1, 2), (0, 1, 2))


class World(Broker):
    """A broker that leads t-0 and has counters; the test has its logs commit."""

    def __init__(self, path: Path, partition: PartitionInfo = ALONE, **settings: str) -> None:
        super().__init__(path, brokers=len(partition.replicas), guests=(COUNTER,), **settings)
        self.metadata.features[METADATA_VERSION] = METADATA_LEVELS[-1]  # as a new cluster's
        self.topic("t", partition)
        self.guests = self.handlers.guests
        self.made: list[Counter] = []
        self.told: list[tuple[int, Any]] = []

    def ask(self, question: Any, index: int = 0) -> tuple[int, Any] | None:  # type: ignore[override]
        """The answer, if it came at once; all that are late stand in `told`."""
        before = len(self.told)
        self.guests.ask("counter", "t", index, question, lambda code, answer: self.told.append((int(code), answer)))
        return self.told.pop() if len(self.told) > before else None

    def increment(self, *names: str) -> None:
        """Count in one turn, and end the turn."""
        for name in names:
            assert self.ask(Increment(name)) is None
        self.loop.turn()

    def answers(self) -> list[tuple[int, Any]]:
        told, self.told = self.told, []
        return told

    def begin(self) -> None:
        """Ask once, so that the pair is made, and let the guest begin."""
        assert self.ask(Fetched()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        self.image()

    def image(self) -> None:
        """The controller's image has come; the logs it makes readable are read."""
        self.guests.apply()
        self.read()

    def read(self) -> None:
        while self.loop.jobs:
            self.loop.end_job()

    def elect(self, topic: str, **changes: Any) -> None:
        """Something about a partition is another now."""
        before = self.metadata.topics[topic].partitions[0]
        self.metadata.apply(PartitionRecord(topic, 0, replace(before, **changes)))

    def elect_both(self, leader: int, epoch: int) -> None:
        self.elect("t", leader=leader, leader_epoch=epoch)
        self.elect(TOPIC, leader=leader, leader_epoch=epoch)
        self.image()

    def commit(self) -> None:
        """The followers have all of the state partition."""
        log = self.context.log(TOPIC, 0)
        log.advance_high_watermark(log.log_end_offset)
        self.context.commits.tell(TOPIC, 0, log.high_watermark)

    def log_end(self) -> int:
        return self.context.log(TOPIC, 0).log_end_offset

    def read_back(self) -> Counter:
        """A counter that has replayed the log, as a new leader's has."""
        counter = Counter(Place("t", b"t" * 16, 0, 0))
        data = self.context.log(TOPIC, 0).read(0, 1 << 26)
        for key, value in iter_key_values(data):
            counter.replay(COUNTER.codec.decode(key or b"", value))
        return counter
