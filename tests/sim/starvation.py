"""Something else has the CPUs: every process of the cluster runs for a moment now and then, for many leases.

Nobody may be killed for it but the one that is stopped meanwhile (a zombie), and that has to go. Chance is of its own,
so that the runs of other seeds are what they are without it.

spared      whoever is runnable and gets no CPU is not killed
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.engine import MS, SECOND, Process

if TYPE_CHECKING:
    from tests.sim.run import World

_LENGTH_US = 15 * SECOND
_ZOMBIE_GOES_US = 20 * SECOND
_CATCHES_UP_US = SECOND
"""For so long the kernel sees a process run that has the CPU again: it does what has come meanwhile."""
_LONGEST_WAITS_MS = (300, 1_500, 4_000)
"""Some processes are starved worse than others: above all those that judge, less than those that are judged."""


class Starvation:
    """Has all processes of a world starve, and sees to it that they live."""

    def __init__(self, world: World) -> None:
        self.sim = world.sim
        self.cluster = world.cluster
        self._chance = random.Random(f"starvation {world.sim.seed}")
        self._hungry: dict[Process, int] = {}
        self._zombie: Process | None = None
        self._on = False

    def run(self) -> None:
        """Starve everybody for a while, one stopped meanwhile; then feed them."""
        sim = self.sim
        self._on = True
        sim.say("-- starved")
        sim.judge_kill = self._judge
        self._look_for_processes()
        sim.after(self._chance.randint(2_000, 8_000) * MS, self._stop_one)
        sim.run_until(sim.now + _LENGTH_US)
        self._on = False
        for process in self._hungry:
            process.feed(0)
            sim.after(_CATCHES_UP_US, process.is_fed)
        zombie = self._zombie
        if zombie is not None and not sim.run_until(sim.now + _ZOMBIE_GOES_US, lambda: not zombie.alive):
            sim.fail("progress", f"{zombie.name} is stopped, and nobody has ended it")
        sim.run_until(sim.now + 2 * SECOND)
        sim.judge_kill = lambda process: None

    def _processes(self) -> list[Process]:
        """The cluster's, those that have been started meanwhile included."""
        machines = [*self.cluster.machines, *(broker.machine for broker in self.cluster.brokers)]
        return [process for machine in machines for process in machine.processes]

    def _look_for_processes(self) -> None:
        if not self._on:
            return
        for process in self._processes():
            if process not in self._hungry:
                self._hungry[process] = self._chance.choice(_LONGEST_WAITS_MS)
                self._starve(process)
        self.sim.after(50 * MS, self._look_for_processes)

    def _starve(self, process: Process) -> None:
        if self._on and process.alive:
            process.starve()
            self.sim.after(self._chance.randint(50, self._hungry[process]) * MS, self._feed, process)

    def _feed(self, process: Process) -> None:
        if self._on and process.alive:
            process.feed(self._chance.randint(1, 5) * MS)
            self.sim.after(self._chance.randint(1, 20) * MS, self._starve, process)

    def _stop_one(self) -> None:
        """A shard or a broker stands still for good."""
        choices: list[Callable[[], list[Process]]] = [
            lambda: [b.process for b in self.cluster.brokers if b.process is not None and b.process.alive],
            lambda: [shard for b in self.cluster.brokers for shard, started in b.shards.items() if started is not None],
        ]
        found = self._chance.choice(choices)()
        if found:
            self._zombie = self._chance.choice(found)
            self._zombie.stop()

    def _judge(self, process: Process) -> None:
        if process is not self._zombie and process.alive and (self._zombie is None or self._zombie.alive):
            self.sim.fail("spared", f"{process.name} is to be killed, which only gets no CPU")
