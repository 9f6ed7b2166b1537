"""Deadlines: one heap for all of them, with lazy expiry.

Moving a timer to a later time, which is what every heartbeat does, changes one number; the heap finds out
when the earlier time comes round. Nothing here reads a clock.
"""

from __future__ import annotations

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
        """Where the heap will look at this timer next; other entries of it are stale."""

    def cancel(self) -> None:
        self.due_ms = None


class Timers:
    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0

    def arm(self, timer: Timer, due_ms: int) -> None:
        """Set `timer` to `due_ms`, replacing what it was set to."""
        timer.due_ms = due_ms
        if timer.queued_ms is None or due_ms < timer.queued_ms:
            self._push(timer, due_ms)

    def _push(self, timer: Timer, due_ms: int) -> None:
        timer.queued_ms = due_ms
        self._sequence += 1  # equal deadlines come due in the order they were set
        heappush(self._heap, (due_ms, self._sequence, timer))

    def next_due_ms(self) -> int | None:
        """The earliest real deadline."""
        heap = self._heap
        while heap:
            queued_ms, _, timer = heap[0]
            if timer.queued_ms == queued_ms and timer.due_ms == queued_ms:
                return queued_ms
            heappop(heap)
            if timer.queued_ms == queued_ms:
                timer.queued_ms = None
                if timer.due_ms is not None:
                    self._push(timer, timer.due_ms)
        return None

    def pop_due(self, monotonic_ms: int) -> Iterator[Timer]:
        """The timers due at `monotonic_ms`, one at a time: what one does may still cancel the next."""
        while (due_ms := self.next_due_ms()) is not None and due_ms <= monotonic_ms:
            timer = heappop(self._heap)[2]
            timer.due_ms = timer.queued_ms = None
            yield timer

    def clear(self) -> None:
        for _, _, timer in self._heap:
            timer.due_ms = timer.queued_ms = None
        self._heap.clear()
