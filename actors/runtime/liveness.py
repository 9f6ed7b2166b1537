"""Who is dead, and who only gets no CPU: judged by the silence of a process, and by what the kernel says it does.

A process that is runnable and gets no CPU would answer if it could: to kill it costs what it has loaded, and more CPU
than it wanted. One that is stopped, asleep, or busy without a word is dead. Pure but for `look`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

PATIENCE = 10
"""So many times the silence are allowed to a shard that loads, and to whoever waits for a disk."""
_TICK_SECONDS = 0.25  # a broker's


class Doing(Enum):
    """What the threads of a process do, the most alive of them first (proc(5))."""

    RUNNABLE = "R"
    WAITING_FOR_DISK = "D"
    NOTHING = ""  # asleep, stopped, or gone


@dataclass(frozen=True, slots=True)
class Sight:
    """A process, as the kernel of its machine sees it."""

    doing: Doing
    cpu_s: float


def look(pid: int, started: int = 0) -> Sight | None:
    """A process of this machine; None if there is none that began at `started`, or the system does not tell."""
    if pid <= 0:
        return None
    try:
        found = _stat(pid)
        if started not in (0, int(found[19])):
            return None  # the pid has been given to another process
        cpu_s = sum(map(int, found[11:13])) / os.sysconf("SC_CLK_TCK")
        return Sight(_doing(Path(f"/proc/{pid}/task")), cpu_s)
    except (OSError, ValueError, IndexError):
        return None


def started_at(pid: int) -> int:
    """When a process of this machine began, in clock ticks since boot; 0 if the system does not tell."""
    try:
        return int(_stat(pid)[19])
    except (OSError, ValueError, IndexError):
        return 0


def _stat(pid: int) -> list[str]:
    """What proc_pid_stat(5) has after the process' name, its state first."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _doing(tasks: Path) -> Doing:
    found = Doing.NOTHING
    for task in tasks.iterdir():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # a thread that has ended since
            continue
        if state == "R":
            return Doing.RUNNABLE
        if state == "D":
            found = Doing.WAITING_FOR_DISK
    return found


class Silence:
    """One process that does not answer, while it does not. Times are seconds since it should have begun to."""

    __slots__ = ("_cpu_s", "_look_again_s", "_warned", "_was_starved")

    def __init__(self) -> None:
        self._cpu_s: float | None = None  # what it had used when its silence was noticed
        self._look_again_s = 0.0
        self._was_starved = False
        self._warned = False

    def is_death(
        self,
        silent_s: float,
        limit_s: float,
        look_at: Callable[[], Sight | None],
        *,
        disk_s: float | None = None,
        sure: bool = True,
    ) -> bool:
        """Whether it is dead. `disk_s`: how long one that waits for a disk is waited for, the limit if None.

        Not `sure`: who asks stood still just now, and an answer may be there unread. Then, and for one that was
        starved until now, there is another chance until the next call.
        """
        if silent_s <= limit_s / 4:
            return False
        if self._cpu_s is None:
            sight = look_at()
            self._cpu_s = sight.cpu_s if sight is not None else 0.0
        if silent_s <= limit_s or silent_s < self._look_again_s:
            return False
        if self._is_patient(look_at(), silent_s, limit_s, disk_s):
            self._was_starved, self._warned = True, False
            self._look_again_s = silent_s + limit_s / 4
            return False
        if (self._was_starved or not sure) and not self._warned:
            self._warned = True
            return False
        return True

    def _is_patient(self, sight: Sight | None, silent_s: float, limit_s: float, disk_s: float | None) -> bool:
        if sight is None or self._cpu_s is None:
            return False
        if sight.doing is Doing.WAITING_FOR_DISK:
            return disk_s is not None and silent_s <= disk_s
        # With half of a CPU all the while it could have answered.
        return sight.doing is Doing.RUNNABLE and sight.cpu_s - self._cpu_s < limit_s / 2


@dataclass(slots=True)
class _Asked:
    """A ping that has not been answered."""

    at_s: float
    silence: Silence


class Pings(Generic[K]):
    """A broker's pings to its shards, and when to give up which of them.

    Time is counted here while the broker runs: a tick that comes late counts as little as one in time, for while we
    stood still nobody could be heard. One is given up at a time; if that does not help, the next has longer.
    """

    def __init__(self, limit_s: float, look_at: Callable[[int], Sight | None] = look) -> None:
        self._limit_s = limit_s
        self._look_at = look_at
        self._late_s = max(limit_s / 2, 2 * _TICK_SECONDS)
        self._last_tick: float | None = None
        self._lived_s = 0.0
        self._asked: dict[K, _Asked] = {}
        self._pause_s = limit_s
        self._next_kill_s = -PATIENCE * limit_s

    def heard(self, who: K) -> None:
        """It answers, or has gone."""
        self._asked.pop(who, None)

    def tick(self, now: float, processes: Iterable[tuple[K, int, bool]]) -> tuple[list[K], K | None]:
        """Whom to ping now, and whom to kill, if anybody. `processes`: who, its pid, and whether it serves already."""
        in_time = self._advance(now)
        asked, victim = [], None
        for who, pid, serves in processes:
            ping = self._asked.get(who)
            if ping is None:
                self._asked[who] = _Asked(self._lived_s, Silence())
                asked.append(who)
            elif victim is None and self._is_dead(ping, pid, serves=serves, sure=in_time):
                victim = who
        if victim is not None:
            self._note_kill(victim)
        return asked, victim

    def _advance(self, now: float) -> bool:
        """Count the time since the last tick; whether this one is in time."""
        step = now - self._last_tick if self._last_tick is not None else 0.0
        self._last_tick = now
        in_time = step <= self._late_s
        self._lived_s += step if in_time else min(self._limit_s / 4, step)
        return in_time

    def _is_dead(self, ping: _Asked, pid: int, *, serves: bool, sure: bool) -> bool:
        if self._lived_s < self._next_kill_s:
            return False
        limit_s = self._limit_s if serves else PATIENCE * self._limit_s
        disk_s = PATIENCE * self._limit_s
        silent_s = self._lived_s - ping.at_s
        return ping.silence.is_death(silent_s, limit_s, lambda: self._look_at(pid), disk_s=disk_s, sure=sure)

    def _note_kill(self, victim: K) -> None:
        del self._asked[victim]
        helped = self._lived_s > self._next_kill_s + 2 * self._pause_s
        self._pause_s = self._limit_s if helped else min(2 * self._pause_s, PATIENCE * self._limit_s)
        self._next_kill_s = self._lived_s + self._pause_s


class SharedClock:
    """A shard's clock for deadlines: it counts the time in which both the shard and its broker ran.

    While one of them stood still, what members sent waited unread: that is not their silence. A broker pings all the
    while, so time in which nothing comes is such time, but for the first `most_ms` of it.
    """

    def __init__(self, monotonic_ms: int, most_ms: int = 1000) -> None:
        self._most_ms = most_ms
        self._heard_ms = monotonic_ms
        self._counted_ms = monotonic_ms

    def heard(self, monotonic_ms: int) -> None:
        """The broker has said something."""
        self._counted_ms, self._heard_ms = self.now_ms(monotonic_ms), monotonic_ms

    def now_ms(self, monotonic_ms: int) -> int:
        """The time that has been counted. It never goes back."""
        return self._counted_ms + min(monotonic_ms - self._heard_ms, self._most_ms)
