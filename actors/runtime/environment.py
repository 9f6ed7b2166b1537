"""A process's means from its machine: time, chance, and the kernel's knowledge of processes.

A controller, a broker, a shard's process and a client are made with it and hand it down to their parts: none of those
has a clock of its own. Only where such a thing is made does it default to the real one, and tests and the simulation
hand in theirs.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from actors.runtime import liveness, private
from actors.runtime.liveness import Sight

log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _kill(pid: int) -> None:
    if pid > 0:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            log.debug("pid %d had already gone", pid)


@dataclass(frozen=True, slots=True)
class Clock:
    """A machine's clocks. The monotonic one never goes back, and means nothing to another machine."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds."""
    monotonic_ms: Callable[[], int] = _monotonic_ms
    wall_ms: Callable[[], int] = _wall_ms
    """Milliseconds since 1970."""
    sleep: Callable[[float], None] = time.sleep
    """Stops its thread for so many seconds. No loop calls it."""


class Chance(Protocol):
    """Where ids, challenges and jitter come from. The methods are those of `random.Random`."""

    def getrandbits(self, bits: int, /) -> int: ...

    def randbytes(self, size: int, /) -> bytes: ...

    def randrange(self, stop: int, /) -> int: ...

    def uniform(self, low: float, high: float, /) -> float: ...


def new_uuid(chance: Chance) -> uuid.UUID:
    """A random UUID."""
    return uuid.UUID(int=chance.getrandbits(128), version=4)


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel's view of processes, and its power over them."""

    pid: Callable[[], int] = os.getpid
    """Our own process."""
    started_at: Callable[[int], int] = liveness.started_at
    """The beginning of a process; 0 if the system does not tell."""
    look: Callable[[int], Sight | None] = liveness.look
    """The present state of a process; None if there is none, or the system does not tell."""
    kill: Callable[[int], None] = _kill
    """End a process at once, if it has not gone already. Raises PermissionError."""
    boot: Callable[[], bytes] = _BOOT_ID.read_bytes
    """The id of the machine's boot. Raises OSError."""
    is_ours: Callable[[asyncio.BaseTransport], bool] = private.is_ours
    """True if a process of our user is at the other end of a Unix socket."""


@dataclass(frozen=True, slots=True)
class Collector:
    """The garbage collector of a process that loads a lot at once. In a process that several share it is not theirs."""

    pause: Callable[[], None] = gc.disable
    go_on: Callable[[], None] = gc.enable
    keep: Callable[[], None] = gc.freeze
    """The present objects stay: collections need not walk them."""
    keep_nothing: Callable[[], None] = gc.unfreeze


@dataclass(frozen=True, slots=True)
class Environment:
    """All that a process has from its machine."""

    clock: Clock = field(default_factory=Clock)
    chance: Chance = field(default_factory=random.SystemRandom)
    """The real one cannot be foretold."""
    kernel: Kernel = field(default_factory=Kernel)
    collector: Collector = field(default_factory=Collector)


REAL: Final = Environment()
"""The machine we run on."""
