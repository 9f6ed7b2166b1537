"""The common means of a consumer's two threads: a lock, a clock, and a way for the event loop to wake the other."""

from __future__ import annotations

import threading
from collections.abc import Callable

_MOST_SECONDS = 3600


class Changes:
    """`lock` guards what both threads touch. `count` grows with each change, so that a wait misses none.

    seen = changes.count
    …                                   # look at what may have changed
    changes.wait(seen, until_ms)
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        """The consumer's clock, monotonic milliseconds."""
        self.lock = threading.Condition()
        self.count = 0

    def tell(self) -> None:
        """Say that something has changed. May be called from any thread."""
        with self.lock:
            self.count += 1
            self.lock.notify_all()

    def wait(self, seen: int, until_ms: int) -> None:
        """Wait until `count` exceeds `seen`, but at most until this time (monotonic ms)."""
        with self.lock:
            if self.count == seen:
                self.lock.wait(min(max(until_ms - self.now_ms(), 0) / 1000, _MOST_SECONDS))
