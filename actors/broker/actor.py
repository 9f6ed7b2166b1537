"""Broker: the Ray actor around a BrokerServer.

Its data directory survives it, and is locked while it lives. Only the controller starts brokers (max_restarts=0), each
time with a new epoch; it asks them over its link to them (`links/control`), and has them stop by it.
"""

from __future__ import annotations

from collections.abc import Callable

import ray

from actors.broker.spec import BrokerSpec
from actors.runtime.private import keep_private
from actors.runtime.process import check_code_version, log_to, run_in_main_thread, settle_memory


async def _serve(spec: BrokerSpec, find_controller: Callable[[], tuple[str, int, bytes]]) -> None:
    from actors.broker.server import BrokerServer  # not in the driver, which imports this class and would start later

    server = await BrokerServer.open(spec, find_controller)
    await server.start()
    await server.serve()


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=0)
class Broker:
    """One broker process."""

    def __init__(self, spec: BrokerSpec, namespace: str, log_dir: str, version: str) -> None:
        keep_private()
        check_code_version(version)
        log_to(log_dir, f"broker-{spec.broker_id}")
        settle_memory()
        self._spec = spec
        self._namespace = namespace

    def serve(self) -> None:
        """Recover, register and serve until the controller has it stop; then the process ends.

        Raises StartError or DataDirError with the fix in its text. Ray calls no other method meanwhile.
        """
        run_in_main_thread(_serve(self._spec, self._find_controller))
        ray.actor.exit_actor()

    def _find_controller(self) -> tuple[str, int, bytes]:
        try:
            controller = ray.get_actor("controller", namespace=self._namespace)
            host, port, secret = ray.get(controller.join_info.remote(), timeout=5)
        except (ValueError, ray.exceptions.RayError) as error:
            raise ConnectionError(str(error)) from error
        return host, port, secret
