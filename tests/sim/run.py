"""One run: a cluster and its clients, faults for a while, then everything heals and has to come to rest."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from placement.metadata import OFFSETS_TOPIC
from tests.sim.agreement import Agreement
from tests.sim.clients import PARTITIONS, TOPIC, Producer, Reader
from tests.sim.cluster import BROKERS, Cluster
from tests.sim.drains import Drains
from tests.sim.engine import MS, SECOND, Simulation, ViolationError
from tests.sim.expulsions import Expulsions
from tests.sim.guests import Counting
from tests.sim.history import History
from tests.sim.intruder import Intruder
from tests.sim.lost_nodes import LostNodes
from tests.sim.members import Lodger, Member, Observer
from tests.sim.network import Network
from tests.sim.removals import Removals
from tests.sim.scenario import LODGER, Scenario, power_lost, scenario_of, started_twice
from tests.sim.starvation import Starvation
from tests.sim.visitor import Visitor
from tests.sim.voter_changes import ChangesOfVoters
from tests.sim.witness import Witness
from tests.support.counter_guest import COUNTER

Change = tuple[Any, str, Any]
"""An owner, the name of an attribute, and the value to exchange it for."""

_READY_US = 20 * SECOND
_HEALED_US = 40 * SECOND
"""Within this time after the last fault, everything is as it should be."""


@dataclass(slots=True)
class Outcome:
    """The end of a run."""

    seed: int
    scenario: str
    digest: int
    failure: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


class World:
    """All there is in one run."""

    def __init__(self, sim: Simulation, scenario: Scenario, folder: Path) -> None:
        from tests.sim.faults import Faults

        self.sim = sim
        self.scenario = scenario
        self.history = History(sim)
        guests = (COUNTER,) if scenario.guests else ()
        self.cluster = Cluster(
            *(sim, folder, scenario.settings(), guests),
            commits_late=scenario.commits_late,
            one_voter=scenario.one_voter,
            raises=scenario.raises,
            brokers=4 if scenario.removes_brokers else 3,
            starts_twice=scenario.starts_twice,
            loses_power=scenario.loses_power,
            controllers=scenario.controllers,
        )
        self.expulsions = Expulsions(sim)
        self.witness = Witness(sim, self.cluster, self.history, scenario, self.expulsions.heard)
        self.members = self._members()
        self.others = [
            Producer(self.cluster, self.history, "producer"),
            Reader(self.cluster, self.history, "reader"),
            Observer(self.cluster, self.history, "observer", scenario.groups[0]),
            Intruder(self.cluster, self.history, "intruder", self.members, self.witness.logs.groups),
        ]
        self.visitor = Visitor(self.cluster, self.history) if scenario.sleeps else None
        if self.visitor is not None:
            self.others.append(self.visitor)
        self.lodger = Lodger(self.cluster, self.history, "lodger", LODGER, 0) if scenario.lodger else None
        if self.lodger is not None:
            self.others.append(self.lodger)
        self.history.claims.holds = self.witness.logs.groups.holds
        self.counting = Counting(self) if scenario.guests else None
        self.losses = LostNodes(self)
        self.removals = Removals(self)
        self.drains = Drains(self)
        self.agreement = Agreement(self)
        self.changes_of_voters = ChangesOfVoters(self)
        self.faults = Faults(self)

    def figures(self) -> dict[str, Any]:
        figures = self.history.figures() | self.faults.figures() | self.witness.logs.groups.happened
        if self.scenario.loses_nodes:
            figures |= self.losses.figures()
        if self.scenario.removes_brokers:
            figures |= self.removals.figures()
        if self.scenario.drains_nodes:
            figures |= self.drains.figures()
        if self.cluster.controllers:
            figures |= self.agreement.figures() | self.changes_of_voters.figures()
        return figures if self.counting is None else figures | self.counting.figures()

    def _members(self) -> list[Member]:
        return [
            Member(self.cluster, self.history, f"member-{group.name}{number}", group, number)
            for group in self.scenario.groups
            for number in range(len(group.instances))
        ]

    def run(self) -> None:
        sim = self.sim
        self.cluster.start_controller()
        if not sim.run_until(_READY_US, self.cluster.ready):
            sim.fail("progress", "the cluster does not come up")
        for client in [*self.members, *self.others]:
            sim.after(sim.random.randint(0, 1500) * MS, client.start)
        sim.run_until(sim.now + 2 * SECOND)
        self.witness.keep_watching()
        if self.counting is not None:
            self.counting.start()
        if self.scenario.drains_nodes:
            self.drains.begin()
        if self.scenario.starved:
            Starvation(self).run()
        self.faults.begin()
        sim.run_until(sim.now + self.scenario.faults_us)
        self.faults.heal()
        if self.cluster.controllers:
            self.changes_of_voters.heal()
        sim.say("-- healed")
        if self.visitor is not None:
            self.visitor.stays_away = True
        if self.lodger is not None:
            self.lodger.stays_away = True
        at_rest = self.witness.at_rest(self.members)
        if self.counting is not None:
            at_rest = self.counting.at_rest(at_rest)
        if self.cluster.controllers:
            at_rest = self.agreement.at_rest(at_rest)
        sim.run_until(sim.now + SECOND)  # the last effects of faults
        if not sim.run_until(sim.now + _HEALED_US, at_rest):
            sim.fail("progress", f"{self.witness.why} long after the last fault")
        sim.run_until(sim.now + SECOND)
        if self.counting is not None:  # a last second, in which nothing is asked any more
            self.counting.stop()
            sim.run_until(sim.now + SECOND)
        if not at_rest():
            sim.fail("progress", f"{self.witness.why}, and all was well a second ago")
        self._judge()

    def _judge(self) -> None:
        """Judge the logs, and read every group's offsets once more, at rest."""
        self.witness.judge_logs()
        if self.counting is not None:
            self.counting.judge()
        from actors.client.records import TopicPartition

        readers = [next(m for m in self.members if m.plan is g and m.running) for g in self.scenario.groups]
        for reader in [*readers, *filter(None, [self.visitor])]:
            assert reader.process is not None
            wanted = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
            task = reader.process.run(reader.read(wanted, 5_000))
            if not self.sim.run_until(self.sim.now + 10 * SECOND, task.done) or not task.result():
                self.sim.fail("progress", f"the offsets of {reader.group} cannot be read")
        self.witness.judge_unanswered()


def run(
    seed: int,
    *,
    trace: bool = False,
    bug: list[Change] | None = None,
    scenario: Scenario | None = None,
    inspect: Callable[[World], None] | None = None,
    starved: bool = False,
    guests: bool = False,
    lost: bool = False,
    removals: bool = False,
    drains: bool = False,
    twice: bool = False,
    voters: bool = False,
    power: bool = False,
) -> Outcome:
    """One run of `seed`. `bug` breaks the product: (owner, name, value) to exchange."""
    scenario = scenario or scenario_of(seed)
    if starved:
        scenario = replace(scenario, starved=True)
    if guests:
        scenario = replace(scenario, guests=True)
    if lost:
        scenario = replace(scenario, loses_nodes=True)
    if removals:
        scenario = replace(scenario, removes_brokers=True)
    if drains:
        scenario = replace(scenario, drains_nodes=True)
    if voters:
        scenario = replace(scenario, controllers=3)
    if twice:
        scenario = started_twice(scenario)
    if power:
        scenario = power_lost(scenario)
    root = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = Path(tempfile.mkdtemp(prefix="coterie-sim-", dir=root))
    sim = Simulation(seed, trace=trace)
    outcome = Outcome(seed, scenario.name, 0)
    level = logging.root.manager.disable
    logging.disable(logging.NOTSET if trace else logging.CRITICAL)
    thresholds = gc.get_threshold()
    gc.set_threshold(0)  # it runs after the run alone
    try:
        sim.network = Network(sim)
        sim.begin()
        world = World(sim, scenario, folder)
        counting = world.counting.hooks if world.counting is not None else list[Change]
        with ExitStack() as exchanged:
            losses = world.losses.hooks if scenario.loses_nodes else list[Change]
            removed = world.removals.hooks if scenario.removes_brokers else list[Change]
            drained = world.drains.hooks if scenario.drains_nodes else list[Change]
            agreed = world.agreement.hooks if scenario.controllers > 1 else list[Change]
            changed = world.changes_of_voters.hooks if scenario.controllers > 1 else list[Change]
            hooks = (world.witness.hooks, world.expulsions.hooks, counting, losses, removed, drained, agreed, changed)
            for changes in (lambda: bug or [], *hooks):
                exchanged.enter_context(_exchanged(changes()))
            try:
                world.run()
            except ViolationError as violation:
                outcome.failure = str(violation)
                if trace and violation.__cause__ is not None:
                    logging.root.error("the cause", exc_info=violation.__cause__)
            outcome.digest, outcome.figures = sim.digest, world.figures()
            if inspect is not None:
                inspect(world)
            sim.end()
            del world
            sim.discard()
            gc.collect()
    finally:
        Simulation.current = None
        gc.set_threshold(*thresholds)
        gc.enable()
        logging.disable(level)
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


@contextmanager
def _exchanged(changes: list[Change]) -> Iterator[None]:
    """Have (owner, name, value) in force for a while: planted bugs, and hooks that watch the product."""
    missing = object()
    kept = []
    try:
        for owner, name, value in changes:
            kept.append((owner, name, vars(owner).get(name, missing)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(kept):
            if value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def command(
    seed: int,
    bug: str = "",
    starved: bool = False,
    guests: bool = False,
    lost: bool = False,
    removals: bool = False,
    drains: bool = False,
    twice: bool = False,
    voters: bool = False,
    power: bool = False,
) -> str:
    """The line that repeats a run."""
    flags = {
        "--starved": starved,
        "--guests": guests,
        "--lost": lost,
        "--removals": removals,
        "--drains": drains,
        "--twice": twice,
        "--voters": voters,
        "--power": power,
    }
    chosen = "".join(f" {flag}" for flag, is_set in flags.items() if is_set)
    return f"python -m tests.sim --seed {seed}{f' --bug {bug}' if bug else ''}{chosen}"


__all__ = ["BROKERS", "OFFSETS_TOPIC", "Outcome", "World", "command", "run"]
