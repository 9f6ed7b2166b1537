"""Bugs planted in the start of brokers. They are found in runs in which each broker is started twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.broker.led import LedPartitions
from placement.metadata import PartitionInfo

Changes = list[tuple[Any, str, Any]]

START_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    START_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def leads_before_it_registers() -> Changes:
    """A broker that begins anew leads what it alone holds by the metadata of its join.

    That can be from before the controller recorded the end of its former process: two then lead at one epoch.
    """

    def leads(self: LedPartitions, topic: str, index: int, partition: PartitionInfo) -> bool:
        alone = len(partition.replicas) == 1
        return partition.leader == self._broker_id and (alone or self._replication.leads(topic, index, partition))

    return [(LedPartitions, "leads", leads)]
