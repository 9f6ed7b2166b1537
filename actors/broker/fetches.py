"""Fetches that wait for records, by the partitions they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from actors.broker.connections.connection import Connection

_PARTITIONS_A_TURN: Final = 1000  # are looked at again, or those of one fetch; then it is the turn of other clients

Key = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(eq=False, slots=True)
class ParkedFetch:
    """A fetch that waits for bytes. `retry(last)` tries again, and says whether it has answered."""

    retry: Callable[[bool], bool]
    partitions: list[Key]
    connection: Connection
    timer: asyncio.TimerHandle | None = None
    missed: bool = False
    """True if it is to be tried again when it is the first of its connection."""


class ParkedFetches:
    """All parked fetches of one broker.

    Of one connection only the first is tried: answers leave in order, so that the others would wait for it anyway. A
    connection with many parked fetches costs no more than one with a single fetch.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._by_partition: dict[Key, dict[ParkedFetch, None]] = {}
        self._by_connection: dict[Connection, dict[ParkedFetch, None]] = {}
        self._woken: dict[ParkedFetch, None] = {}  # the longest waiting comes first
        self._retrying = False  # or about to

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
        for parked in self._by_partition.get((topic, index), ()):
            if self._first(parked.connection) is parked:
                self._wake(parked)
            else:
                parked.missed = True

    def forget(self, connection: Connection) -> None:
        """A client has gone: forget its fetches."""
        for parked in list(self._by_connection.get(connection, ())):
            self.end(parked)

    def _first(self, connection: Connection) -> ParkedFetch | None:
        return next(iter(self._by_connection.get(connection, ())), None)

    def _wake(self, parked: ParkedFetch) -> None:
        self._woken[parked] = None
        self._retry_soon()

    def _retry_soon(self) -> None:
        if self._woken and not self._retrying:
            self._retrying = True
            self._loop.call_soon(self._retry_woken)

    def _retry_woken(self) -> None:
        self._retrying = False
        left = _PARTITIONS_A_TURN
        while self._woken and left > 0:
            parked = next(iter(self._woken))
            del self._woken[parked]
            left -= len(parked.partitions)
            if parked.timer is not None and parked.retry(False):
                self.end(parked)
        self._retry_soon()

    def _expire(self, parked: ParkedFetch) -> None:
        self.end(parked)
        parked.retry(True)

    def end(self, parked: ParkedFetch) -> None:
        """Forget a parked fetch, because it has been answered. May be called twice."""
        if parked.timer is None:
            return
        parked.timer.cancel()
        parked.timer = None
        for key in parked.partitions:
            _discard(self._by_partition, key, parked)
        _discard(self._by_connection, parked.connection, parked)
        following = self._first(parked.connection)
        if following is not None and following.missed:
            following.missed = False
            self._wake(following)


def _discard(table: dict[Any, dict[ParkedFetch, None]], key: Any, parked: ParkedFetch) -> None:
    waiting = table.get(key)
    if waiting is not None:
        waiting.pop(parked, None)
        if not waiting:
            del table[key]
