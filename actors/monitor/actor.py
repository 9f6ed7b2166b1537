"""Monitor: the Ray actor around a MonitorServer.

Its history on disk survives it. Only the controller starts it (max_restarts=0), again and again if it dies: Ray would
start its process, but not call `serve`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import ray

from actors.links.secret import Secrets, read_secrets
from actors.links.versions import check_starter
from actors.monitor.spec import MonitorSpec, MonitorStart
from actors.runtime.controllers import AnyController
from actors.runtime.private import keep_private, leave_no_core
from actors.runtime.process import last_line, log_to, run_in_main_thread, settle_memory
from actors.settings import BrokerConfig

if TYPE_CHECKING:
    from actors.monitor.work import Bridge

_ASK_SECONDS = 5
_NICENESS = 10
"""Brokers and shards come first: a scrape of a thousand groups takes most of a second of a core."""


async def _serve(spec: MonitorSpec) -> None:
    from actors.monitor.server import MonitorServer  # not in the controller, which imports this class

    controllers = AnyController(spec.namespace)
    server = await MonitorServer.open(spec, lambda: _find_controller(spec, controllers), bridges=_bridges(spec))
    await server.run()


def _bridges(spec: MonitorSpec) -> list[Bridge]:
    """The others that are told after each look."""
    if not BrokerConfig.from_mapping(spec.config).boolean("coterie.metrics.ray"):
        return []
    from actors.monitor.ray_bridge import RayBridge  # few want it

    return [RayBridge(spec.name)]


def _find_controller(spec: MonitorSpec, controllers: AnyController) -> tuple[str, int, Secrets]:
    try:
        (host, port, _), _ = controllers.ask("join_info", within_s=_ASK_SECONDS)
        return host, port, read_secrets(Path(spec.secret_file))
    except (ValueError, ray.exceptions.RayError) as error:
        raise ConnectionError(last_line(error)) from error


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=0)
class Monitor:
    """The one Monitor of a cluster, called `monitor` in the cluster's namespace. `told` is a MonitorStart."""

    def __init__(self, told: bytes) -> None:
        keep_private()
        start = MonitorStart.decoded(told)
        check_starter(start.starter)
        spec = start.spec
        if not BrokerConfig.from_mapping(spec.config).boolean("coterie.debug.core"):
            leave_no_core()
        log_to(start.logs, "monitor", role="monitor")
        settle_memory()
        os.nice(_NICENESS)
        self._spec = spec

    def serve(self) -> None:
        """Look and answer until there is no controller; then the process ends. Ray calls no other method meanwhile."""
        run_in_main_thread(_serve(self._spec))
        ray.actor.exit_actor()
