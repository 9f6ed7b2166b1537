"""OffsetsPartition: the Ray actor that hosts one partition of a coordinator's topic, such as an offsets partition.

It has no files: what has committed is in the broker's log. When it dies, the broker answers its open requests and gives
the partition to another process, which loads the log. Ray never restarts it (max_restarts=0).
"""

from __future__ import annotations

import logging
import os

import ray

from actors.links.versions import check_starter
from actors.offsets_partition.spec import ShardStart
from actors.runtime import priority
from actors.runtime.private import keep_private
from actors.runtime.process import code_version, log_to, run_in_main_thread, settle_memory

log = logging.getLogger(__name__)


async def _serve(socket_path: str, name: str, _: str = "") -> None:  # shells of before versions say their starter's
    from actors.offsets_partition.process import ShardProcess  # not in the driver, which would start later

    await ShardProcess(socket_path, name, code_version()).run()


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=0)
class OffsetsPartition:
    """A process that offers itself to a broker, and becomes what it is told to be. `told` is a ShardStart."""

    def __init__(self, told: bytes) -> None:
        keep_private()
        start = ShardStart.decoded(told)
        check_starter(start.starter)
        priority.ask(start.niceness)
        log_to(start.logs, f"shards-of-{start.broker_id}", role="shard", broker=start.broker_id)
        settle_memory()
        self._start = start

    def serve(self) -> None:
        """Serve until no broker needs it, or none is left. Then the process ends, so this never returns."""
        try:
            run_in_main_thread(_serve(self._start.socket_path, self._start.name))
        except BaseException:  # whatever it is: nobody would hear of a process that lives on and does not serve
            log.exception("a shard process ends by an error")
            os._exit(1)
        ray.actor.exit_actor()  # it tells Ray that this is no death
