"""Deadlines: one structure for all of them, with lazy expiry.

Moving a timer to a later time, which is what every heartbeat does, changes one number; it is put in its new
place when the earlier time comes round. Nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from actors.coordinator.messages import Now


class Timer:
    """Something to do at `due_ms` (monotonic), or never while that is None."""

    __slots__ = ("action", "due_ms", "queued_ms")

    def __init__(self, action: Callable[[Now], None]) -> None:
        self.action = action
        self.due_ms: int | None = None
        self.queued_ms: int | None = None
        """Under which time it is queued; other entries of it are stale."""

    def cancel(self) -> None:
        self.due_ms = None


def nothing(_: object) -> None:
    """What a timer does that was never given anything to do."""


class Timers:
    """Buckets of timers, one for each ms that has any, and a heap of those ms.

    Many members are due at once (all that were loaded together, say); passing over a whole bucket of
    timers that have moved on costs a fraction of taking each of them out of a heap.
    """

    __slots__ = ("_buckets", "_heap")

    def __init__(self) -> None:
        self._buckets: dict[int, deque[Timer]] = {}
        self._heap: list[int] = []

    def arm(self, timer: Timer, due_ms: int) -> None:
        """Set `timer` to `due_ms`, replacing what it was set to."""
        timer.due_ms = due_ms
        if timer.queued_ms is None or due_ms < timer.queued_ms:
            self._queue(timer, due_ms)

    def start(self, timer: Timer, due_ms: int, action: Callable[[Now], None]) -> None:
        """As `arm`, for something else to do than before."""
        timer.action = action
        self.arm(timer, due_ms)

    def _queue(self, timer: Timer, due_ms: int) -> None:
        timer.queued_ms = due_ms
        bucket = self._buckets.get(due_ms)
        if bucket is None:
            self._buckets[due_ms] = deque((timer,))
            heappush(self._heap, due_ms)
        else:
            bucket.append(timer)  # equal deadlines come due in the order they were set

    def next_due_ms(self) -> int | None:
        """The earliest real deadline."""
        heap, buckets = self._heap, self._buckets
        while heap:
            queued_ms = heap[0]
            bucket = buckets[queued_ms]
            while bucket:
                timer = bucket[0]
                if timer.queued_ms == queued_ms:
                    if timer.due_ms == queued_ms:
                        return queued_ms
                    timer.queued_ms = None
                    if timer.due_ms is not None:
                        self._queue(timer, timer.due_ms)
                bucket.popleft()
            del buckets[heappop(heap)]
        return None

    def pop_due(self, monotonic_ms: int) -> Iterator[Timer]:
        """The timers due at `monotonic_ms`, one at a time: what one does may still cancel the next."""
        while (due_ms := self.next_due_ms()) is not None and due_ms <= monotonic_ms:
            timer = self._buckets[due_ms].popleft()
            timer.due_ms = timer.queued_ms = None
            yield timer

    def clear(self) -> None:
        for bucket in self._buckets.values():
            for timer in bucket:
                timer.due_ms = timer.queued_ms = None
        self._buckets.clear()
        self._heap.clear()
