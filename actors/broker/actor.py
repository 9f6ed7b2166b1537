"""Broker: the Ray actor around a BrokerServer.

Its data directory survives it, and is locked while it lives. Only the controller starts brokers (max_restarts=0), each
time with a new epoch; it asks them over its link to them (`links/control`), and has them stop by it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import ray

from actors.broker.spec import BrokerSpec, BrokerStart, StartError
from actors.links.secret import Marks, Secrets, found_at, read_secret
from actors.links.versions import check_starter
from actors.runtime import priority
from actors.runtime.controllers import AnyController
from actors.runtime.data_folder import place_of
from actors.runtime.named_actors import FoundActor
from actors.runtime.priority import Priority
from actors.runtime.private import keep_private, leave_no_core
from actors.runtime.process import audit_to, last_line, log_to, run_in_main_thread, settle_memory
from actors.settings import BrokerConfig

_SECRET_FILE = "coterie.secret.file"


async def _serve(
    spec: BrokerSpec, find_controller: Callable[[], tuple[str, int, Secrets]], got: Priority | None = None
) -> None:
    """Shells of builds that asked for no priority call it, too, without `got`."""
    from actors.broker.server import BrokerServer  # not in the driver, which imports this class and would start later

    server = await BrokerServer.open(spec, find_controller, priority=got)
    await server.start()
    await server.serve()


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=0)
class Broker:
    """One broker process. `told` is a BrokerStart."""

    def __init__(self, told: bytes) -> None:
        keep_private()
        start = BrokerStart.decoded(told)
        check_starter(start.starter)
        spec, logs = start.spec, start.logs
        config = BrokerConfig.from_mapping(spec.config)
        self._priority = priority.ask(config.integer("coterie.process.niceness"))
        if not config.boolean("coterie.debug.core"):
            leave_no_core()
        log_to(logs, f"broker-{spec.broker_id}", role="broker", broker=spec.broker_id)
        audit_to(
            logs,
            f"audit-of-{spec.broker_id}",
            config.integer("coterie.audit.file.max.bytes"),
            config.integer("coterie.audit.files.max"),
            role="broker",
            broker=spec.broker_id,
        )
        settle_memory()
        self._spec = spec
        self._find_controller = ControllerByName(spec, start.namespace)

    def serve(self) -> None:
        """Recover, register and serve until the controller has it stop; then the process ends.

        Raises StartError or DataDirError with the fix in its text. Ray calls no other method meanwhile.
        """
        run_in_main_thread(_serve(self._spec, self._find_controller, self._priority))
        ray.actor.exit_actor()


class ControllerByName:
    """Finds the controller that leads among the actors of a namespace, and the secret: on this node, or else at it."""

    def __init__(self, spec: BrokerSpec, namespace: str) -> None:
        self._spec = spec
        self._controllers = AnyController(namespace)

    def __call__(self) -> tuple[str, int, Secrets]:
        """(host, port, secrets). Raises ConnectionError if there is no controller, StartError if a file is wrong."""
        try:
            (host, port, which), controller = self._controllers.ask("join_info", within_s=5)
            own = own_secrets(self._spec, which)
            if own is None or own.marks != which:
                own = self._handed_out(controller, own)
        except (ValueError, ray.exceptions.RayError) as error:
            raise ConnectionError(last_line(error)) from error
        return host, port, own

    def _handed_out(self, controller: FoundActor, own: Secrets | None) -> Secrets:
        """The secrets that the controller hands out, or else those that this node has."""
        try:
            handed_out: Secrets = controller.ask("hand_out_secret", self._spec.broker_id).answer(5)
        except ray.exceptions.RayTaskError:
            if own is None:
                raise
            return own
        return handed_out


def own_secrets(spec: BrokerSpec, which: Marks) -> Secrets | None:
    """The cluster's secret, and one that is valid beside it, from files of this node; None without the current one.

    Raises StartError where the user has named the file, and it is not that secret.
    """
    named = spec.config.get(_SECRET_FILE)
    path = Path(named) if named else place_of(Path(spec.data_dir).parent) / "secret"
    found = which.among(found_at(path))
    if found is None and named:
        raise StartError(f"broker {spec.broker_id} on {socket.gethostname()}: {_SECRET_FILE}: {_wrong(path)}")
    return found


def _wrong(path: Path) -> str:
    try:
        read_secret(path)
    except (OSError, ValueError) as error:
        return str(error)
    return f"{path} holds another secret than the controller has"
