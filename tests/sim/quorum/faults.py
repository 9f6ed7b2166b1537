"""Faults: processes die and stand still, disks are slow or lost for good, links are cut one way."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.quorum.network import Network
from tests.sim.quorum.node import Node
from tests.sim.quorum.people import leaders
from tests.sim.quorum.world import World


class Faults:
    """`lost` are the directories that are gone. No possible set of voters loses more than a minority."""

    def __init__(self, world: World, network: Network, nodes: list[Node]) -> None:
        self._world = world
        self._network = network
        self._nodes = nodes
        self.lost: list[str] = []
        self._healed = False
        self._kinds: list[Callable[[], None]] = [
            *(self._crash, self._crash, self._crash_all, self._lose_disk, self._stand_still, self._stand_still),
            *(self._cut_one_way, self._cut_one_way, self._cut_off, self._part, self._slow_disk),
        ]

    def begin(self) -> None:
        between = self._world.scenario.between_faults_s
        self._world.every(between / 4, between * 2, self._one)

    def heal(self) -> None:
        self._healed = True
        self._network.heal()
        for node in self._nodes:
            node.slow_until = 0.0
            if not node.up:
                node.start()

    def _one(self) -> None:
        if not self._healed:
            kind = self._world.random.choice(self._kinds)
            self._world.note(kind.__name__.strip("_"))
            kind()

    def elected(self, leader: Node) -> None:
        """Perhaps cut a new leader off, and end some of its voters, in the turns in which it begins."""
        random = self._world.random
        if self._healed or random.random() >= self._world.scenario.ambushes:
            return
        self._world.note("ambushes")
        others = [node for node in self._nodes if node is not leader]
        if random.random() < 0.8:
            away = [(leader.id, node.id) for node in others if random.random() < 0.8]
            cut = [*away, *((there, here) for here, there in away)]
            soon = random.choice((0.0, random.uniform(0, 0.1), random.uniform(0, 0.4)))
            self._world.after(soon, lambda: self._network.cut(cut, random.uniform(1, 5)))
        for node in [*others, leader]:
            if random.random() < 0.15:
                self._end_soon(node)

    def _end_soon(self, node: Node) -> None:
        random = self._world.random
        self._world.after(random.uniform(0, 0.2), lambda: self._end(node, random.uniform(0.05, 2)))

    def _any(self) -> Node:
        """Any node, and rather often one that leads."""
        leading = leaders(self._nodes)
        if leading and self._world.random.random() < 0.4:
            return self._world.random.choice(leading)
        return self._world.random.choice(self._nodes)

    def _for_s(self) -> float:
        return self._world.random.choice((0.1, 0.5, 1.5, 3.0, 6.0)) * self._world.random.uniform(0.5, 1.5)

    def _crash(self) -> None:
        self._end(self._any(), self._for_s())

    def _crash_all(self) -> None:
        for node in self._nodes:
            self._end(node, self._for_s() / 2)

    def _end(self, node: Node, for_s: float) -> None:
        node.crash()
        self._world.after(for_s, lambda: self._start(node))

    def _start(self, node: Node) -> None:
        if not node.up:
            node.start()

    def _lose_disk(self) -> None:
        node = self._any()
        if not self._may_be_lost(node.disk.directory):
            return
        self._world.note("disks_lost")
        self._end(node, self._for_s())
        self.lost.append(node.disk.directory)
        node.empty_disk()

    def _may_be_lost(self, directory: str) -> bool:
        lost = {*self.lost, directory}
        sets = [voters for node in self._nodes for voters in node.journal.log.sets_of_voters if voters]
        return all(2 * sum(voter.directory in lost for voter in voters) < len(voters) for voters in sets)

    def _stand_still(self) -> None:
        self._any().stand_still(self._for_s())

    def _slow_disk(self) -> None:
        self._any().slow_until = self._world.now + self._for_s() * 2

    def _cut_one_way(self) -> None:
        one, other = self._any().id, self._any().id
        self._network.cut([(one, other)], self._for_s() * 2)

    def _cut_off(self) -> None:
        node = self._any().id
        others = [each.id for each in self._nodes if each.id != node]
        hears, is_heard = self._world.random.choice(((False, False), (True, False), (False, True)))
        to, back = [(node, each) for each in others], [(each, node) for each in others]
        self._network.cut([*([] if is_heard else to), *([] if hears else back)], self._for_s() * 2)

    def _part(self) -> None:
        some = {node.id for node in self._nodes if self._world.random.random() < 0.5}
        across = [(a.id, b.id) for a in self._nodes for b in self._nodes if (a.id in some) != (b.id in some)]
        self._network.cut(across, self._for_s() * 2)
