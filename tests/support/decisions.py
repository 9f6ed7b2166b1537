"""A cluster's metadata, to which the controller's decisions are applied as the controller does. Holds no tests."""

from __future__ import annotations

import itertools
from typing import Any

from actors.controller.decisions.elections import broker_lost, broker_registered
from actors.controller.decisions.operations import decide
from actors.settings import BrokerConfig
from placement.metadata import BrokerInfo, ClusterMetadata, PartitionInfo
from placement.records import METADATA_LEVELS, METADATA_VERSION, BrokerRecord
from tests.support import calls


class Cluster:
    """Metadata, and the operations on it applied as the controller does."""

    def __init__(self, brokers: int = 3, racks: tuple[str, ...] = (), **settings: str) -> None:
        self.config = BrokerConfig.from_mapping({name.replace("_", "."): value for name, value in settings.items()})
        self.metadata = ClusterMetadata(features={METADATA_VERSION: METADATA_LEVELS[-1]})  # as a new cluster's
        self._ids = itertools.count()
        for i in range(brokers):
            rack = racks[i] if racks else None
            self.metadata.apply(BrokerRecord(BrokerInfo(i, f"host{i}", 9092, rack, 0)))

    def do(self, operation: str, **arguments: Any) -> Any:
        asked = calls.operation(operation, **arguments)
        result, records = decide(self.metadata, self.config, asked, lambda: next(self._ids).to_bytes(16, "big"))
        for record in records:
            self.metadata.apply(record)
        # The metadata that the controller logs and sends must survive the journey.
        assert ClusterMetadata.from_wire(self.metadata.to_wire()) == self.metadata
        return calls.plain(result)

    def create(self, *topics: dict[str, Any], **more: Any) -> list[int]:
        asked = [{"partitions": -1, "factor": -1, "assignments": None, "configs": {}, **topic} for topic in topics]
        self.results: list[dict[str, Any]] = self.do("create_topics", topics=asked, **more)
        return [result["error_code"] for result in self.results]

    def alter(self, name: str, *operations: list[Any], kind: int = 2, replace: bool = False, **more: Any) -> int:
        resource = {"type": kind, "name": name, "replace": replace, "operations": list(operations)}
        (self.result,) = self.do("alter_configs", resources=[resource], **more)
        return int(self.result["error_code"])

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        return self.metadata.topics[topic].partitions

    def register(self, broker_id: int, epoch: int) -> None:
        self.metadata.apply(BrokerRecord(BrokerInfo(broker_id, f"host{broker_id}", 9092, None, epoch)))
        for record in broker_registered(self.metadata, broker_id):
            self.metadata.apply(record)

    def lose(self, broker_id: int) -> None:
        for record in broker_lost(self.metadata, broker_id):
            self.metadata.apply(record)
