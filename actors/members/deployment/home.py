"""A pool's home, which is the Ray of its brokers, and the seals of the versions deployed there. It calls Ray.

A supervisor unpickles what stands in the topic, which is to run code. Without ACLs everybody may write there who
reaches a listener; if that is on loopback, all users of the machine. So a version that is deployed at home is sealed by
the cluster's controller, with a key that only the cluster's own user can read (`controller/pool_seals.py`), and at home
no version is loaded without its seal, or after the controller has heard that it was replaced or its pool was stopped.
Anyone who can ask the controller has Ray's token, and so may run code anyway.

Pools of brokers that are not on this Ray have no seals: there, who may write to the topic has his code run.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Final, cast

import ray

from actors.links.not_controller import NotControllerError
from actors.links.pool_seals import Answer, Ended, MayRun, Newest, Old, OnlyThese, Proven, Seal, SealAnew, Verdict, Wish
from actors.links.status import ClusterStatus
from actors.members.deployment.records import Deployment
from actors.members.deployment.seals import sealable
from actors.members.pools.plan import PoolError
from actors.runtime import controllers
from actors.runtime.environment import REAL
from actors.runtime.named_actors import FoundActor
from actors.runtime.process import last_line
from actors.runtime.ray_session import RayAwayError, session
from placement.sealed_pools import SealedVersion

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 5.0
_AWAY_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.2


class Home:
    """The cluster with this id on this Ray, by its controller."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._controller: FoundActor | None = None
        self._call = session().call

    def is_here(self) -> bool:
        """True if its brokers are on this Ray. Raises PoolError if that cannot be told."""
        try:
            return self._find()
        except ConnectionError as error:
            raise PoolError(str(error)) from None

    def _find(self) -> bool:
        """Find its controller, also while Ray restarts it. Returns whether there is one. Raises ConnectionError."""
        deadline = REAL.clock.monotonic() + _AWAY_SECONDS
        try:
            while (away := self._look()) and REAL.clock.monotonic() < deadline:
                threading.Event().wait(_LOOK_SECONDS)
        except RayAwayError as error:
            raise ConnectionError(last_line(error)) from None
        if away:
            raise ConnectionError("a cluster's controller on this Ray does not answer: see `coterie status`")
        return self._controller is not None

    def _look(self) -> bool:
        """Look for the controller. Returns whether there is one that cannot be asked now."""
        away = False
        for namespace in self._call(controllers.namespaces):
            try:
                controller = self._call(controllers.leading, namespace, _ANSWER_SECONDS)
                if self._call(_status, controller).cluster_id == self._cluster_id:
                    self._controller = controller
                    return False
            except (ValueError, AttributeError):  # it has gone, or is somebody else's
                continue
            except RayAwayError:
                raise
            except (ConnectionError, ray.exceptions.RayError):
                away = True
        return away

    # --- seals ---

    def sealed(self, name: str, deployment: Deployment) -> Deployment:
        """The same, with the seal of this home on it as a version of this pool. Raises PoolError, ConnectionError."""
        return replace(deployment, seal=cast(bytes, self._ask(Seal(name, sealable(deployment)))))

    def check(self, name: str, deployment: Deployment) -> None:
        """Raise PoolError for what is not to be run as this pool, and ConnectionError if nobody can tell now."""
        self._refuse(MayRun(name, sealable(deployment), deployment.seal))

    def proven(self, name: str, deployment: Deployment) -> None:
        """A version works: it may be gone back to. Raises PoolError, ConnectionError."""
        self._refuse(Proven(name, sealable(deployment)))

    def ended(self, name: str, incarnation: str) -> None:
        """A pool was stopped; an empty incarnation stands for any. Raises PoolError, ConnectionError."""
        self._ask(Ended(name, incarnation))

    def only_these(self, names: frozenset[str]) -> None:
        """The topic has these pools alone: others have been stopped. Raises PoolError, ConnectionError."""
        self._ask(OnlyThese(names))

    def newest(self, name: str) -> SealedVersion | None:
        """The newest version of a pool that may run. Raises PoolError, ConnectionError."""
        return cast(SealedVersion | None, self._ask(Newest(name)))

    def seal_anew(self, versions: tuple[Old, ...]) -> dict[bytes, bytes]:
        """The seals, by digests, of versions that earlier releases have sealed. Raises PoolError, ConnectionError."""
        return cast(dict[bytes, bytes], self._ask(SealAnew(versions)))

    def _refuse(self, wish: MayRun | Proven) -> None:
        verdict = cast(Verdict, self._ask(wish))
        if verdict.refusal:
            raise PoolError(verdict.refusal)

    def _ask(self, wish: Wish) -> Answer:
        try:
            if self._controller is not None or self._find():
                return self._call(_answer, self._controller, wish)
        except NotControllerError as error:
            log.info("another controller leads now: %s", last_line(error))
        except ray.exceptions.RayTaskError as error:
            raise PoolError(f"the cluster's controller has no seals for pools: {last_line(error)}") from None
        except ray.exceptions.RayError as error:
            log.info("the controller does not answer: %s", last_line(error))
        self._controller = None
        raise ConnectionError("the cluster's controller, which knows the seals of pools, cannot be asked now")


def _status(controller: FoundActor) -> ClusterStatus:
    found: ClusterStatus = controller.ask("status").answer(_ANSWER_SECONDS)
    return found


def _answer(controller: FoundActor, wish: Wish) -> Answer:
    found: Answer = controller.ask("answer_pool", wish).answer(_ANSWER_SECONDS)
    return found
