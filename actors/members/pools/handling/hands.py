"""Threads for work that goes side by side, or, if the handler is async, tasks of its event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from actors.members.pools.handling.context import StopSignal
from actors.members.pools.handling.delivery import Delivery, Outcome
from actors.members.pools.handling.work import Work

Ended = Callable[[Work, Outcome, BaseException | None], None]


class Hands(Protocol):
    """Starts work and says when it has ended."""

    def start(self, work: Work, stop: StopSignal, ended: Ended) -> None:
        """Deliver the work. `ended` is called in another thread than the caller's, or later."""
        ...

    def cancel(self, works: Iterable[Work]) -> None:
        """Have this work end early, if it can."""
        ...


class Threads:
    """At most so many threads, made when they are needed. They are daemons: one that hangs does not keep a process."""

    def __init__(self, delivery: Delivery, most: int) -> None:
        self._delivery = delivery
        self._most = most
        self._made = 0
        self._queue: queue.SimpleQueue[tuple[Work, StopSignal, Ended]] = queue.SimpleQueue()

    def start(self, work: Work, stop: StopSignal, ended: Ended) -> None:
        self._queue.put((work, stop, ended))
        if self._made < self._most:
            self._made += 1
            threading.Thread(target=self._run, name=f"coterie-handler-{self._made}", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._deliver(*self._queue.get())

    def _deliver(self, work: Work, stop: StopSignal, ended: Ended) -> None:
        try:
            outcome = self._delivery.deliver(work, stop)
        except BaseException as error:  # a handler may call sys.exit, which has to be reported, too
            ended(work, Outcome.LEFT, error)
        else:
            ended(work, outcome, None)

    def cancel(self, works: Iterable[Work]) -> None:
        """A thread cannot be made to end."""


class Tasks:
    """Tasks of the handler's loop."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._loop = delivery.handler.loop
        self._tasks: dict[int, asyncio.Task[Outcome | BaseException]] = {}

    def start(self, work: Work, stop: StopSignal, ended: Ended) -> None:
        self._loop.loop.call_soon_threadsafe(self._begin, work, stop, ended)

    def _begin(self, work: Work, stop: StopSignal, ended: Ended) -> None:
        task = self._tasks[id(work)] = asyncio.create_task(self._deliver(work, stop))
        task.add_done_callback(partial(self._done, work, ended))

    async def _deliver(self, work: Work, stop: StopSignal) -> Outcome | BaseException:
        try:
            return await self._delivery.deliver_async(work, stop)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a handler may call sys.exit, which would end the loop
            return error

    def _done(self, work: Work, ended: Ended, task: asyncio.Task[Outcome | BaseException]) -> None:
        del self._tasks[id(work)]
        found = Outcome.LEFT if task.cancelled() else task.result()  # cancelled: its records come again
        if isinstance(found, BaseException):
            ended(work, Outcome.LEFT, found)
        else:
            ended(work, found, None)

    def cancel(self, works: Iterable[Work]) -> None:
        for work in works:
            self._loop.loop.call_soon_threadsafe(self._cancel, work)

    def _cancel(self, work: Work) -> None:
        task = self._tasks.get(id(work))
        if task is not None:
            task.cancel()
