"""The figures that `Consumer.metrics` returns."""

from __future__ import annotations

from typing import Any

from actors.client.consumer.positions import Positions
from actors.client.group.member import Subscriber
from actors.client.net.changes import Changes


def figures(member: Subscriber, positions: Positions, changes: Changes) -> dict[str, Any]:
    """Counters since the consumer was made, times in ms, and its state in its group."""
    stats = member.stats
    with changes.lock:  # the loop's thread records
        times = stats.times.describe(changes.now_ms())
    states = list(positions.states.values())
    lags = [lag for state in states if (lag := state.lag) is not None]
    return {
        "state": member.state.value,
        "generation": member.generation.id,
        "member_id": member.generation.member_id,
        "coordinator": member.coordinator,
        "owned": sorted(member.owned),
        "joins": stats.joins_sent,
        "rebalances": stats.rebalances,
        "failed_rebalances": stats.rebalances_failed,
        "last_rebalance_ms": stats.last_rebalance_ms,
        **times,
        "heartbeats": stats.heartbeats,
        "failed_heartbeats": stats.heartbeats_failed,
        "poll_timeouts": stats.poll_timeouts,
        "memberships_lost": stats.memberships_lost,
        "records_lag_max": max(lags, default=None),
        "buffered_bytes": sum(s.buffered for s in states),
    }
