"""Which Ray node a broker runs on: spread over the living nodes, and back to where its data directory is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import ray

from actors.errors import CoterieError

RACK_LABELS = ("coterie.io/rack", "ray.io/availability-zone")
"""Labels of a Ray node that say its rack; the first one it has counts. The second is Ray's own."""


@dataclass(frozen=True, slots=True)
class Node:
    """A living Ray node. `rack` is None where no label says one."""

    node_id: str
    address: str
    cpus: float
    rack: str | None = None


class PlacementError(CoterieError, RuntimeError):
    """Brokers cannot be placed; the text says why."""


def alive_nodes() -> list[Node]:
    """The living nodes of the Ray cluster this process is connected to, this process's own node first."""
    here = ray.get_runtime_context().get_node_id()
    nodes = [
        Node(n["NodeID"], n["NodeManagerAddress"], n["Resources"].get("CPU", 0.0), rack_of(n["Labels"]))
        for n in ray.nodes()
        if n["Alive"]
    ]
    return sorted(nodes, key=lambda n: (n.node_id != here, n.address, n.node_id))


def rack_of(labels: Mapping[str, str]) -> str | None:
    """The rack that a Ray node's labels say; an empty label says none."""
    return next((labels[name] for name in RACK_LABELS if labels.get(name)), None)


def place_brokers(
    nodes: list[Node], homes: dict[int, str], count: int, *, may_be_away: bool = False
) -> dict[int, Node]:
    """A node for each broker 0 to count-1: the one at its home address if it has one, else the least used.

    Of nodes that are used alike, one in the least used rack. `homes` maps broker id to the address of the node with
    its data. Raises PlacementError if such a node is missing.
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
                f"(there are {', '.join(sorted(by_address))}): start that node again, or move its data directory"
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
    """Where a broker of `node` runs: there while it lives, else on a node under its address, which has its files.

    None while there is none: the broker waits for the machine with its data.
    """
    here = [each for each in alive if each.address == node.address]
    return next((each for each in here if each.node_id == node.node_id), here[0] if here else None)
