"""All that a driver asks of Ray: to join one, start one and leave it, and to find, ask and end the actors of clusters.

A driver's parts know `DriverRay` alone. `DriverOnRay` makes the calls; tests have a fake beside it. Errors are Ray's
own, because programs that use a `Cluster` see some of them: those that a driver tells apart have their names here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError, RayTaskError

from actors.runtime import ray_runtime
from actors.runtime.data_folder import place_of
from placement.nodes import Node, alive_nodes, staying_here

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


@dataclass(frozen=True, slots=True)
class ActorName:
    """The name by which any driver finds an actor. Actors of another namespace may have the same `name`."""

    namespace: str
    name: str


class Asked(Protocol):
    """A call of an actor's method, or a task, that is under way."""

    def answer(self, within_s: float | None = None) -> Any:
        """Wait for the answer and return it; None: for as long as it takes.

        Raises GetTimeoutError if there is none in time, RayTaskError with the method's own error, RayActorError if the
        actor's process has ended or cannot be reached (ActorDiedError: for good), and other RayErrors.
        """

    def has_come(self, within_s: float) -> bool:
        """Wait for the answer, or for an error. Returns whether there is one."""

    def call_off(self) -> None:
        """Have Ray try no longer, if it is a task."""


class FoundActor(Protocol):
    """An actor that this driver has found, or started."""

    def has(self, method: str) -> bool:
        """True if the actor has this method. Ray keeps the methods of the process that first started it."""

    def ask(self, method: str, *arguments: Any, **named: Any) -> Asked:
        """Call a method, and do not wait for it."""

    def kill(self) -> None:
        """End its process at once. Ray does not restart it."""


class DriverRay(Protocol):
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
    def node_count(self) -> int:
        """The number of nodes that Ray knows of, lost ones included."""

    def nodes(self) -> list[Node]:
        """The living nodes; this process's own one comes first."""

    def run(self, task: Callable[[], Any], options: Mapping[str, Any]) -> Asked:
        """Run a function of a module on the node that `options` name (`placement/nodes.py`)."""

    def names(self) -> list[ActorName]:
        """The names of all actors that Ray knows of."""

    def find(self, name: ActorName) -> FoundActor:
        """The actor of this name. Raises ValueError if there is none."""

    def start_here(self, actor_class: Any, name: ActorName, told: bytes) -> FoundActor:
        """Start an actor on this node, and there alone, that outlives this driver. It is `told` its arguments."""


class DriverOnRay:
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
    def node_count(self) -> int:
        """The number of nodes that Ray knows of."""
        return len(ray.nodes())

    def nodes(self) -> list[Node]:
        """The living nodes; this process's own one comes first."""
        return alive_nodes()

    def run(self, task: Callable[[], Any], options: Mapping[str, Any]) -> Asked:
        """Run a function once; if its node is lost, it is not tried again."""
        return _AskedOfRay(ray.remote(num_cpus=0, max_retries=0)(task).options(**options).remote())

    def names(self) -> list[ActorName]:
        """The names of all actors that Ray knows of."""
        return [ActorName(each["namespace"], each["name"]) for each in ray.util.list_named_actors(all_namespaces=True)]

    def find(self, name: ActorName) -> FoundActor:
        """The actor of this name. Raises ValueError if there is none."""
        return _ActorOfRay(ray.get_actor(name.name, namespace=name.namespace))

    def start_here(self, actor_class: Any, name: ActorName, told: bytes) -> FoundActor:
        """Start a detached actor on this node."""
        place = {"name": name.name, "namespace": name.namespace, "lifetime": "detached", **staying_here()}
        return _ActorOfRay(actor_class.options(**place).remote(told))


ON_RAY: Final[DriverRay] = DriverOnRay()


class _ActorOfRay:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def has(self, method: str) -> bool:
        return hasattr(self._handle, method)

    def ask(self, method: str, *arguments: Any, **named: Any) -> Asked:
        return _AskedOfRay(getattr(self._handle, method).remote(*arguments, **named))

    def kill(self) -> None:
        ray.kill(self._handle)


class _AskedOfRay:
    def __init__(self, ref: Any) -> None:
        self._ref = ref

    def answer(self, within_s: float | None = None) -> Any:
        return ray.get(self._ref, timeout=within_s)

    def has_come(self, within_s: float) -> bool:
        done, _ = ray.wait([self._ref], timeout=within_s)
        return bool(done)

    def call_off(self) -> None:
        ray.cancel(self._ref)
