"""How long to wait before the next attempt (KIP-580). Randomness is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Jitter = Callable[[], float]
"""Gives a number from 0.8 to 1.2 each time it is asked."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """`base_ms` doubled with each failed attempt up to `limit_ms`, spread by the jitter so that clients part ways."""

    base_ms: int
    limit_ms: int
    jitter: Jitter = lambda: 1.0

    def delay_ms(self, attempt: int) -> int:
        """The wait after `attempt` failures (1 = the first). No jitter lifts it above the limit."""
        if attempt <= 0:
            return 0
        grown = self.base_ms * (1 << min(attempt - 1, 30))
        return int(min(grown * self.jitter(), max(self.limit_ms, self.base_ms)))
