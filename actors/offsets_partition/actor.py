"""OffsetsPartition: the Ray actor that hosts one `__consumer_offsets` partition's coordinator shard.

It holds state only, no files: what is committed stands in the broker's log. When it dies, the broker answers for it
and has the controller start another, which loads the log again; Ray never restarts it (max_restarts=0).
"""

from __future__ import annotations

import os

import ray
import uvloop

from actors.offsets_partition.process import ShardProcess
from actors.runtime.process import check_code_version, log_to, settle_memory


async def _serve(socket_path: str, version: str) -> None:
    try:
        await ShardProcess(socket_path, version).run()
    finally:
        os._exit(0)  # no broker is left to serve


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=0)
class OffsetsPartition:
    """A process that offers itself to the broker at `socket_path` and becomes the partition it is told to be."""

    def __init__(self, socket_path: str, log_dir: str, name: str, version: str) -> None:
        check_code_version(version)
        log_to(log_dir, name)
        settle_memory()
        self._socket_path = socket_path
        self._version = version

    def started(self) -> None:
        """Answered once the process runs."""

    def serve(self) -> None:
        """Serve until no broker is left; that ends the process, so nobody sees this return.

        It keeps the main thread, which Ray otherwise wakes a hundred times a second to look for signals: that is most
        of what an idle process costs. Nothing that is called after it is heard.
        """
        uvloop.run(_serve(self._socket_path, self._version))
