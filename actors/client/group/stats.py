"""A member's counts since it was made. Sans-IO; `sensors` has the durations.

Sans-IO; `sensors` has how long things took.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.client.group.sensors import Sensors


@dataclass(slots=True)
class Stats:
    """Counters since the member was made, and how long things took lately."""

    joins_sent: int = 0
    heartbeats: int = 0
    heartbeats_failed: int = 0
    rebalances: int = 0
    rebalances_failed: int = 0
    last_rebalance_ms: int = -1
    poll_timeouts: int = 0
    memberships_lost: int = 0
    rebalance_started_ms: int | None = field(default=None, repr=False)
    times: Sensors = field(default_factory=Sensors, repr=False)

    def rebalanced(self, now_ms: int) -> None:
        """A rebalance has succeeded. Its duration includes the attempts before it, as in Kafka."""
        self.rebalances += 1
        if self.rebalance_started_ms is not None:
            self.last_rebalance_ms = now_ms - self.rebalance_started_ms
            self.times.rebalance.record(self.last_rebalance_ms, now_ms)
            self.rebalance_started_ms = None
