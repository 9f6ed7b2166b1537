"""Those who wait until an offset is reached, by partition, in the order of the offsets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from actors.wire.errors import ErrorCode

Key = tuple[str, int]


class Waiter(NamedTuple):
    """`done` is called once, with NONE when `offset` has been reached, else with the reason."""

    offset: int
    done: Callable[[ErrorCode], None]


class Waiting:
    """The waiters of all partitions led here."""

    def __init__(self) -> None:
        self.waiters: dict[Key, deque[Waiter]] = {}
        """By partition, in the order of their offsets."""

    def add(self, key: Key, waiter: Waiter) -> None:
        """Add one that waits. Offsets come in ascending order, but for repeats of appends, which wait in the queue."""
        self.waiters.setdefault(key, deque()).append(waiter)

    def __contains__(self, key: Key) -> bool:
        return key in self.waiters

    def reached(self, key: Key, offset: int) -> None:
        """Answer those who wait for `offset` or less."""
        waiters = self.waiters.get(key)
        if not waiters:
            return
        while waiters and waiters[0].offset <= offset:
            waiters.popleft().done(ErrorCode.NONE)
        if not waiters:
            self.waiters.pop(key, None)

    def fail(self, key: Key, code: ErrorCode) -> None:
        """Answer all who wait for a partition with an error."""
        for waiter in self.waiters.pop(key, ()):
            waiter.done(code)

    def __iter__(self) -> Iterator[Key]:
        """The partitions that somebody waits for."""
        return iter(self.waiters)
