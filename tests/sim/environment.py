"""Puts the simulation's clocks, ids, chance, disks and kernel in the place of the real ones, in the product's modules.

Only names that modules import are exchanged, and all are put back: the product has no switch for this.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import actors.broker.connection
import actors.links.connection
import actors.log.checkpoint
import actors.log.compaction
import actors.log.data_dir
import actors.log.epochs
import actors.log.flush
import actors.log.partition_log
import actors.log.repair
import actors.log.swap
import actors.log.truncation
from actors.log.compaction import CompactionPlan, CompactionResult
from actors.runtime.environment import Clock as WorldClock
from actors.runtime.environment import Environment, Kernel
from tests.sim import disks
from tests.sim.engine import MS, SECOND, Process, Simulation
from tests.sim.processes import look


def _sim() -> Simulation:
    assert Simulation.current is not None
    return Simulation.current


def _process() -> Process:
    process = _sim().process
    assert process is not None
    return process


class Clock:
    """Does for the module `time`."""

    @staticmethod
    def monotonic() -> float:
        return _process().machine.monotonic_us / 1e6

    @staticmethod
    def monotonic_ns() -> int:
        return _process().machine.monotonic_us * 1000

    @staticmethod
    def time() -> float:
        return _process().machine.wall_us / 1e6

    @staticmethod
    def time_ns() -> int:
        return _process().machine.wall_us * 1000

    perf_counter = monotonic

    @staticmethod
    def sleep(seconds: float) -> None:
        raise AssertionError("nothing may block the loop")


class Ids:
    """Does for `uuid` and `secrets`."""

    @staticmethod
    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=_sim().random.getrandbits(128), version=4)

    @staticmethod
    def token_bytes(size: int) -> bytes:
        return _sim().random.randbytes(size)


class BootId:
    """Does for the file that names the machine's boot."""

    @staticmethod
    def read_text() -> str:
        machine = _process().machine
        return f"{machine.host}-{machine.boots}\n"

    @classmethod
    def read_bytes(cls) -> bytes:
        return cls.read_text().encode()


def _kill(pid: int) -> None:
    process = _sim().processes.get(pid)
    if process is not None:
        _sim().judge_kill(process)
        _sim().after(1 * MS, process.kill)


async def compact(plan: CompactionPlan) -> CompactionResult:
    """A helper process does it, some time later."""
    loop = _process().loop
    result: CompactionResult = await loop.run_in_executor(None, actors.log.compaction.compact, plan)
    return result


def environment_of(process: Process) -> Environment:
    """What a simulated process has from its machine."""
    machine = process.machine

    def started_at(pid: int) -> int:
        return 0

    return Environment(
        clock=WorldClock(
            monotonic=lambda: machine.monotonic_us / SECOND,
            monotonic_ms=lambda: machine.monotonic_us // MS,
            wall_ms=lambda: machine.wall_us // MS,
        ),
        chance=process.sim.random,
        kernel=Kernel(
            pid=lambda: process.pid,
            started_at=started_at,
            look=look,
            kill=_kill,
            boot=lambda: f"{machine.host}-{machine.boots}\n".encode(),
        ),
    )


_CLOCK, _IDS = Clock(), Ids()
_EXCHANGED: list[tuple[Any, str, Any]] = [
    (actors.log.data_dir, "uuid", _IDS),
    (actors.log.data_dir, "_BOOT_ID", BootId()),
    (actors.log.partition_log, "FileWriter", disks.SimFileWriter),
    (actors.log.flush, "fsync_file", disks.fsync_file),
    (actors.log.compaction, "fsync_file", disks.fsync_file),
    *(
        (module, "fsync_directory", disks.fsync_directory)
        for module in (
            actors.log.data_dir,
            actors.log.flush,
            actors.log.swap,
            actors.log.compaction,
            actors.log.repair,
            actors.log.truncation,
        )
    ),
    *(
        (module, "write_atomically", disks.write_atomically)
        for module in (
            actors.log.data_dir,
            actors.log.epochs,
            actors.log.flush,
            actors.log.swap,
            actors.log.checkpoint,
        )
    ),
    # Sets of connections are iterated; where an object lies in memory must not matter.
    (actors.broker.connection.Connection, "__hash__", lambda connection: connection.id),
    (actors.links.connection.ControlProtocol, "__hash__", lambda protocol: hash(protocol._challenge)),
]


@contextmanager
def exchanged(changes: list[tuple[Any, str, Any]] | None = None) -> Iterator[None]:
    """Have (owner, name, value) in force for a while; without arguments, the simulation's own."""
    missing = object()
    kept = []
    try:
        for owner, name, value in _EXCHANGED if changes is None else changes:
            kept.append((owner, name, vars(owner).get(name, missing)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(kept):
            if value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
