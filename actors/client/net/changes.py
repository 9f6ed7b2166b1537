"""What the two threads of a consumer share: a lock, and word of changes. The user's waits, the event loop tells."""

from __future__ import annotations

import threading

from actors.client.net.network import now_ms

_MOST_SECONDS = 3600


class Changes:
    """`lock` guards what both threads touch. `count` grows with each change, so that none is missed before a wait.

    seen = changes.count
    …                                   # look at what may have changed
    changes.wait(seen, until_ms)
    """

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.count = 0

    def tell(self) -> None:
        """Something changed. From any thread."""
        with self.lock:
            self.count += 1
            self.lock.notify_all()

    def wait(self, seen: int, until_ms: int) -> None:
        """Until there has been a change after the `seen`th, at most until that time (monotonic ms)."""
        with self.lock:
            if self.count == seen:
                self.lock.wait(min(max(until_ms - now_ms(), 0) / 1000, _MOST_SECONDS))
