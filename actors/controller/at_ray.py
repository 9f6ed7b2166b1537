"""A driver's way to the Ray of its cluster: it joins or starts one, and brings pools back once the cluster serves."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from actors.controller.securing import PROPERTIES
from actors.members.deployment import names as pools
from actors.runtime import ray_runtime
from actors.runtime.data_folder import place_of

if TYPE_CHECKING:
    from actors.members.deployment.at_home import Homecoming

_OBJECT_STORE_BYTES = 80 << 20
WARM = (
    "actors.broker.server",
    "actors.controller.node",
    "actors.offsets_partition.process",
    "actors.members.pools.handler_member",
    "actors.members.ranges.member",
    "placement.nodes",
)
"""The modules that the processes of a cluster import; not the actors themselves, see fork_server."""


def bring_pools_back(controller: Any, bootstrap_servers: str, folder: Path) -> Homecoming | None:
    """Have the pools that were deployed on this cluster's Ray begin again, while the caller goes on."""
    with contextlib.suppress(ray.exceptions.RayError):
        if ray.get(controller.has_topic.remote(pools.TOPIC), timeout=10):
            ray_runtime.allow_arrow()
            from actors.members.deployment.at_home import Homecoming  # most clusters have no pools

            return Homecoming(bootstrap_servers, place_of(folder) / PROPERTIES)
    return None


def joined(
    ray_address: str | None, folder: Path | None, *, may_start: bool = False, warm: Sequence[str] | None = None
) -> bool:
    """Join a Ray, or `may_start` one for the cluster in `folder`. Returns whether to leave it later.

    `warm`: see start_embedded.
    """
    if ray_address is not None or folder is None or not may_start or ray.is_initialized():
        return ray_runtime.join(ray_address, folder)
    ray_runtime.start_embedded(
        place_of(folder) / ray_runtime.TOKEN_FILE,
        words=folder / "logs" / ray_runtime.RAY_LOG,
        warm=warm,
        log=folder / "logs" / "starts.log",
        object_store_memory=_OBJECT_STORE_BYTES,
    )
    return True
