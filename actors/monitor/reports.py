"""The reports of brokers and the controller at the last look, in the form in which they are shown. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.links.views import BrokerView, Event, RebalanceView, ShardView
from actors.monitor.group_views import Phase
from placement.metadata import ClusterMetadata


@dataclass(slots=True)
class Reports:
    """Nothing of it is ever half new: a look puts another one in its place."""

    name: str = ""
    controller_pid: int = 0
    controller_node_id: str = ""
    metadata: ClusterMetadata = field(default_factory=ClusterMetadata)
    brokers: tuple[BrokerView, ...] = ()
    shards: tuple[ShardView, ...] = ()
    phases: Mapping[str, Phase] = field(default_factory=dict)
    rebalances: Mapping[str, tuple[RebalanceView, ...]] = field(default_factory=dict)
    """Of each group, the last ones, oldest first."""
    events: tuple[Event, ...] = ()
    """The last ones, oldest first."""
