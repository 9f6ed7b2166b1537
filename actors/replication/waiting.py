"""Whoever waits until what was appended has committed: by partition, in the order of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from actors.wire.errors import ErrorCode

Key = tuple[str, int]


class Waiter(NamedTuple):
    """`done` is called once, with NONE when all below `next_offset` has committed, else with the reason."""

    next_offset: int
    done: Callable[[ErrorCode], None]


class Waiting:
    """The waiters of all partitions led here."""

    def __init__(self) -> None:
        self._waiters: dict[Key, deque[Waiter]] = {}

    def add(self, key: Key, waiter: Waiter) -> None:
        """Appends come in the order of the log, and repeats of older ones find what they repeat before them."""
        self._waiters.setdefault(key, deque()).append(waiter)

    def committed(self, key: Key, high_watermark: int) -> None:
        """Answer those whose records are below the watermark."""
        waiters = self._waiters.get(key)
        if not waiters:
            return
        while waiters and waiters[0].next_offset <= high_watermark:
            waiters.popleft().done(ErrorCode.NONE)
        if not waiters:
            self._waiters.pop(key, None)

    def fail(self, key: Key, code: ErrorCode) -> None:
        """Answer everybody who waits for a partition with an error."""
        for waiter in self._waiters.pop(key, ()):
            waiter.done(code)

    def keys(self) -> Iterator[Key]:
        """The partitions somebody waits for."""
        return iter(list(self._waiters))
