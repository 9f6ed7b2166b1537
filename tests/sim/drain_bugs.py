"""Bugs planted in what becomes of drained nodes. They are found in runs in which nodes are drained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placement.metadata import BrokerInfo, ClusterMetadata

Changes = list[tuple[Any, str, Any]]

DRAIN_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    DRAIN_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def drained_broker_takes_over() -> Changes:
    """Any broker that lives may lead what those on drained nodes lead, and those may, too."""

    def placeable(self: ClusterMetadata) -> list[BrokerInfo]:
        return [broker for broker in self.alive() if broker.id not in self.removals]

    return [(ClusterMetadata, "placeable", placeable)]
