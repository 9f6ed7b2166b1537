"""The sources of views."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, TypeVar, cast

from actors import OutsideError
from actors.links.operations import Operation, Result
from actors.runtime.environment import Clock
from actors.runtime.sharing import result_of

R = TypeVar("R", bound=Result)

_KEPT = 512
"""Answers that are kept at most."""


class SourceError(OutsideError):
    """The views cannot be had now. The text is for people."""


class VisitOverError(SourceError):
    """The brokers do not know the visitor any more: he has to log in again."""


class Source(Protocol):
    """A source that knows a cluster: a Monitor, from near or far, or any Kafka."""

    async def view(self, operation: Operation[R]) -> R:
        """The view that is asked for. Raises SourceError."""
        ...


class Shared:
    """A Source that many look at: what was asked within `age_s` is not asked again, nor what is being asked now."""

    def __init__(self, source: Source, clock: Clock, age_s: float = 1.0) -> None:
        self._source = source
        self._clock = clock
        self._age_s = age_s
        self._asked: dict[Operation[Any], tuple[float, asyncio.Task[Any]]] = {}

    async def view(self, operation: Operation[R]) -> R:
        """The view that is asked for, at most `age_s` old. Raises SourceError."""
        now = self._clock.monotonic()
        since, task = self._asked.get(operation, (0.0, None))
        if task is None or (task.done() and now - since >= self._age_s):
            self._forget(now)
            task = asyncio.ensure_future(self._source.view(operation))
            self._asked[operation] = now, task
        return cast(R, await result_of(task))

    def _forget(self, now: float) -> None:
        old = [key for key, (since, task) in self._asked.items() if task.done() and now - since >= self._age_s]
        for key in old if len(old) < _KEPT else list(self._asked):
            task = self._asked.pop(key)[1]
            if task.done() and not task.cancelled():
                task.exception()  # someone has been told, or nobody waits any more
