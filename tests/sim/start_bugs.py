"""Bugs planted in the start of brokers. They are found in runs in which each broker is started twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import actors.broker.server
from actors.broker.context import BrokerContext, Replication
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

    class Early(LedPartitions):
        def __init__(self, context: BrokerContext, replication: Replication) -> None:
            super().__init__(context, replication)
            self.broker_id, self.replication = context.broker_id, replication

        def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
            alone = len(partition.replicas) == 1
            return partition.leader == self.broker_id and (alone or self.replication.leads(topic, index, partition))

    return [(actors.broker.server, "LedPartitions", Early)]
