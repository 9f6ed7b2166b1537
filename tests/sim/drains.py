"""Ray nodes that are drained, and drains that are taken back, while all else befalls the cluster. Invariant:

drained-leads       once the controller knows of a drain, no broker on a drained node leads a partition that another
                    broker could lead, one in sync and registered with this controller; unless all living brokers are
                    on drained nodes
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from actors.controller.broker_changes import BrokerChanges
from actors.controller.decisions.pairs import led_together
from actors.controller.draining import Draining
from placement.metadata import NO_LEADER, ClusterMetadata
from tests.sim.engine import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.run import World

_LOOK_US = SECOND


class Drains:
    """Stands in for Ray and the thread that asks it, and watches."""

    def __init__(self, world: World) -> None:
        self.sim = world.sim
        self.cluster = world.cluster
        self._nodes: dict[str, int] = {}
        self._refused = False
        self.led_elsewhere = 0

    def begin(self) -> None:
        """Tell the controller of drained nodes once a second, from now on."""
        server, process = self.cluster.controller, self.cluster.controller_process
        if server is not None and process is not None and process.alive:
            self.sim.at(self.sim.now, process, server.draining.told, dict(self._nodes))
        self.sim.after(_LOOK_US, self.begin)

    def node_is_drained(self) -> bool:
        """Drain the node of a broker, whether the broker lives, is dead or stands still."""
        node = self.cluster.node_of(self.sim.random.choice(self.cluster.present).id)
        if node in self._nodes:
            return False
        self._nodes[node] = 0
        self.sim.say(f"{node} is drained")
        self.sim.after(self.sim.random.randint(500, 6_000) * MS, self._taken_back, node)
        return True

    def _taken_back(self, node: str) -> None:
        if self._nodes.pop(node, None) is not None:
            self.sim.say(f"{node} is drained no more")

    def heal(self) -> None:
        self._nodes.clear()

    def figures(self) -> dict[str, int]:
        return {"led_elsewhere": self.led_elsewhere}

    # -- invariants

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """The functions of the product that are exchanged for the length of the run."""
        return [
            (BrokerChanges, "drained_led_elsewhere", self._watch_changes(BrokerChanges.drained_led_elsewhere)),
            (Draining, "told", self._watch_told(Draining.told)),
        ]

    def _watch_changes(self, product: Any) -> Any:
        def drained(changes: BrokerChanges, present: Collection[int]) -> Any:
            server = self.cluster.controller
            assert server is not None
            before = server.decided.version
            made = product(changes, present)
            self._refused = made is None  # the disk takes nothing
            self.led_elsewhere += server.decided.version > before
            return made

        return drained

    def _watch_told(self, product: Any) -> Any:
        def told(draining: Draining, nodes: Mapping[str, int]) -> None:
            self._refused = False
            product(draining, nodes)
            server = self.cluster.controller
            if nodes and not self._refused and server is not None:
                self._judge(server.decided, nodes, server.brokers.keys())

        return told

    def _judge(self, metadata: ClusterMetadata, nodes: Mapping[str, int], present: Collection[int]) -> None:
        there = {broker_id for broker_id in metadata.brokers if self.cluster.node_of(broker_id) in nodes}
        able = {broker.id for broker in metadata.alive()}.intersection(present) - there
        for topic in metadata.topics.values():
            for index, partition in enumerate(topic.partitions):
                together = map(metadata.partition, *zip(*led_together(metadata, (topic.name, index)), strict=True))
                in_sync = [each.isr for each in together if each is not None and each.leader != NO_LEADER]
                if partition.leader in there and able.intersection(*in_sync):
                    self.sim.fail(
                        "drained-leads", f"{topic.name}-{index} is {partition}, and {sorted(nodes)} are drained"
                    )
