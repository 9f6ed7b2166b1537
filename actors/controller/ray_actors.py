"""All that a controller asks of Ray: the actors of its cluster, by their names, and the nodes that they are on.

The controller knows `RayActors` alone. `ActorsOnRay` makes the calls; tests have a fake beside it. An actor is known
by its name, and so each of several controllers finds the actors that another one has started. Names of brokers and
shards are never used again: a process that has ended is not taken for its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Protocol

import ray

from actors.broker.actor import Broker
from actors.monitor.actor import Monitor
from actors.offsets_partition.actor import OffsetsPartition
from actors.runtime.ray_connection import asks_for_token
from actors.runtime.ray_nodes import told_draining_nodes
from placement.nodes import Node, alive_nodes


class Role(Enum):
    """A kind of process that a controller starts."""

    BROKER = Broker
    SHARD = OffsetsPartition
    MONITOR = Monitor


class RayActors(Protocol):
    """The actors and nodes of one cluster. Calls may take long, and raise Ray's errors if it is away or busy."""

    @property
    def node_id(self) -> str:
        """The id of this process's own node."""

    @property
    def address(self) -> str:
        """The address of this process's own node."""

    def start(
        self,
        role: Role,
        name: str,
        told: bytes,
        options: Mapping[str, Any],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Start a process that outlives this one; it is `told` its arguments, in the bytes of its own codec.

        `options` say where (`placement/nodes.py`). Ray calls `ended` in a thread of its own once the process has ended,
        with the error that ended it, or could not be started. `ended` calls nothing of Ray's, nor waits.
        """

    def kill(self, name: str) -> None:
        """End a process at once. Does nothing if there is none of this name."""

    def ask(self, name: str, method: str, *arguments: Any, within_s: float) -> Any:
        """The answer of another of the cluster's actors. Raises ValueError if there is none of this name."""

    def names(self) -> list[str]:
        """The names of the cluster's actors that Ray knows of, whoever has started them."""

    def nodes(self) -> list[Node]:
        """The living nodes; this process's own one comes first."""

    def draining(self) -> Mapping[str, int] | None:
        """The ids of nodes that are drained, and the end of their time (Unix ms; 0: not known).

        None if Ray does not tell.
        """

    def asks_for_token(self) -> bool:
        """True if this Ray asks for a token: an actor has the environment of its raylet, a driver has its own."""


def was_restarted() -> bool:
    """True if Ray has started this actor's process because the one before it died."""
    return bool(ray.get_runtime_context().was_current_actor_reconstructed)


class ActorsOnRay:
    """Those of the Ray that this process, an actor itself, belongs to. `namespace` is the cluster's own."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._started: dict[str, Any] = {}  # Ray's handles of processes that have not ended

    @property
    def node_id(self) -> str:
        """The id of this process's own node."""
        return str(ray.get_runtime_context().get_node_id())

    @property
    def address(self) -> str:
        """The address of this process's own node."""
        return str(ray.util.get_node_ip_address())

    def start(
        self,
        role: Role,
        name: str,
        told: bytes,
        options: Mapping[str, Any],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Start a detached actor, whose method `serve` lasts as long as its process."""
        place = {"name": name, "namespace": self._namespace, "lifetime": "detached", **options}
        actor: Any = role.value.options(**place).remote(told)
        self._started[name] = actor

        def over(future: Any) -> None:
            if self._started.get(name) is actor:  # the Monitor's name is used again
                del self._started[name]
            ended(future.exception())

        actor.serve.remote().future().add_done_callback(over)

    def kill(self, name: str) -> None:
        """End a process at once. Does nothing if there is none of this name."""
        with suppress(ValueError):  # Ray knows of none
            ray.kill(self._started.get(name) or ray.get_actor(name, namespace=self._namespace))

    def ask(self, name: str, method: str, *arguments: Any, within_s: float) -> Any:
        """The answer of another of the cluster's actors."""
        actor = ray.get_actor(name, namespace=self._namespace)
        return ray.get(getattr(actor, method).remote(*arguments), timeout=within_s)

    def names(self) -> list[str]:
        """The names of the cluster's actors that Ray knows of."""
        found = ray.util.list_named_actors(all_namespaces=True)
        return sorted(each["name"] for each in found if each["namespace"] == self._namespace)

    def nodes(self) -> list[Node]:
        """The living nodes; this process's own one comes first."""
        return alive_nodes()

    def draining(self) -> Mapping[str, int] | None:
        """The nodes that are drained; None where Ray does not tell."""
        return told_draining_nodes()

    def asks_for_token(self) -> bool:
        """True if this Ray asks for a token."""
        return asks_for_token()
