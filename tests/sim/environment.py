"""The environment of a simulated process: its machine's clocks and kernel, the simulation's chance, and a helper."""

from __future__ import annotations

from typing import Final

from actors.broker.housekeeping import Compact
from actors.log.compaction import CompactionPlan, CompactionResult, compact
from actors.runtime.environment import Clock, Collector, Environment, Kernel
from tests.sim.disks import SimFileWriter
from tests.sim.engine import MS, SECOND, Process
from tests.sim.processes import look

_SHARED: Final = Collector(*[lambda: None] * 4)
"""The collector is the simulation's (run.py)."""


def environment_of(process: Process) -> Environment:
    """The environment that a process has from its machine."""
    machine, sim = process.machine, process.sim

    def started_at(pid: int) -> int:
        return 0

    def kill(pid: int) -> None:
        killed = sim.processes.get(pid)
        if killed is not None:
            sim.judge_kill(killed)
            sim.after(1 * MS, killed.kill)

    return Environment(
        clock=Clock(
            monotonic=lambda: machine.monotonic_us / SECOND,
            monotonic_ms=lambda: machine.monotonic_us // MS,
            wall_ms=lambda: machine.wall_us // MS,
        ),
        chance=sim.random,
        kernel=Kernel(
            pid=lambda: process.pid,
            started_at=started_at,
            look=look,
            kill=kill,
            boot=lambda: f"{machine.host}-{machine.boots}\n".encode(),
            is_ours=lambda _: True,
        ),
        collector=_SHARED,
    )


def compactor_of(process: Process, writer: SimFileWriter) -> Compact:
    """A helper process does it, some time later."""

    async def compacted(plan: CompactionPlan) -> CompactionResult:
        return await process.loop.run_in_executor(None, compact, plan, writer)

    return compacted
