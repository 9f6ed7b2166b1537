"""A driver's way to the Ray of its cluster: it joins or starts one, and brings pools back once the cluster serves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.controller.driver_ray import DriverRay, FoundActor, RayError
from actors.controller.securing import PROPERTIES
from actors.members.deployment import names as pools
from actors.runtime.data_folder import place_of
from actors.runtime.ray_runtime import ClusterError, allow_arrow

if TYPE_CHECKING:
    from actors.members.deployment.at_home import Homecoming

WARM = (
    "actors.broker.server",
    "actors.controller.node",
    "actors.offsets_partition.process",
    "actors.members.pools.handler_member",
    "actors.members.ranges.member",
    "placement.nodes",
)
"""The modules that the processes of a cluster import; not the actors themselves, see fork_server."""
_ANSWER_SECONDS: Final = 10.0


def bring_pools_back(controller: FoundActor, bootstrap_servers: str, folder: Path) -> Homecoming | None:
    """Have the pools that were deployed on this cluster's Ray begin again, while the caller goes on."""
    with contextlib.suppress(RayError):
        if controller.ask("has_topic", pools.TOPIC).answer(_ANSWER_SECONDS):
            allow_arrow()
            from actors.members.deployment.at_home import Homecoming  # most clusters have no pools

            return Homecoming(bootstrap_servers, place_of(folder) / PROPERTIES)
    return None


def close_pools(ray: DriverRay, cluster_id: Callable[[], str]) -> None:
    """Have the members of the pools that were deployed here finish; their supervisors end with the cluster."""
    # The pools that are left end with their Ray, or wait for the brokers.
    with contextlib.suppress(RayError, ClusterError):
        if any(actor.namespace == pools.NAMESPACE for actor in ray.names()):
            from actors.members.deployment.supervisor_actor import close_all  # most clusters have no pools

            close_all(cluster_id())


def joined(
    ray: DriverRay,
    ray_address: str | None,
    folder: Path | None,
    *,
    may_start: bool = False,
    warm: Sequence[str] | None = None,
) -> bool:
    """Join a Ray, or `may_start` one for the cluster in `folder`. Returns whether to leave it later.

    `warm`: see start_embedded.
    """
    if ray_address is not None or folder is None or not may_start or ray.is_connected:
        return ray.join(ray_address, folder)
    ray.start_embedded(folder, warm)
    return True
