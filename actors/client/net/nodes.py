"""The choice of a broker where any of them can answer: a pure function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.client.errors import IllegalStateError


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """The facts about a node that the choice needs."""

    id: int
    ready: bool = False
    connecting: bool = False
    connectable: bool = False
    in_flight: int = 0
    last_attempt_ms: int = 0


def least_loaded(nodes: Sequence[NodeLoad], start: int) -> int | None:
    """The id of the node to use, None if no node is usable now.

    One walk from index `start` (random, so that not everybody asks the first): a ready node with nothing in flight
    wins at once, then the ready one with the fewest requests in flight, then one being connected, then the one that
    may be connected and was tried longest ago. Raises IllegalStateError if no nodes are known at all.
    """
    if not nodes:
        raise IllegalStateError("no nodes are known; bootstrap_servers is empty")
    ready: NodeLoad | None = None
    connecting: NodeLoad | None = None
    connectable: NodeLoad | None = None
    for i in range(len(nodes)):
        node = nodes[(start + i) % len(nodes)]
        if node.ready:
            if node.in_flight == 0:
                return node.id
            if ready is None or node.in_flight < ready.in_flight:
                ready = node
        elif node.connecting:
            connecting = node
        elif node.connectable and (connectable is None or node.last_attempt_ms < connectable.last_attempt_ms):
            connectable = node
    best = ready or connecting or connectable
    return best.id if best else None
