"""The actors of clusters' controllers, as other processes find them on Ray: by their names.

A cluster with one controller has an actor `controller`; one with several has `controller-0`, `controller-1` and so on,
of which one leads at a time. Each is in the cluster's own namespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import ray

from actors.runtime.environment import REAL

T = TypeVar("T")

ALONE: Final = "controller"
_SEVERAL: Final = re.compile(r"controller-\d+")
_NAMESPACE: Final = "coterie-"
_LEADS_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.2


def name_of(controller_id: int) -> str:
    """The name of the actor of one of several controllers."""
    return f"{ALONE}-{controller_id}"


def is_controller(name: str) -> bool:
    """True if an actor of a cluster's namespace with this name is a controller."""
    return name == ALONE or _SEVERAL.fullmatch(name) is not None


def of_all_clusters() -> list[tuple[str, str]]:
    """The controllers of all clusters on this Ray: the namespace and the name of each one's actor."""
    named = ray.util.list_named_actors(all_namespaces=True)
    found = ((each["namespace"], each["name"]) for each in named if is_controller(each["name"]))
    return [(namespace, name) for namespace, name in found if namespace.startswith(_NAMESPACE)]


def namespaces() -> list[str]:
    """The namespaces of the clusters on this Ray that have a controller."""
    return list(dict.fromkeys(namespace for namespace, _ in of_all_clusters()))


def several(namespace: str) -> list[Any]:
    """The actors of a cluster's several controllers; none if it has one alone, or none."""
    named = ray.util.list_named_actors(all_namespaces=True)
    names = [each["name"] for each in named if each["namespace"] == namespace and _SEVERAL.fullmatch(each["name"])]
    found = []
    for name in sorted(names):
        try:
            found.append(ray.get_actor(name, namespace=namespace))
        except ValueError:  # it has ended meanwhile
            continue
    return found


def found(namespace: str, within_s: float = _LEADS_SECONDS) -> tuple[Any, bool]:
    """The actor of the controller that leads, or of the only one, and whether it is one of several.

    Raises ValueError if there is none, and ConnectionError if none of several leads within this time.
    """
    try:
        return ray.get_actor(ALONE, namespace=namespace), False
    except ValueError:
        return leading_of(several(namespace), within_s), True


def leading(namespace: str, within_s: float) -> Any:
    """The actor that is `found`."""
    return found(namespace, within_s)[0]


def leading_of(actors: Sequence[Any], within_s: float) -> Any:
    """That of several controllers which leads. Raises ValueError without any, ConnectionError as `leading` does."""
    deadline = REAL.clock.monotonic() + within_s
    while actors:
        asked = {actor.leads.remote(): actor for actor in actors}
        found = _first(
            list(asked), max(deadline - REAL.clock.monotonic(), _LOOK_SECONDS), lambda ref: bool(ray.get(ref))
        )
        if found is not None:
            return asked[found]
        if REAL.clock.monotonic() > deadline:
            break
        REAL.clock.sleep(_LOOK_SECONDS)
    if not actors:
        raise ValueError("there is no controller")
    raise ConnectionError(f"none of {len(actors)} controllers leads")


def _first(asked: Sequence[Any], within_s: float, accepts: Callable[[Any], bool]) -> Any | None:
    """The first of these calls, in the order of their answers, whose answer is accepted; None if there is none."""
    deadline, left = REAL.clock.monotonic() + within_s, list(asked)
    while left:
        done, left = ray.wait(left, timeout=max(deadline - REAL.clock.monotonic(), 0.0))
        if not done:
            return None
        try:
            if accepts(done[0]):
                return done[0]
        except ray.exceptions.RayError:  # its process has ended, or it knows nothing
            continue
    return None


class ControllersByName:
    """The controllers of one cluster, for a process that needs the one that leads, again and again.

    Of several, all are asked at once, and the first that answers counts: each knows who leads. Their actors are
    remembered, so that Ray's head need not be there.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._several: list[Any] = []

    def ask(self, method: str, *arguments: Any, within_s: float) -> tuple[Any, Any]:
        """The answer to a method that each controller can give, and the actor that has given it.

        Raises ValueError if there is no controller, and Ray's errors.
        """
        if not self._several:
            try:
                alone = ray.get_actor(ALONE, namespace=self._namespace)
            except ValueError:
                self._several = several(self._namespace)
                if not self._several:
                    raise
            else:
                return ray.get(getattr(alone, method).remote(*arguments), timeout=within_s), alone
        asked = {getattr(actor, method).remote(*arguments): actor for actor in self._several}
        found = _first(list(asked), within_s, lambda ref: (ray.get(ref), True)[1])
        if found is None:
            self._several = []  # others may have been started since
            raise ValueError("no controller knows which one leads")
        return ray.get(found), asked[found]
