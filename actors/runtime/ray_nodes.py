"""Ray's nodes that are about to be taken away.

A node is drained by Ray's autoscaler, before a cloud takes it back; by `ray start --block` when it is sent a SIGTERM,
as Kubernetes does; and by `ray drain-node`. Ray places nothing there any more, and when the time is up, ends what is
there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

import ray

from actors.runtime import ray_inside
from actors.runtime.process import last_line
from actors.runtime.ray_session import RayAwayError, session

log = logging.getLogger(__name__)


def draining_nodes() -> dict[str, int]:
    """The ids of nodes that are drained, and the end of their time (Unix milliseconds; 0: not known).

    If Ray does not tell, because it is another Ray than we know, or does not answer now, no node is.
    """
    return told_draining_nodes() or {}


def told_draining_nodes() -> dict[str, int] | None:
    """The same; None where Ray does not tell."""
    try:
        return session().call(ray_inside.draining_nodes)
    except Exception as error:  # it is nobody's promise what a private call raises, or that it is there
        log.debug("Ray does not say which nodes are drained: %s", last_line(error))
        return None


def is_left(node_id: str) -> bool:
    """True if a node is drained, and there is another one to go to."""
    leaving = draining_nodes()
    return node_id in leaving and has_others(leaving)


def has_others(nodes: Collection[str]) -> bool:
    """True if a node lives that is none of these. Where Ray is away, none does."""
    try:
        found = session().call(ray.nodes)
    except RayAwayError:
        return False
    return any(node["Alive"] and node["NodeID"] not in nodes for node in found)
