"""Bugs planted in the removal of brokers. They are found in runs that remove and add some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import actors.controller.decisions.removal
from actors.controller.active import ActiveController
from placement.metadata import ClusterMetadata

Changes = list[tuple[Any, str, Any]]

REMOVAL_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    REMOVAL_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def removal_with_replicas_left() -> Changes:
    """A broker is unregistered as soon as it leads nothing any more."""

    def leads_nothing(metadata: ClusterMetadata, broker_id: int) -> bool:
        return all(each.leader != broker_id for topic in metadata.topics.values() for each in topic.partitions)

    return [(actors.controller.decisions.removal, "is_empty", leads_nothing)]


@bug
def id_used_again() -> Changes:
    """The next broker has the id after the highest there is, which a removed one may have had."""

    def next_id(self: ActiveController) -> int:
        return max(self.starts.wanted | self.decided.brokers.keys(), default=-1) + 1

    return [(ActiveController, "next_id", next_id)]
