"""A cluster's views, made up: what a Monitor would answer, without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from actors.links.operations import Operation
from actors.links.views import (
    BrokerView,
    Event,
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GroupHistory,
    GroupRow,
    GroupRows,
    GroupView,
    ListGroupRows,
    Overview,
    ShardView,
)

WALL_MS = 1_764_000_000_000


def group_row(group_id: str, **more: Any) -> GroupRow:
    """A stable pool of two members, a dozen records behind."""
    row: dict[str, Any] = {
        "state": "Stable",
        "protocol_type": "consumer",
        "kind": "pool",
        "members": 2,
        "topics": ("orders",),
        "broker_id": 0,
        "offsets_partition": 3,
        "lag": 12,
        "lag_seconds": 3.5,
        "commits_per_s": 0.5,
        "rebalances": 1,
    }
    return GroupRow(group_id, **(row | more))


def broker_view(broker_id: int, **more: Any) -> BrokerView:
    """A broker that has been looked at twice."""
    broker: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 9092 + broker_id,
        "rack": None,
        "node_id": "n0",
        "epoch": 1,
        "alive": True,
        "pid": 4000 + broker_id,
        "connections": 7,
        "leads": 20,
        "replicas": 20,
        "requests_per_s": 1234.4,
        "bytes_in_per_s": 1_500_000.0,
        "bytes_out_per_s": 0.0,
        "longest_turn_ms": 12.3,
        "parked": 3,
    }
    return BrokerView(broker_id, **(broker | more))


@dataclass
class FakeViews:
    """Fields are what is there; `asked` is what it was asked for."""

    brokers: tuple[BrokerView, ...] = (broker_view(0), broker_view(1, alive=False, pid=None, requests_per_s=None))
    groups: tuple[GroupRow, ...] = ()
    histories: dict[str, GroupHistory] = field(default_factory=dict)
    events: tuple[Event, ...] = (Event(1, WALL_MS, "death", "broker 1", "broker 1 (pid 40) is gone"),)
    asked: list[Operation[Any]] = field(default_factory=list)

    def view(self, operation: Operation[Any]) -> Any:
        self.asked.append(operation)
        if isinstance(operation, GetOverview):
            return self._overview()
        if isinstance(operation, ListGroupRows):
            return GroupRows(WALL_MS, self.groups)
        if isinstance(operation, GetGroup):
            return GroupView(WALL_MS, next((row for row in self.groups if row.group_id == operation.group_id), None))
        assert isinstance(operation, GetGroupHistory)
        return self.histories.get(operation.group_id, GroupHistory(operation.group_id, (), ()))

    def _overview(self) -> Overview:
        shards = (ShardView(3, 0, "Active", 50, 1, 2, 9), ShardView(4, 0, "Asleep", None, 1, 1, 1))
        states = {"Stable": len(self.groups)} if self.groups else {}
        lag = sum(row.lag or 0 for row in self.groups)
        return Overview(
            "an-id", "default", WALL_MS, 1, 30, "n0", self.brokers, shards, 3, 20, states, lag, 8.25, None, self.events
        )

    @contextmanager
    def connect(self, ray_address: str | None, name: str, data_dir: str) -> Iterator[FakeViews]:
        yield self
