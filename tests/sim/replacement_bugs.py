"""Bugs planted in the replacement of brokers. They are found in runs that lose nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import actors.controller.broker_sessions
import actors.controller.decisions.replacement
import actors.controller.replacing
from actors.broker.registration import Registration
from actors.broker.replication.lease import Lease
from actors.broker.replication.throttle import Throttle
from placement.metadata import PartitionInfo

Changes = list[tuple[Any, str, Any]]

REPLACEMENT_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    REPLACEMENT_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def empty_directory_keeps_its_place() -> Changes:
    """Partitions stay as they are when a broker is replaced: the last in sync leads, with an empty log."""

    def unchanged(ground: Any, key: Any, partition: PartitionInfo, broker_id: int) -> PartitionInfo:
        return partition

    return [(actors.controller.decisions.replacement, "_without_directory", unchanged)]


@bug
def sole_copy_led_by_an_empty_disk() -> Changes:
    """A broker is replaced though nobody else has everything of a partition."""
    return [(actors.controller.replacing, "sole_copies", lambda metadata, broker_id: [])]


@bug
def old_directory_taken() -> Changes:
    """A process with the directory from before the replacement registers, and serves."""
    return [
        (actors.controller.broker_sessions, "directory_refused", lambda metadata, broker_id, told: None),
        (Registration, "is_replaced", lambda self, joined: False),
    ]


@bug
def isolated_sole_copy_serves_on() -> Changes:
    """Whoever alone may be elected serves without a controller for ever."""
    holds = Lease.holds
    return [(Lease, "holds", lambda self, members: len(members) == 1 or holds(self, members))]


@bug
def throttle_ignored() -> Changes:
    """Followers out of sync are sent what the network takes."""
    return [(Throttle, "room", lambda self, wanted: wanted)]
