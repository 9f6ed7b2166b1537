"""Clients that propose, and an operator who changes the set of voters, and replaces those whose disks are lost."""

from __future__ import annotations

import itertools

from actors.quorum.errors import ChangeRefusedError
from actors.quorum.log import VoterId, Voters
from tests.sim.quorum.node import Node
from tests.sim.quorum.world import World


class Clients:
    """Propose to whoever says that it leads."""

    def __init__(self, world: World, nodes: list[Node]) -> None:
        self._world = world
        self._nodes = nodes
        self._numbers = itertools.count(1)
        self._rest_until = 0.0
        self.steady = False

    def begin(self) -> None:
        self._world.every(0.01, 0.4, self._propose_or_rest)

    def rest(self, for_s: float) -> None:
        self._rest_until = self._world.now + for_s

    def _propose_or_rest(self) -> None:
        leading = leaders(self._nodes)
        if self._world.now < self._rest_until:
            return
        if not self.steady and self._world.random.random() < 0.02:
            self.rest(self._world.random.uniform(1, 5))
        elif leading:
            node = self._world.random.choice(leading)
            for _ in range(self._world.random.choice((1, 1, 3))):
                node.happen(lambda: self._propose(node))

    def _propose(self, node: Node) -> None:
        if node.voter.leads:
            node.voter.propose(b"%d" % next(self._numbers))
            self._world.note("proposed")


class Operator:
    """`lost`: the voters whose directories are gone. `repairs_only`: no voter is removed that could stay."""

    def __init__(self, world: World, nodes: list[Node], lost: list[str]) -> None:
        self._world = world
        self._nodes = nodes
        self._lost = lost
        self.repairs_only = not world.scenario.changes

    def begin(self) -> None:
        self._world.every(0.2, 1.5, self._act)

    def _act(self) -> None:
        leading = leaders(self._nodes)
        if not leading:
            return
        node = self._world.random.choice(leading)
        for _ in range(self._world.random.choice((1, 1, 2))):  # the second is refused, but it is worth a try
            node.happen(lambda: self._change(node))

    def elected(self, node: Node) -> None:
        """There is a new leader: sometimes it is asked at once, before it has committed anything."""
        if self._world.random.random() < 0.3:
            self._world.after(self._world.random.uniform(0, 0.1), lambda: node.happen(lambda: self._change(node)))

    def _change(self, node: Node) -> None:
        after = self._wish(node.voter.log.voters) if node.voter.leads else None
        if after is None:
            return
        try:
            node.voter.change(after, node.clock())
            self._world.note("changes")
            self._world.say(f"{node.id} changes voters to {after}")
        except ChangeRefusedError:
            self._world.note("changes_refused")

    def _wish(self, voters: Voters) -> Voters | None:
        lost = [voter for voter in voters if voter.directory in self._lost]
        if lost:
            return without(voters, lost[0])
        choices: list[Voters] = []
        new = [node.me for node in self._nodes if node.up and node.id not in {voter.id for voter in voters}]
        if new and len(voters) < self._world.scenario.nodes:
            choices.append((*voters, self._world.random.choice(new)))
        if len(voters) > 1 and not self.repairs_only:
            choices.append(without(voters, self._world.random.choice(voters)))
        return self._world.random.choice(choices) if choices else None


def leaders(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if node.up and not node.stands_still and node.voter.leads]


def without(voters: Voters, gone: VoterId) -> Voters:
    return tuple(voter for voter in voters if voter.directory != gone.directory)
