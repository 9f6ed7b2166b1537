"""A cluster whose last broker is removed. Holds no tests."""

from __future__ import annotations

from typing import Any

from actors.controller.decisions.removal import removal_begun, removal_refused, removals_go_on
from placement.metadata import PartitionInfo, TopicInfo
from placement.records import Record, TopicRecord
from tests.support.decisions import Cluster

GONE = 3


class Removal(Cluster):
    """Four brokers, of which the last one is removed. Followers are in sync when a test says so."""

    def __init__(self, brokers: int = 4, **more: Any) -> None:
        super().__init__(brokers, **more)
        self.now_ms = 1_000

    def hold(self, name: str, *partitions: PartitionInfo, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.metadata.apply(TopicRecord(TopicInfo(name, name.encode().ljust(16), partitions, named)))

    def refused(self, broker_id: int = GONE) -> str:
        return removal_refused(self.metadata, self.config, broker_id) or ""

    def begin(self, broker_id: int = GONE, throttle: int | None = None) -> None:
        assert self.refused(broker_id) == ""
        self.metadata.apply_all(removal_begun(self.metadata, broker_id, self.now_ms, throttle))

    def step(self) -> list[Record]:
        records = removals_go_on(self.metadata, self.config)
        self.metadata.apply_all(records)
        return records

    def catch_up(self, name: str, index: int = 0) -> None:
        """The leader of a partition says that all of its replicas that are alive are in sync."""
        partition = self.partitions(name)[index]
        alive = {broker.id for broker in self.metadata.alive()}
        isr = [[each, self.metadata.brokers[each].epoch] for each in partition.replicas if each in alive]
        asked = [self.metadata.topics[name].id, index, partition.leader_epoch, partition.partition_epoch, isr]
        leader = self.metadata.brokers[partition.leader]
        self.do("alter_partitions", broker_id=leader.id, broker_epoch=leader.epoch, partitions=[asked])

    def settle(self) -> None:
        """Go on until nothing is left to do; followers catch up at once."""
        while self.step():
            for name, topic in list(self.metadata.topics.items()):
                for index, partition in enumerate(topic.partitions):
                    if partition.adding or partition.removing:
                        self.catch_up(name, index)
