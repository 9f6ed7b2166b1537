"""The Ray node of each broker: the one with its data directory, and for new brokers spread over the living nodes.

A node's *home* is what it is known by when its machine, or its disk, comes back as another node of Ray's: its label
`coterie.io/node`, or else its address.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import CoterieError

RACK_LABELS = ("coterie.io/rack", "ray.io/availability-zone")
"""The labels of a Ray node that can say its rack; the first one that it has counts. The second is Ray's own."""


NODE_LABEL: Final = "coterie.io/node"
"""The label that names a node by its disk: who has a name is known by it at every address."""
_HEAD: Final = "node:__internal_head__"
_TRACE: Final = 0.001  # of the one that a node has of its own resource: a thousand actors fit
_FREE: Final = {"scheduling_strategy": "DEFAULT"}  # not set, it may be the placement group of who starts a cluster


@dataclass(frozen=True, slots=True)
class Node:
    """A living Ray node. `rack` is None if no label says one."""

    node_id: str
    address: str
    cpus: float
    rack: str | None = None
    name: str = ""
    """Its label `coterie.io/node`; empty if it has none."""
    resource: str = ""
    """Ray's resource that nodes at this address have; empty if it has none."""
    head: bool = False

    @property
    def home(self) -> str:
        """The node's name, or its address without one: its data is known by it when the node comes back."""
        return self.name or self.address


class PlacementError(CoterieError, RuntimeError):
    """Brokers cannot be placed; the text says why."""


def alive_nodes() -> list[Node]:
    """The living nodes of the Ray cluster that this process is connected to; its own node comes first."""
    here = ray.get_runtime_context().get_node_id()
    nodes = [_node(told) for told in ray.nodes() if told["Alive"]]
    return sorted(nodes, key=lambda n: (n.node_id != here, n.home, n.node_id))


def _node(told: Mapping[str, Any]) -> Node:
    address, resources, labels = told["NodeManagerAddress"], told["Resources"], told["Labels"]
    return Node(
        told["NodeID"],
        address,
        resources.get("CPU", 0.0),
        rack_of(labels),
        name=labels.get(NODE_LABEL, ""),
        resource=name if (name := f"node:{address}") in resources else "",
        head=_HEAD in resources,
    )


def staying_at(node: Node, alive: Iterable[Node]) -> dict[str, Any]:
    """Ray's options for an actor that has its data on a node: it is started there, and nowhere else.

    An actor with a node's id is gone for good when Ray knows the node no more, though another one may have its disk. So
    the id says where to run only if several nodes have the name or the address: they share one machine, or Ray has not
    seen yet that the one before is lost. That one's address need not come back, and an actor would wait for it.
    """
    others = [each for each in alive if each.node_id != node.node_id]
    if node.name:
        alone = all(each.name != node.name for each in others)
        return {**_FREE, "label_selector": {NODE_LABEL: node.name}} if alone else beside(node.node_id)
    if node.resource and all(each.resource != node.resource for each in others):
        return {**_FREE, "resources": {node.resource: _TRACE}}
    return beside(node.node_id)


def staying_here() -> dict[str, Any]:
    """The same for the node of this process."""
    here, alive = ray.get_runtime_context().get_node_id(), alive_nodes()
    own = next((node for node in alive if node.node_id == here), None)
    return beside(here) if own is None else staying_at(own, alive)


def beside(node_id: str) -> dict[str, Any]:
    """Ray's options for an actor that serves a process of this node, and is of no use once the node has gone."""
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False)}


def rack_of_node(node_id: str) -> str | None:
    """The rack of a living node of the Ray cluster that this process is connected to."""
    return next((node.rack for node in alive_nodes() if node.node_id == node_id), None)


def rack_of(labels: Mapping[str, str]) -> str | None:
    """The rack in a Ray node's labels; None if there is none, or it is empty."""
    return next((labels[name] for name in RACK_LABELS if labels.get(name)), None)


def place_brokers(
    nodes: list[Node],
    homes: Mapping[int, Node | str],
    count: int,
    *,
    may_be_away: bool = False,
    leaving: Collection[str] = (),
    removed: Collection[int] = (),
) -> dict[int, Node]:
    """A node for each broker from 0 to count-1: the one with its data, or for a new broker the least used one.

    Those that were `removed` have none, and no data either.

    Of several least used nodes it is one that is not Ray's head, then one in the least used rack; none whose id is in
    `leaving`, unless there is no other. `homes` has, by broker id, the node that had the broker's data, or its address.
    Raises PlacementError if no node has it.
    """
    if not nodes:
        raise PlacementError("the Ray cluster has no living node")
    used: Counter[str] = Counter()
    in_rack: Counter[str | None] = Counter()
    placed: dict[int, Node] = {}
    for broker_id, noted in homes.items():
        if broker_id in removed:
            continue
        home = Node("", noted, 0.0) if isinstance(noted, str) else noted
        # Several Ray nodes can share a machine, and then they share its files.
        node = min(with_disk_of(home, nodes), key=lambda n: used[n.node_id], default=None)
        if node is None:
            placed[broker_id] = _away(broker_id, home, nodes, may_be_away=may_be_away)
            continue
        placed[broker_id] = node
        used[node.node_id] += 1
        in_rack[node.rack] += 1
    new = [broker_id for broker_id in range(count) if broker_id not in placed and broker_id not in removed]
    candidates = [node for node in nodes if node.node_id not in leaving] or nodes
    return placed | dict(zip(new, _spread(candidates, len(new), used, in_rack), strict=True))


def with_disk_of(home: Node, nodes: list[Node]) -> list[Node]:
    """The nodes that have the disk of this one: those with its label, or at its address if one of them has no label.

    If several addresses have its label, only its own counts: that is a mistake, or Ray does not know yet that one is
    lost.
    """
    named = [each for each in nodes if home.name and each.name == home.name]
    if len({each.address for each in named}) > 1:
        named = [each for each in named if each.address == home.address]
    return named or [each for each in nodes if each.address == home.address and not (each.name and home.name)]


def _away(broker_id: int, home: Node, nodes: Iterable[Node], *, may_be_away: bool) -> Node:
    if may_be_away:
        return replace(home, node_id="")  # `successor` finds the one that comes back
    raise PlacementError(
        f"the data of broker {broker_id} is on Ray node {home.home}, which is not in this Ray cluster "
        f"(its nodes are {', '.join(sorted(each.home for each in nodes))}): start that node again, or move its data "
        "directory"
    )


def _spread(nodes: list[Node], count: int, used: Counter[str], in_rack: Counter[str | None]) -> list[Node]:
    """So many nodes for new brokers. Those that get equally many come in the order of `nodes`, as the brokers' ids."""
    chosen: list[tuple[int, int]] = []
    for _ in range(count):
        at, node = min(enumerate(nodes), key=lambda n: (used[n[1].node_id], n[1].head, in_rack[n[1].rack]))
        chosen.append((used[node.node_id], at))
        used[node.node_id] += 1
        in_rack[node.rack] += 1
    return [nodes[at] for _, at in sorted(chosen)]


def successor(node: Node, alive: list[Node], leaving: Collection[str] = ()) -> Node | None:
    """The node for a broker of `node`: itself while it lives, else another one with its home, which has its files.

    One that is `leaving` only if no other has them. None while there is none: the broker then waits for the machine
    with its data.
    """
    here = with_disk_of(node, alive)
    return min(here, key=lambda each: (each.node_id in leaving, each.node_id != node.node_id), default=None)
