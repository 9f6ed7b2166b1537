"""The machine of a broker or a shard that is a task and shares its process with others.

Its pid is a number that no process of the system has, and to kill it ends its task alone. The garbage collector and the
log levels are the whole process's: what one shard does with them must not touch the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from typing import Final

from actors.runtime.environment import REAL, Clock, Collector, Environment, Kernel
from actors.runtime.liveness import Doing, Sight
from actors.runtime.log_levels import LogLevels

_ABOVE_ALL_PIDS: Final = 1 << 23  # Linux gives none above 1 << 22 (PID_MAX_LIMIT)

_SIGHT: Final = Sight(Doing.NOTHING, 0.0)


def _nothing() -> None: ...


_SHARED: Final = Collector(_nothing, _nothing, _nothing, _nothing)


def levels_of_its_own() -> LogLevels:
    """Levels of loggers that nobody writes to. A shard's broker has those of the process, and tells it of them."""
    return LogLevels(logging.Manager(logging.RootLogger(logging.WARNING)))


class Tasks:
    """The kernel's view of processes, but of tasks: by pids of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pids = count(_ABOVE_ALL_PIDS)
        self._ends: dict[int, Callable[[], None]] = {}

    def begin(self, end: Callable[[], None]) -> int:
        """The pid of a task; `end` is called when it is killed."""
        pid = next(self._pids)
        self._ends[pid] = end
        return pid

    def over(self, pid: int) -> None:
        """A task has ended."""
        self._ends.pop(pid, None)

    def kill(self, pid: int) -> None:
        """End a task at once, if it has not gone already."""
        end = self._ends.pop(pid, None)
        if end is not None:
            end()

    def look(self, pid: int) -> Sight | None:
        """A task that lives waits like all others: nobody computes for long on a loop that others share."""
        return _SIGHT if pid in self._ends else None

    def environment(self, pid: int) -> Environment:
        """A task's view of its machine."""
        kernel = Kernel(pid=lambda: pid, started_at=_at_any_time, look=self.look, kill=self.kill)
        return Environment(self._clock, REAL.chance, kernel, _SHARED)


def _at_any_time(pid: int) -> int:
    return 0
