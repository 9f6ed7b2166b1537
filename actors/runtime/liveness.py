"""The judgement whether a silent process is dead, or only gets no CPU: by its silence, and by the kernel's word on it.

A process that is runnable and gets no CPU would answer if it could. Killing it would lose what it has loaded, and
starting another takes more CPU than it needs. A process that is stopped, asleep, or that uses the CPU and does not
answer is dead. Pure but for `look`.
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
"""The factor by which a shard that loads, or a process that waits for a disk, may be silent longer than others."""
_TICK_SECONDS = 0.25  # a broker's


class Doing(Enum):
    """The states of a process's threads, the most alive of them first (proc(5))."""

    RUNNABLE = "R"
    WAITING_FOR_DISK = "D"
    NOTHING = ""  # asleep, stopped, or gone


@dataclass(frozen=True, slots=True)
class Sight:
    """The kernel's view of a process at one moment."""

    doing: Doing
    cpu_s: float


def look(pid: int, started: int = 0) -> Sight | None:
    """The state of the process `pid` of this machine; None if none began at `started`, or the system does not tell."""
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
    """The beginning of a process of this machine, in clock ticks since boot; 0 if it is gone or nobody tells."""
    try:
        return int(_stat(pid)[19])
    except (OSError, ValueError, IndexError):
        return 0


def _stat(pid: int) -> list[str]:
    """The fields of proc_pid_stat(5) after the process's name, beginning with its state."""
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
    """The silence of one process, from its beginning to its end. Times are in seconds since it began."""

    __slots__ = ("_cpu_s", "_look_again_s", "_warned", "_was_starved")

    def __init__(self) -> None:
        self._cpu_s: float | None = None  # CPU time it had used when its silence was noticed
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
        """True if the process is dead.

        `sure` is False if the caller itself has just stood still, so that an answer may be there unread. Then, and if
        the process got no CPU until now, the answer is False once more, and the next call decides.
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
        # If it had half of a CPU all the time, it could have answered.
        return sight.doing is Doing.RUNNABLE and sight.cpu_s - self._cpu_s < limit_s / 2


@dataclass(slots=True)
class _Asked:
    """A ping that has not been answered yet."""

    at_s: float
    silence: Silence


class Pings(Generic[K]):
    """A broker's pings to its shards, and which shard is given up when.

    Only time in which the broker runs counts: a tick that comes late counts like one in time, because a broker that
    stood still could hear nobody. One shard is given up at a time; if that does not help, the next gets more time.
    """

    def __init__(self, limit_s: float, look_at: Callable[[int], Sight | None] = look) -> None:
        self._limit_s = limit_s
        self._look_at = look_at
        self._late_s = max(limit_s / 2, 2 * _TICK_SECONDS)
        self._last_tick: float | None = None
        self._lived_s = 0.0
        self._ticks = 0
        self._asked: dict[K, _Asked] = {}
        self._pause_s = limit_s
        self._next_kill_s = -PATIENCE * limit_s

    def heard(self, who: K) -> None:
        """The shard has answered, or it is gone."""
        self._asked.pop(who, None)

    def tick(self, now: float, processes: Iterable[tuple[K, int, bool, int]]) -> tuple[list[K], K | None]:
        """The shards to ping now, and one to kill, or None.

        `processes`: shard, pid, whether it serves already, and at each how many ticks it is pinged.
        """
        in_time = self._advance(now)
        number, self._ticks = self._ticks, self._ticks + 1
        asked, victim = [], None
        for who, pid, serves, every in processes:
            ping = self._asked.get(who)
            if ping is None:
                if number % every:
                    continue
                self._asked[who] = _Asked(self._lived_s, Silence())
                asked.append(who)
            elif victim is None and self._is_dead(ping, pid, serves=serves, sure=in_time):
                victim = who
        if victim is not None:
            self._note_kill(victim)
        return asked, victim

    def _advance(self, now: float) -> bool:
        """Count the time since the last tick, and return whether this one came in time."""
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
    """A shard's clock for members' deadlines: it counts only the time in which both the shard and its broker ran.

    While one of them stands still, the requests of members wait unread, and the members are not to blame. A running
    broker pings all the time. So of a time in which nothing comes from it, only the first `most_ms` are counted.
    """

    def __init__(self, monotonic_ms: int, most_ms: int = 1000) -> None:
        self._most_ms = most_ms
        self._heard_ms = monotonic_ms
        self._counted_ms = monotonic_ms

    def heard(self, monotonic_ms: int) -> None:
        """Something has come from the broker."""
        self._counted_ms, self._heard_ms = self.now_ms(monotonic_ms), monotonic_ms

    def now_ms(self, monotonic_ms: int) -> int:
        """The time counted so far, in milliseconds. It never goes back."""
        return self._counted_ms + min(monotonic_ms - self._heard_ms, self._most_ms)
