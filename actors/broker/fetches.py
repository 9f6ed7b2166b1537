"""Fetches that wait for records, by the partitions they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.broker.connection import Connection

Key = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(eq=False, slots=True)
class ParkedFetch:
    """A fetch that waits for bytes. `retry(last)` tries again, and says whether it has answered."""

    retry: Callable[[bool], bool]
    partitions: list[Key]
    connection: Connection
    timer: asyncio.TimerHandle | None = None


class ParkedFetches:
    """All parked fetches of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._by_partition: dict[Key, dict[ParkedFetch, None]] = {}
        self._by_connection: dict[Connection, dict[ParkedFetch, None]] = {}
        self._woken: dict[ParkedFetch, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_connection.values()))

    def partitions(self) -> list[Key]:
        """The partitions that a fetch waits for."""
        return list(self._by_partition)

    def park(self, parked: ParkedFetch, wait_ms: int) -> None:
        """Keep a fetch until one of its partitions grows or `wait_ms` have passed."""
        parked.timer = self._loop.call_later(wait_ms / 1000, self._expire, parked)
        for key in parked.partitions:
            self._by_partition.setdefault(key, {})[parked] = None
        self._by_connection.setdefault(parked.connection, {})[parked] = None

    def wake(self, topic: str, index: int) -> None:
        """A partition has grown, or has another leader: its parked fetches try again at the end of this turn.

        Not at once, because a produce request mostly appends to several partitions that the same fetch waits for.
        """
        waiting = self._by_partition.get((topic, index))
        if waiting:
            if not self._woken:
                self._loop.call_soon(self._retry_woken)
            self._woken.update(waiting)

    def forget(self, connection: Connection) -> None:
        """A client has gone: forget its fetches."""
        for parked in list(self._by_connection.get(connection, ())):
            self._unpark(parked)

    def _retry_woken(self) -> None:
        woken, self._woken = self._woken, {}
        for parked in woken:
            if parked.timer is not None and parked.retry(False):
                self._unpark(parked)

    def _expire(self, parked: ParkedFetch) -> None:
        self._unpark(parked)
        parked.retry(True)

    def _unpark(self, parked: ParkedFetch) -> None:
        """Forget a parked fetch. May be called twice."""
        if parked.timer is None:
            return
        parked.timer.cancel()
        parked.timer = None
        for key in parked.partitions:
            _discard(self._by_partition, key, parked)
        _discard(self._by_connection, parked.connection, parked)


def _discard(table: dict[Any, dict[ParkedFetch, None]], key: Any, parked: ParkedFetch) -> None:
    waiting = table.get(key)
    if waiting is not None:
        waiting.pop(parked, None)
        if not waiting:
            del table[key]
