"""A time that can be moved on, and the loop that goes by it.

While the clock is moved, the loop waits for its threads alone: whenever nobody has anything to do, time jumps to its
next timer. So all that would have happened in that time happens, in its order, only sooner: ticks, heartbeats between
our processes, sessions that expire. Clients in other processes have their own time.

A long move has a leap in its middle, in which nothing happens, as if the machine had slept: days would take minutes.
The quarters of an hour before it and after it are long enough for sessions, leases and what is done every ten minutes:
what the leap has made due has happened when the move is over.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from actors.runtime.environment import REAL, Clock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_AWAKE_SECONDS: Final = 900.0
"""Longer than every check's interval by default, which may begin with the leap's end: a shard that is loaded just then
looks for offsets that have expired ten minutes later, and needs a while to remove them.
"""


class MovableTime:
    """The machine's time, and how far it is ahead of it."""

    def __init__(self, clock: Clock = REAL.clock) -> None:
        self._clock = clock
        self._ahead_s = 0.0
        self.left_s = 0.0
        """The time by which the clock is still to be moved."""
        self.in_threads = 0
        """The amount of work that threads of the loop have: time does not jump past it."""

    def now(self) -> float:
        """Seconds, as a loop has them."""
        return self._clock.monotonic() + self._ahead_s

    def skip(self, seconds: float) -> None:
        """Time jumps, by no more than is left to be moved."""
        step = min(seconds, self.left_s)
        self._ahead_s += step
        self.left_s -= step

    @property
    def clock(self) -> Clock:
        """The clocks of what runs by this time."""
        real = self._clock
        return Clock(
            self.now,
            lambda: real.monotonic_ms() + int(self._ahead_s * 1000),
            lambda: real.wall_ms() + int(self._ahead_s * 1000),
        )


class Skipping(selectors.EpollSelector):
    """Waits for sockets, but while time is to be moved: then it looks whether any is ready, and else has time jump."""

    def __init__(self, time: MovableTime) -> None:
        super().__init__()
        self._time = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The sockets that are ready. Nothing waits longer than `timeout` seconds for them."""
        time = self._time
        if not time.left_s or time.in_threads:
            return super().select(timeout)
        ready = super().select(0)
        if not ready and timeout != 0:
            time.skip(time.left_s if timeout is None else timeout)
        return ready


class MovableLoop(asyncio.SelectorEventLoop):
    """A loop that goes by a time that can be moved."""

    def __init__(self, time: MovableTime) -> None:
        super().__init__(Skipping(time))
        self._movable = time

    def time(self) -> float:
        """Seconds; they go on faster while the clock is moved."""
        return self._movable.now()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Have a thread do something; the clock waits for it."""
        done = super().run_in_executor(executor, func, *args)
        self._movable.in_threads += 1
        done.add_done_callback(self._thread_is_done)
        return done

    def _thread_is_done(self, _: asyncio.Future[Any]) -> None:
        self._movable.in_threads -= 1


async def move(time: MovableTime, seconds: float) -> None:
    """Let so much time pass."""
    leap_s = seconds - 2 * _AWAKE_SECONDS
    if leap_s <= 0:
        await _live_through(time, seconds)
        return
    await _live_through(time, _AWAKE_SECONDS)
    time.left_s = leap_s
    time.skip(leap_s)
    await _live_through(time, _AWAKE_SECONDS)


async def _live_through(time: MovableTime, seconds: float) -> None:
    time.left_s = seconds
    try:
        await asyncio.sleep(seconds)
    finally:
        time.left_s = 0.0
