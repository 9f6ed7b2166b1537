"""Tells classic and consumer groups of one another."""

from __future__ import annotations

from collections.abc import Mapping

from actors.coordinator.classic.messages import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from actors.coordinator.classic.records import CLASSIC
from actors.coordinator.classic.type import ClassicOperations
from actors.coordinator.consumer.type import ConsumerOperations
from actors.coordinator.consumer.values import CONSUMER
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.types import Operations
from actors.coordinator.migration.downgrade import Downgrades
from actors.coordinator.migration.upgrade import Upgrades
from actors.coordinator.migration.visits import Visits


def migration(runtime: GroupRuntime, operations: Mapping[str, Operations]) -> None:
    """Let groups migrate, if the shard knows both types."""
    classic, consumer = operations.get(CLASSIC), operations.get(CONSUMER)
    if not isinstance(classic, ClassicOperations) or not isinstance(consumer, ConsumerOperations):
        return
    downgrades = Downgrades(runtime, classic.rebalancer)
    visits = Visits(runtime, consumer.executor, downgrades)
    runtime.visits |= {
        (CONSUMER, JoinGroupRequest): visits.join,
        (CONSUMER, SyncGroupRequest): visits.sync,
        (CONSUMER, HeartbeatRequest): visits.heartbeat,
        (CONSUMER, LeaveGroupRequest): visits.leave,
    }
    cluster = consumer.executor.cluster
    consumer.upgrades = Upgrades(runtime, cluster)
    cluster.downgrade = downgrades.without
    runtime.when_loaded.append(downgrades.loaded)
