"""The actors of clusters' controllers, as other processes find them on Ray: by their names.

A cluster with one controller has an actor `controller`; one with several has `controller-0`, `controller-1` and so on,
of which one leads at a time. Each is in the cluster's own namespace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from actors.runtime.environment import REAL, Clock
from actors.runtime.named_actors import NAMED_ON_RAY, ActorName, Asked, FoundActor, NamedActors, RayError

ALONE: Final = "controller"
_SEVERAL: Final = re.compile(r"controller-\d+")
_NAMESPACE: Final = "coterie-"
_LEADS_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.2


def namespace_of(cluster: str) -> str:
    """The Ray namespace of a cluster's actors."""
    return f"{_NAMESPACE}{cluster}"


def name_of(controller_id: int) -> str:
    """The name of the actor of one of several controllers."""
    return f"{ALONE}-{controller_id}"


def is_controller(name: str) -> bool:
    """True if an actor of a cluster's namespace with this name is a controller."""
    return name == ALONE or _SEVERAL.fullmatch(name) is not None


def of_all_clusters(ray: NamedActors = NAMED_ON_RAY) -> list[ActorName]:
    """The controllers of all clusters on this Ray."""
    return [each for each in ray.names() if is_controller(each.name) and each.namespace.startswith(_NAMESPACE)]


def namespaces(ray: NamedActors = NAMED_ON_RAY) -> list[str]:
    """The namespaces of the clusters on this Ray that have a controller."""
    return list(dict.fromkeys(each.namespace for each in of_all_clusters(ray)))


def several(ray: NamedActors, namespace: str) -> list[FoundActor]:
    """The actors of a cluster's several controllers; none if it has one alone, or none."""
    named = (each for each in ray.names() if each.namespace == namespace and _SEVERAL.fullmatch(each.name))
    found = []
    for name in sorted(named, key=lambda each: each.name):
        try:
            found.append(ray.find(name))
        except ValueError:  # it has ended meanwhile
            continue
    return found


def found(
    ray: NamedActors, namespace: str, within_s: float = _LEADS_SECONDS, clock: Clock = REAL.clock
) -> tuple[FoundActor, bool]:
    """The actor of the controller that leads, or of the only one, and whether it is one of several.

    Raises ValueError if there is none, and ConnectionError if none of several leads within this time.
    """
    try:
        return ray.find(ActorName(namespace, ALONE)), False
    except ValueError:
        return leading_of(ray, several(ray, namespace), within_s, clock), True


def leading(namespace: str, within_s: float, ray: NamedActors = NAMED_ON_RAY, clock: Clock = REAL.clock) -> FoundActor:
    """The actor of the controller that leads, or of the only one. Raises as `found`."""
    return found(ray, namespace, within_s, clock)[0]


def leading_of(ray: NamedActors, actors: Sequence[FoundActor], within_s: float, clock: Clock) -> FoundActor:
    """That of several controllers which leads. Raises ValueError without any, ConnectionError as `leading` does."""
    if not actors:
        raise ValueError("there is no controller")
    answered = _first_that_knows(ray, actors, ("leads",), within_s, clock)
    if answered is None:
        raise ConnectionError(f"none of {len(actors)} controllers leads")
    return answered[1]


def _first_that_knows(
    ray: NamedActors, actors: Sequence[FoundActor], call: tuple[Any, ...], within_s: float, clock: Clock
) -> tuple[Any, FoundActor] | None:
    """The first answer that is neither False nor an error, and the actor that has given it; None: there was none.

    `call` is a method and its arguments. Each actor is asked again once it has answered, for another may lead by then.
    One that does not answer, perhaps because its machine is off, holds up none of the others.
    """
    deadline = clock.monotonic() + within_s
    asked: dict[Asked, FoundActor] = {}
    while True:
        asked |= {actor.ask(*call): actor for actor in actors if actor not in asked.values()}
        while (come := ray.first(list(asked), _LOOK_SECONDS)) is not None:
            actor = asked.pop(come)
            with suppress(RayError):  # its process has ended, or it knows nothing
                if (answer := come.answer()) is not False:
                    return answer, actor
        if clock.monotonic() > deadline:
            return None
        clock.sleep(_LOOK_SECONDS)


class AnyController:
    """The controllers of one cluster, for a process that asks again and again what any of them can answer.

    Of several, all are asked at once, and the first that knows who leads counts. Their actors are remembered, so that
    Ray's head need not be there.
    """

    def __init__(self, namespace: str, ray: NamedActors = NAMED_ON_RAY, clock: Clock = REAL.clock) -> None:
        self._namespace = namespace
        self._ray = ray
        self._clock = clock
        self._several: list[FoundActor] = []

    def ask(self, method: str, *arguments: Any, within_s: float) -> tuple[Any, FoundActor]:
        """The answer to a method that each controller can give, and the actor that has given it.

        Raises ValueError if there is no controller, and Ray's errors.
        """
        actors = self._several  # another thread may ask, too
        if not actors:
            try:
                alone = self._ray.find(ActorName(self._namespace, ALONE))
            except ValueError:
                self._several = actors = several(self._ray, self._namespace)
                if not actors:
                    raise
            else:
                return alone.ask(method, *arguments).answer(within_s), alone
        answered = _first_that_knows(self._ray, actors, (method, *arguments), within_s, self._clock)
        if answered is None:
            self._several = []  # others may have been started since
            raise ValueError("no controller knows which one leads")
        return answered
