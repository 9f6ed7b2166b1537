"""One run: voters under faults for a while; then all heals and they have to come to rest, and to stay so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from actors.quorum.log import Snapshot
from tests.sim.quorum.bugs import Changes
from tests.sim.quorum.faults import Faults
from tests.sim.quorum.network import Network
from tests.sim.quorum.node import Node
from tests.sim.quorum.people import Clients, Operator, leaders
from tests.sim.quorum.witness import Witness
from tests.sim.quorum.world import ViolationError, World

_HEALED_S = 60.0
"""Within this time after the last fault all is as it should be."""


@dataclass(slots=True)
class Outcome:
    """The end of a run."""

    seed: int
    digest: int
    scenario: str
    failure: str = ""
    figures: Counter[str] = field(default_factory=Counter)


class Run:
    def __init__(self, world: World) -> None:
        self.world = world
        self.network = Network(world)
        self.witness = Witness(world)
        self.nodes = [Node(world, self.network, self.witness, number) for number in range(1, world.scenario.nodes + 1)]
        self.witness.nodes = self.nodes
        self.faults = Faults(world, self.network, self.nodes)
        self.clients = Clients(world, self.nodes)
        self.operator = Operator(world, self.nodes, self.faults.lost)
        self.witness.hear_of_elections += [self.faults.elected, self.operator.elected]
        first = self.nodes[: world.scenario.voters]
        snapshot = Snapshot(voters=tuple(node.me for node in first))
        for node in self.nodes:
            if node in first:
                node.begin_with(snapshot)
            node.start()

    def run(self) -> None:
        world = self.world
        self.clients.begin()
        self.operator.begin()
        self.faults.begin()
        world.run_until(world.scenario.faults_s)
        self.faults.heal()
        self.operator.repairs_only = self.clients.steady = True
        world.say("-- healed")
        self._come_to_rest()
        self.clients.rest(10.0)  # else the one that hears no leader has too short a log to be elected
        self._hear_no_leader()
        self.clients.rest(0)
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        if not self.world.run_until(self.world.now + _HEALED_S, self._at_rest):
            self.witness.fail("progress", f"no rest long after the last fault: {self._seen()}")
        told, until = len(self.witness.told), self.world.now + 5
        if not self.world.run_until(until, lambda: len(self.witness.told) > told + 3):
            self.witness.fail("progress", "nothing commits any more")

    def _at_rest(self) -> bool:
        """All nodes are voters, and follow one leader that they confirm."""
        leading = leaders(self.nodes)
        if len(leading) != 1 or not all(node.up and not node.stands_still for node in self.nodes):
            return False
        voter, ids = leading[0].voter, {node.me for node in self.nodes}
        return (
            set(voter.log.voters) == ids
            and voter.confirms(leading[0].clock())
            and all(node.voter.leader == voter.me for node in self.nodes)
            and all(voter.committed - node.applied < 20 for node in self.nodes)
        )

    def _seen(self) -> str:
        return "; ".join(
            f"{node.me.directory} {'up' if node.up else 'down'} epoch {node.voter.epoch} {node.voter.log.end} "
            f"committed {node.voter.committed} voters {[v.directory for v in node.voter.log.voters]}"
            for node in self.nodes
        )

    def _hear_no_leader(self) -> None:
        """One voter hears all others but not the leader: that ends no epoch."""
        leader = leaders(self.nodes)[0]
        others = [node for node in self.nodes if node is not leader]
        if len(others) < 2:
            return
        epoch = leader.voter.epoch
        self.network.cut([(leader.id, self.world.random.choice(others).id)], 6.0)
        self.world.run_until(self.world.now + 6.0)
        if leader.voter.epoch != epoch or not leader.voter.leads:
            self.witness.fail("undisturbed", f"epoch {epoch} has ended, though most voters have heard its leader")


def run(seed: int, *, trace: bool = False, bug: Changes | None = None) -> Outcome:
    """One run of `seed`. `bug` breaks the product: (owner, name, value) to exchange."""
    world = World(seed, trace=trace)
    outcome = Outcome(seed, 0, f"{world.scenario.voters} voters of {world.scenario.nodes} nodes")
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, value in bug or []:
            patch.setattr(owner, name, value)
        try:
            Run(world).run()
        except ViolationError as violation:
            outcome.failure = str(violation)
    outcome.digest, outcome.figures = world.digest, world.figures
    return outcome


def command(seed: int, bug: str = "") -> str:
    """The line that repeats a run."""
    return f"python -m tests.sim --quorum --seed {seed}{f' --bug {bug}' if bug else ''}"
