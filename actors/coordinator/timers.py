"""All deadlines of a shard in one structure.

To move a timer to a later time, as every heartbeat does, changes one number only. The timer gets its new place in the
queue when its earlier time has come. Nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from actors.coordinator.turn import Now


class Timer:
    """Something to do at `due_ms` (monotonic), or never while that is None."""

    __slots__ = ("action", "due_ms", "queued_ms")

    def __init__(self, action: Callable[[Now], None]) -> None:
        self.action = action
        self.due_ms: int | None = None
        self.queued_ms: int | None = None
        """The time it is queued under; its entries under other times are stale."""

    def cancel(self) -> None:
        self.due_ms = None


def nothing(_: object) -> None:
    """The action of a timer that was given none."""


class Timers:
    """Buckets of timers, one for each millisecond that has any, and a heap of those milliseconds.

    Many timers are due at once, for instance those of all members that were loaded together. To skip a whole bucket of
    timers that were moved costs a fraction of taking each of them out of a heap.
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
        """As `arm`, and give it a new action."""
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

    @property
    def entries(self) -> int:
        """The number of entries in the queue, stale ones among them: it does not grow when timers are moved on."""
        return sum(map(len, self._buckets.values()))

    def next_due_ms(self) -> int | None:
        """The earliest deadline, without stale entries; None if there is none."""
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
        """The timers due at `monotonic_ms`. One at a time, because the action of one may cancel the next."""
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
