"""Broker: the Ray actor around a BrokerServer.

Its data directory survives it, and is locked while it lives. Only the controller starts brokers (max_restarts=0), each
time with a new epoch. `start` and `stop` may be called more than once.
"""

from __future__ import annotations

from collections.abc import Callable

import ray

from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec
from actors.links.group_status import GroupStatus
from actors.links.status import BrokerReport, ShardStatus
from actors.runtime.process import LoopThread, check_code_version, log_to, settle_memory

_DESCRIBE_SECONDS = 2.0
_STOP_SECONDS = 30.0  # a slow disk may need long to flush every log


async def _start(spec: BrokerSpec, find_controller: Callable[[], tuple[str, int, bytes]]) -> BrokerServer:
    server = await BrokerServer.open(spec, find_controller)
    await server.start()
    return server


async def _shards(server: BrokerServer) -> tuple[ShardStatus, ...]:
    return tuple(server.shards.status())  # on the loop, where nothing changes meanwhile


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=0, max_concurrency=4)
class Broker:
    """One broker process."""

    def __init__(self, spec: BrokerSpec, namespace: str, log_dir: str, version: str) -> None:
        check_code_version(version)
        log_to(log_dir, f"broker-{spec.broker_id}")
        self._spec = spec
        self._namespace = namespace
        settle_memory()
        self._thread = LoopThread("coterie-broker")
        self._server: BrokerServer | None = None

    def start(self) -> int:
        """Recover, listen and register; the port. Raises StartError or DataDirError with the fix in its text."""
        if self._server is None:
            self._server = self._thread.call(_start(self._spec, self._find_controller))
        return self._server.port

    def _find_controller(self) -> tuple[str, int, bytes]:
        try:
            controller = ray.get_actor("controller", namespace=self._namespace)
            host, port, secret = ray.get(controller.join_info.remote(), timeout=5)
        except (ValueError, ray.exceptions.RayError) as error:
            raise ConnectionError(str(error)) from error
        return host, port, secret

    def status(self) -> BrokerReport:
        """This broker and its shards. Raises TimeoutError if its loop is busy for 5 s."""
        shards = () if self._server is None else self._thread.call(_shards(self._server), 5)
        return BrokerReport(self._spec.broker_id, ray.get_runtime_context().get_node_id(), shards)

    def group_status(self, group_id: str) -> GroupStatus | None:
        """What the group's shard knows of it; None if nothing, or if it is not this broker's. Raises TimeoutError."""
        if self._server is None:
            return None
        return self._thread.call(self._server.shards.group_status(group_id, _DESCRIBE_SECONDS))

    def hand_over(self) -> None:
        """Have other brokers lead what this one leads, if they can. Raises OSError, TimeoutError."""
        if self._server is not None:
            self._thread.call(self._server.hand_over(), _STOP_SECONDS)

    def stop(self) -> None:
        """Close the logs cleanly."""
        if self._server is not None:
            server, self._server = self._server, None
            self._thread.call(server.stop(), _STOP_SECONDS)
