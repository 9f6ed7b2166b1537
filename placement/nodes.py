"""The Ray node of each broker: the one with its data directory, and for new brokers spread over the living nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import ray

from actors import CoterieError

RACK_LABELS = ("coterie.io/rack", "ray.io/availability-zone")
"""The labels of a Ray node that can say its rack; the first one that it has counts. The second is Ray's own."""


@dataclass(frozen=True, slots=True)
class Node:
    """A living Ray node. `rack` is None if no label says one."""

    node_id: str
    address: str
    cpus: float
    rack: str | None = None


class PlacementError(CoterieError, RuntimeError):
    """Brokers cannot be placed; the text says why."""


def alive_nodes() -> list[Node]:
    """The living nodes of the Ray cluster that this process is connected to; its own node comes first."""
    here = ray.get_runtime_context().get_node_id()
    nodes = [
        Node(n["NodeID"], n["NodeManagerAddress"], n["Resources"].get("CPU", 0.0), rack_of(n["Labels"]))
        for n in ray.nodes()
        if n["Alive"]
    ]
    return sorted(nodes, key=lambda n: (n.node_id != here, n.address, n.node_id))


def rack_of_node(node_id: str) -> str | None:
    """The rack of a living node of the Ray cluster that this process is connected to."""
    return next((node.rack for node in alive_nodes() if node.node_id == node_id), None)


def rack_of(labels: Mapping[str, str]) -> str | None:
    """The rack in a Ray node's labels; None if there is none, or it is empty."""
    return next((labels[name] for name in RACK_LABELS if labels.get(name)), None)


def place_brokers(
    nodes: list[Node], homes: dict[int, str], count: int, *, may_be_away: bool = False
) -> dict[int, Node]:
    """A node for each broker from 0 to count-1: the one with its data, or for a new broker the least used one.

    Of several least used nodes it is one in the least used rack. `homes` has, by broker id, the address of the node
    with the broker's data. Raises PlacementError if that node is missing.
    """
    if not nodes:
        raise PlacementError("the Ray cluster has no living node")
    by_address: dict[str, list[Node]] = {}
    for node in nodes:
        by_address.setdefault(node.address, []).append(node)
    used: Counter[str] = Counter()
    in_rack: Counter[str | None] = Counter()
    placed: dict[int, Node] = {}
    for broker_id, address in homes.items():
        if address not in by_address:
            if may_be_away:
                placed[broker_id] = Node("", address, 0.0)  # `successor` finds the one that comes back
                continue
            raise PlacementError(
                f"the data of broker {broker_id} is on Ray node {address}, which is not in this Ray cluster "
                f"(its nodes are {', '.join(sorted(by_address))}): start that node again, or move its data directory"
            )
        # Several Ray nodes can share a machine, and then they share its files.
        node = placed[broker_id] = min(by_address[address], key=lambda n: used[n.node_id])
        used[node.node_id] += 1
        in_rack[node.rack] += 1
    for broker_id in range(count):
        if broker_id not in placed:
            node = placed[broker_id] = min(nodes, key=lambda n: (used[n.node_id], in_rack[n.rack]))
            used[node.node_id] += 1
            in_rack[node.rack] += 1
    return placed


def successor(node: Node, alive: list[Node]) -> Node | None:
    """The node for a broker of `node`: itself while it lives, else one with the same address, which has its files.

    None while there is none: the broker then waits for the machine with its data.
    """
    here = [each for each in alive if each.address == node.address]
    return next((each for each in here if each.node_id == node.node_id), here[0] if here else None)
