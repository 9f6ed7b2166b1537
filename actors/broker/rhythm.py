"""A broker's work at some of its ticks only: signs of life, for which each tick would be too often."""

from __future__ import annotations

from actors.settings import BrokerConfig

_BEATS_IN_A_LEASE = 4


class Rhythm:
    """Counts ticks. It is in time, as far as whole ticks allow, and never later than `seconds`, unless ticks are."""

    def __init__(self, seconds: float, tick_seconds: float) -> None:
        self._every = max(int(seconds / tick_seconds), 1)
        self._left = self._every

    def beats(self) -> bool:
        """True if it is time now. To be called at each tick."""
        self._left -= 1
        if self._left > 0:
            return False
        self.begin()
        return True

    def begin(self) -> None:
        """Count anew: what is to be done now and then has been done."""
        self._left = self._every


def heartbeat_seconds(config: BrokerConfig) -> float:
    """The time between two heartbeats to the controller. One that comes late, or is lost, ends no lease."""
    lease_ms = config.integer("broker.session.timeout.ms")
    return min(config.integer("broker.heartbeat.interval.ms"), lease_ms / _BEATS_IN_A_LEASE) / 1000
