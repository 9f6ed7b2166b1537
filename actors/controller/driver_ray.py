"""All that a driver asks of Ray: to join one, start one and leave it, and to find, ask and end the actors of clusters.

A driver's parts know `DriverRay` alone. `DriverOnRay` makes the calls; tests have a fake beside it. Errors are Ray's
own, because programs that use a `Cluster` see some of them: those that a driver tells apart have their names here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError, RayTaskError

from actors.runtime import ray_runtime
from actors.runtime.data_folder import place_of
from actors.runtime.named_actors import ActorName, Asked, AskedOfRay, FoundActor, FoundOnRay, NamedActors, NamedOnRay
from actors.runtime.ray_connection import asks_for_token
from placement.nodes import Node, alive_nodes, staying_at, staying_here

__all__ = [
    "ON_RAY",
    "ActorDiedError",
    "ActorName",
    "Asked",
    "DriverOnRay",
    "DriverRay",
    "FoundActor",
    "GetTimeoutError",
    "RayActorError",
    "RayError",
    "RayTaskError",
]

_OBJECT_STORE_BYTES: Final = 80 << 20


class DriverRay(NamedActors, Protocol):
    """The Ray of a driver's process. All but the first four members need one that it is connected to."""

    @property
    def is_connected(self) -> bool:
        """True if this process is connected to a Ray."""

    def join(self, ray_address: str | None, folder: Path | None) -> bool:
        """Connect to the Ray at an address, or to the embedded one of the cluster in `folder`.

        Returns whether to leave it later: a process that is connected already stays so. Raises ClusterError.
        """

    def start_embedded(self, folder: Path, warm: Sequence[str] | None) -> None:
        """Start a Ray for the cluster in `folder`, which ends when it is left. Raises ClusterError.

        `warm` are modules that its workers have imported before they start (runtime/fork_server); None: no forks.
        """

    def leave(self) -> None:
        """Leave Ray. One that this process has started ends."""

    @property
    def address(self) -> str:
        """The address of the GCS, HOST:PORT."""

    @property
    def asks_for_token(self) -> bool:
        """True if this Ray lets in only who has its token."""

    @property
    def node_count(self) -> int:
        """The number of nodes that Ray knows of, lost ones included."""

    def nodes(self) -> list[Node]:
        """The living nodes; this process's own one comes first."""

    def run(self, task: Callable[..., Any], options: Mapping[str, Any], *arguments: Any) -> Asked:
        """Run a function of a module on the node that `options` name (`placement/nodes.py`)."""

    def start_here(self, actor_class: Any, name: ActorName, told: bytes) -> FoundActor:
        """Start an actor on this node, and there alone, that outlives this driver. It is `told` its arguments."""

    def start_at(self, node: Node, actor_class: Any, name: ActorName, told: bytes) -> FoundActor:
        """The same on another node."""


class DriverOnRay(NamedOnRay):
    """The Ray that this process is connected to, or will be. It has no state of its own."""

    @property
    def is_connected(self) -> bool:
        """True if this process is connected to a Ray."""
        return bool(ray.is_initialized())

    def join(self, ray_address: str | None, folder: Path | None) -> bool:
        """Connect to a Ray that runs. Raises ClusterError."""
        return ray_runtime.join(ray_address, folder)

    def start_embedded(self, folder: Path, warm: Sequence[str] | None) -> None:
        """Start a Ray for the cluster in `folder`. Raises ClusterError."""
        ray_runtime.start_embedded(
            place_of(folder) / ray_runtime.TOKEN_FILE,
            words=folder / "logs" / ray_runtime.RAY_LOG,
            warm=warm,
            log=folder / "logs" / "starts.log",
            object_store_memory=_OBJECT_STORE_BYTES,
        )

    def leave(self) -> None:
        """Leave Ray."""
        ray_runtime.end()

    @property
    def address(self) -> str:
        """The address of the GCS."""
        return str(ray.get_runtime_context().gcs_address)

    @property
    def asks_for_token(self) -> bool:
        """True if this Ray asks for a token."""
        return asks_for_token()

    @property
    def node_count(self) -> int:
        """The number of nodes that Ray knows of."""
        return len(ray.nodes())

    def nodes(self) -> list[Node]:
        """The living nodes; this process's own one comes first."""
        return alive_nodes()

    def run(self, task: Callable[..., Any], options: Mapping[str, Any], *arguments: Any) -> Asked:
        """Run a function once; if its node is lost, it is not tried again."""
        return AskedOfRay(ray.remote(num_cpus=0, max_retries=0)(task).options(**options).remote(*arguments))

    def start_here(self, actor_class: Any, name: ActorName, told: bytes) -> FoundActor:
        """Start a detached actor on this node."""
        return _detached(actor_class, name, told, staying_here())

    def start_at(self, node: Node, actor_class: Any, name: ActorName, told: bytes) -> FoundActor:
        """Start a detached actor on a node."""
        return _detached(actor_class, name, told, staying_at(node, alive_nodes()))


def _detached(actor_class: Any, name: ActorName, told: bytes, place: Mapping[str, Any]) -> FoundActor:
    options = {"name": name.name, "namespace": name.namespace, "lifetime": "detached", **place}
    return FoundOnRay(actor_class.options(**options).remote(told))


ON_RAY: Final[DriverRay] = DriverOnRay()
