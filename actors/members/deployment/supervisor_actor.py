"""PoolSupervisor: the Ray actor around a Steward, and all calls of Ray's that are about supervisors.

The actor is detached and has `max_restarts=-1`: it survives the program that made it, and Ray starts it again when its
process or its node dies, with the same arguments. Nothing it knows survives its death; all it needs stands in the topic
`__coterie_pools` and in the group. Its members do not survive it (`deployment` says why). Its methods change nothing,
so each may be repeated: what is wished goes through the topic. A call that fails says nothing about the pool.

Its name is that of the pool behind the id of the Kafka cluster: there is one at most on a Ray.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import ray

from actors.links.versions import OWN, check_starter
from actors.members.deployment.description import PoolDescription
from actors.members.deployment.home import Home
from actors.members.deployment.names import NAMESPACE
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.spec import SupervisorSpec, SupervisorStart, actor_name
from actors.members.deployment.steward import Here, Steward
from actors.members.draining import leave_when_drained
from actors.members.logs.gathering import Wanted
from actors.members.logs.journal import MemberLine
from actors.members.pools.plan import PoolError
from actors.runtime.logs import TEXT, formatter
from actors.runtime.process import last_line
from actors.runtime.ray_session import RayAwayError, session

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 15.0


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=4)
class PoolSupervisor:
    """The supervisor of one pool. Its thread works; Ray calls `describe`, `logs` and `close`."""

    def __init__(self, encoded: bytes) -> None:
        start = SupervisorStart.decoded(encoded)
        check_starter(start.starter)
        spec = start.spec
        lines = logging.StreamHandler()
        lines.setFormatter(formatter(TEXT, {"role": "supervisor"}))
        logging.basicConfig(level=logging.WARNING, handlers=[lines])
        logging.getLogger("actors.members").setLevel(logging.INFO)
        context = ray.get_runtime_context()
        restarted = bool(context.was_current_actor_reconstructed)
        here = Here(os.getpid(), context.get_node_id(), context.get_actor_id(), restarted, spec.after)
        topic = PoolsTopic(spec.bootstrap_servers, **spec.security)
        seals = Home(spec.cluster_id) if spec.at_home else None
        self._steward = Steward(spec.name, spec.bootstrap_servers, topic, here, _end_process, seals)
        self._me = context.current_actor
        threading.Thread(target=self._work, name="coterie-steward", daemon=True).start()
        leaving = (here.node_id, self._leave)
        threading.Thread(target=leave_when_drained, args=leaving, name="coterie-leaving", daemon=True).start()

    def _work(self) -> None:
        self._steward.run()
        if self._steward.over:
            ray.kill(self._me)  # for good: Ray does not start it again

    def _leave(self) -> None:
        """Go elsewhere before Ray takes this node away: members cannot outlive this process, but they can commit."""
        self._steward.close(_DRAIN_SECONDS)
        _end_process()  # Ray starts it again, on a node that stays

    def describe(self) -> PoolDescription | None:
        """The pool now; None as long as nothing is known of it."""
        return self._steward.describe()

    def logs(self, wanted: Wanted) -> list[MemberLine]:
        """The lines that the members have printed and logged."""
        return self._steward.logs(wanted)

    def close(self, timeout_s: float) -> None:
        """Have the members finish what is in hand, and end; they keep their places in the group."""
        self._steward.close(timeout_s)


def _end_process() -> None:
    log.warning("this supervisor ends, and its members do")
    sys.stderr.flush()
    os._exit(1)


def connected() -> bool:
    """True if this process is connected to a Ray."""
    return bool(ray.is_initialized())


def start(spec: SupervisorSpec) -> None:
    """Start a supervisor, unless there is one. Raises PoolError if Ray does not do it."""
    made = PoolSupervisor.options(  # type: ignore[attr-defined]
        name=spec.actor_name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True
    )
    try:
        session().call(made.remote, SupervisorStart.of(spec, OWN).encoded())
    except (ValueError, ray.exceptions.RayError) as error:
        raise PoolError(f"Ray does not start a supervisor for pool {spec.name!r}: {last_line(error)}") from None


def is_there(cluster_id: str, name: str) -> bool:
    """True if Ray has a supervisor of this pool, also while Ray is restarting it."""
    return _found(cluster_id, name) is not None


def _found(cluster_id: str, name: str) -> Any:
    try:
        return session().call(ray.get_actor, actor_name(cluster_id, name), namespace=NAMESPACE)
    except (ValueError, RayAwayError):
        return None


def describe(cluster_id: str, name: str) -> PoolDescription | None:
    """The description of a pool by its supervisor; None if there is none on this Ray, or it cannot be asked now."""
    supervisor = _found(cluster_id, name) if connected() else None
    if supervisor is None:
        return None
    with contextlib.suppress(ray.exceptions.RayError):
        found: PoolDescription | None = session().call(_got, supervisor.describe.remote)
        return found
    return None


def logs(cluster_id: str, name: str, wanted: Wanted) -> list[MemberLine]:
    """The lines that members have printed and logged, from their supervisor. Raises PoolError if none can be asked."""
    if not connected():
        raise PoolError(f"this process is not connected to Ray, and the supervisor of pool {name!r} cannot be asked")
    supervisor = _found(cluster_id, name)
    if supervisor is None:
        raise PoolError(f"pool {name!r} has no supervisor on this Ray that could be asked")
    try:
        found: list[MemberLine] = session().call(_got, supervisor.logs.remote, wanted)
    except ray.exceptions.RayError as error:
        raise PoolError(f"the supervisor of pool {name!r} does not answer: {last_line(error)}") from None
    return found


def close_all(cluster_id: str, timeout_s: float = _CLOSE_SECONDS) -> int:
    """End the supervisors of a Kafka cluster's pools on this Ray, after their members. Returns how many there were."""
    names = _names(cluster_id)
    supervisors = [actor for name in names if (actor := _found(cluster_id, name)) is not None]
    with contextlib.suppress(ray.exceptions.RayError):
        session().call(_close, supervisors, timeout_s)
    with contextlib.suppress(RayAwayError):
        for supervisor in supervisors:
            session().call(ray.kill, supervisor)
    return len(supervisors)


def _close(supervisors: list[Any], timeout_s: float) -> None:
    closing = [supervisor.close.remote(timeout_s) for supervisor in supervisors]
    if closing:
        ray.wait(closing, num_returns=len(closing), timeout=timeout_s + 1)


def _names(cluster_id: str) -> list[str]:
    prefix = actor_name(cluster_id, "")
    found = [actor["name"] for actor in _named_actors() if actor["namespace"] == NAMESPACE]
    return [name.removeprefix(prefix) for name in found if name.startswith(prefix)]


def _named_actors() -> list[dict[str, str]]:
    found: list[dict[str, str]] = session().call(ray.util.list_named_actors, all_namespaces=True)
    return found


def _got(method: Callable[..., Any], *arguments: Any) -> Any:
    return ray.get(method(*arguments), timeout=_ANSWER_SECONDS)
