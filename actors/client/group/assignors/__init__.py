"""The strategies by which the leader of a group divides partitions: the four that every Kafka client knows."""

from __future__ import annotations

from actors.client.group.assignors.base import Assignor, ClusterView, GroupMember, RebalanceProtocol
from actors.client.group.assignors.cooperative import CooperativeStickyAssignor
from actors.client.group.assignors.range import RangeAssignor
from actors.client.group.assignors.roundrobin import RoundRobinAssignor
from actors.client.group.assignors.sticky import StickyAssignor

BUILT_IN: dict[str, type[Assignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}

__all__ = [
    "BUILT_IN",
    "Assignor",
    "ClusterView",
    "CooperativeStickyAssignor",
    "GroupMember",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
]
