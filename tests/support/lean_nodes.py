"""Ray's cluster of several nodes in one machine, whose nodes run nothing that the tests have no use for.

Neither log monitor, autoscaler's monitor nor dashboard; stand-ins for the agents, as in an embedded Ray. Workers start
plainly, as on all nodes that `ray start` has started, but have as much CPU as all other processes of the tests.
"""

from __future__ import annotations

import os
from typing import Any

from ray.cluster_utils import Cluster

from actors.runtime import ray_inside
from actors.runtime.fork_server import executable


class LeanNodes(Cluster):  # type: ignore[misc]
    """Nodes that are added one by one."""

    def __init__(self, **options: Any) -> None:
        folder = executable.prepare(None)
        assert folder is not None, "nothing may be executed in the folder of temporary files"
        self._executable_folder = folder
        os.environ.setdefault(ray_inside.NICENESS, "0")
        super().__init__(**options)

    def add_node(self, *arguments: Any, **options: Any) -> Any:
        with executable.lent_executable(self._executable_folder):
            return super().add_node(*arguments, **options)

    def shutdown(self) -> None:
        super().shutdown()
        executable.remove(self._executable_folder)
