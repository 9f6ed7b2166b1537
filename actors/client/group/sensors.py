"""A member's measurements of its own part in the group: the recent durations of its steps. Sans-IO.

A window is Kafka's: `metrics.num.samples` samples of `metrics.sample.window.ms`; a new one replaces the oldest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

SAMPLES = 2
SAMPLE_MS = 30_000


@dataclass(slots=True)
class _Sample:
    began_ms: int
    count: int = 0
    total: int = 0
    most: int = 0


class Window:
    """Average and maximum of what was recorded within the window; None where nothing was."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    def record(self, value: int, now_ms: int) -> None:
        if not self._samples or now_ms >= self._samples[-1].began_ms + SAMPLE_MS:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.most = max(sample.most, value)

    def average(self, now_ms: int) -> float | None:
        live = self._live(now_ms)
        return sum(s.total for s in live) / sum(s.count for s in live) if live else None

    def maximum(self, now_ms: int) -> int | None:
        return max((s.most for s in self._live(now_ms)), default=None)

    def _live(self, now_ms: int) -> list[_Sample]:
        return [s for s in self._samples if now_ms < s.began_ms + SAMPLES * SAMPLE_MS]


@dataclass(slots=True)
class Sensors:
    """Milliseconds of answered requests, and of rebalances from the first JoinGroup to the assignment."""

    join: Window = field(default_factory=Window)
    sync: Window = field(default_factory=Window)
    rebalance: Window = field(default_factory=Window)
    heartbeat: Window = field(default_factory=Window)

    def describe(self, now_ms: int) -> dict[str, float | None]:
        """Averages and maxima under Kafka's names."""
        named = {
            "join_time": self.join,
            "sync_time": self.sync,
            "rebalance_latency": self.rebalance,
            "heartbeat_response_time": self.heartbeat,
        }
        averages = {f"{name}_avg": window.average(now_ms) for name, window in named.items()}
        return averages | {f"{name}_max": window.maximum(now_ms) for name, window in named.items()}
