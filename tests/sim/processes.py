"""The kernel's view of the processes of simulated machines: actors.runtime.liveness asks it which of them run."""

from __future__ import annotations

from actors.runtime.liveness import Doing, Sight
from tests.sim.engine import SECOND, Simulation


def look(pid: int) -> Sight | None:
    """A process: asleep unless it is starved, for nobody computes for long here."""
    sim = Simulation.current
    assert sim is not None
    process = sim.processes.get(pid)
    if process is None:
        return None
    starved = process.starved_since_us is not None and not process.stopped
    return Sight(Doing.RUNNABLE if starved else Doing.NOTHING, process.cpu_us / SECOND)
