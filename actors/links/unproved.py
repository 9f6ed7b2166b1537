"""Connections whose other end has not proved yet that it knows the cluster's secret: few, and not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator

UNPROVED_MAX = 64
UNPROVED_SECONDS = 5.0


class Unproved:
    """The unproved connections of one port. Beyond the limit the oldest goes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._closed = False
        self._timers: dict[Hashable, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[Hashable]:
        """The connections, the oldest first, as a copy."""
        return iter(list(self._timers))

    def came(self, connection: Hashable, close: Callable[[], None]) -> None:
        """A connection was accepted. `close` ends it. Its time runs from the first time that this is said."""
        if connection in self._timers:
            return
        if self._closed:
            close()
            return
        self._timers[connection] = self._loop.call_later(UNPROVED_SECONDS, self.end, connection), close
        if len(self._timers) > UNPROVED_MAX:
            self.end(next(iter(self._timers)))

    def left(self, connection: Hashable) -> None:
        """A connection's other end has proved itself, or has gone."""
        timer, _ = self._timers.pop(connection, (None, None))
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """End them all, and those that were accepted and are still being made."""
        self._closed = True
        for connection in list(self._timers):
            self.end(connection)

    def end(self, connection: Hashable) -> None:
        """End a connection that has been unproved for too long, or is one too many."""
        _, close = self._timers[connection]
        self.left(connection)
        close()
