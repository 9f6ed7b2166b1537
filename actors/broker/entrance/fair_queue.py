"""A queue of bounded length that many addresses wait in: none of them can fill it for the others."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Addresses take turns, each with its oldest item first.

    When there are `most` items, the newest of the address that has most of them gives way.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._by_address: dict[str, deque[T]] = {}  # the address whose turn is next stands first

    def __len__(self) -> int:
        return self._count

    def put(self, address: str, item: T) -> T | None:
        """Add an item. Returns the one for which there is no place now, which may be the new one."""
        self._by_address.setdefault(address, deque()).append(item)
        self._count += 1
        if self._count <= self._most:
            return None
        # Of several that have as many, the one that came last: who waits does not lose to a newcomer like himself.
        busiest = max(reversed(self._by_address), key=lambda each: len(self._by_address[each]))
        items = self._by_address[busiest]
        refused = items.pop()
        self._settle(busiest, items)
        return refused

    def take(self) -> T:
        """The next item. Raises StopIteration if there is none."""
        address = next(iter(self._by_address))
        items = self._by_address.pop(address)
        item = items.popleft()
        self._by_address[address] = items  # at the end: the others are next
        self._settle(address, items)
        return item

    def clear(self) -> None:
        """Forget all items."""
        self._by_address.clear()
        self._count = 0

    def _settle(self, address: str, items: deque[T]) -> None:
        self._count -= 1
        if not items:
            del self._by_address[address]
