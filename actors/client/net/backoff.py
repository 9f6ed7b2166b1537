"""The wait before the next attempt (KIP-580). The caller provides the randomness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Jitter = Callable[[], float]
"""Returns a random number from 0.8 to 1.2."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """`base_ms`, doubled with each failed attempt up to `limit_ms`; jitter keeps clients from trying all at once."""

    base_ms: int
    limit_ms: int
    jitter: Jitter = lambda: 1.0

    def delay_ms(self, attempt: int) -> int:
        """The wait in ms after `attempt` failures (1: the first). It never exceeds the limit."""
        if attempt <= 0:
            return 0
        grown = self.base_ms * (1 << min(attempt - 1, 30))
        return int(min(grown * self.jitter(), max(self.limit_ms, self.base_ms)))
