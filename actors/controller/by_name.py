"""A cluster's controller as an actor with a name: how drivers start it, find it, and end it and what it has started.

The actors are of a namespace that is the cluster's own. They survive the driver.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from actors.controller.actor import Controller
from actors.controller.driver_ray import ActorName, DriverRay, FoundActor, GetTimeoutError, RayActorError, RayError
from actors.controller.preparation import socket_dir
from actors.controller.spec import ControllerSpec, ControllerStart
from actors.links.versions import OWN
from actors.log.folder_lock import is_locked
from actors.runtime.controllers import ALONE, found, is_controller, leading, namespace_of, namespaces
from actors.runtime.process import code_version, last_line
from actors.runtime.ray_runtime import ClusterError

_STATUS_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 10.0
START_SECONDS: Final = 120.0
"""The time within which a controller must start, and then the brokers."""
STOP_SECONDS: Final = 5.0
"""The time that brokers and shards have to end in order."""


def namespace(name: str) -> str:
    """The Ray namespace of a cluster's actors."""
    return namespace_of(name)


def actors_of(ray: DriverRay, name: str) -> list[str]:
    """The names of a cluster's actors that Ray knows of."""
    return sorted(actor.name for actor in ray.names() if actor.namespace == namespace(name))


def find_controller(ray: DriverRay, name: str) -> tuple[FoundActor, bool, list[tuple[str, int]]]:
    """The controller that leads a cluster, whether it is one of several, and the brokers' addresses.

    Raises ClusterError.
    """
    try:
        controller, several = found(ray, namespace(name))
        return controller, several, controller.ask("addresses").answer(_ANSWER_SECONDS)
    except (ValueError, ConnectionError, RayError) as error:
        raise ClusterError(_why_not(name, actors_of(ray, name), error)) from None


def _why_not(name: str, left: list[str], error: Exception) -> str:
    """The reason why a cluster cannot be connected to, of which these actors are left, and what to do."""
    if left:
        return (
            f"the controller of cluster {name!r} cannot be reached ({error.__class__.__name__}), though {len(left)} of "
            f"its processes run: bring its Ray node back, or end them with `coterie down {name}`"
        )
    return (
        f"no cluster called {name!r} runs on this Ray ({error.__class__.__name__}); start one with "
        f"`coterie up --ray-address ... --name {name}`"
    )


def end_actors(ray: DriverRay, name: str) -> int:
    """End all actors of a cluster as they are. Returns how many, not counting controllers."""
    ended, count = set[str](), 0
    while left := [each for each in actors_of(ray, name) if each not in ended]:
        # The controllers go first, and then all is looked for again: they may start something until they have ended.
        for each in list(filter(is_controller, left)) or left:
            with contextlib.suppress(ValueError):  # it has died meanwhile
                ray.find(ActorName(namespace(name), each)).kill()
                count += not is_controller(each)
            ended.add(each)
    return count


def spec_of(
    name: str, folder: Path, secret: Path, host: str | None, brokers: int, port: int | None, config: dict[str, str]
) -> ControllerSpec:
    """The arguments of a controller's start, in this release."""
    sockets = str(socket_dir(folder, secret))
    return ControllerSpec(name, str(folder), host, brokers, port, sockets, str(secret), config, code_version())


def start_controller(ray: DriverRay, spec: ControllerSpec) -> tuple[FoundActor, list[tuple[str, int]]]:
    """Start a cluster's controller on this node, and have it start the brokers. Returns it and their addresses.

    Raises ClusterError; then nothing of the cluster runs.
    """
    name = spec.name
    refuse_if_it_runs(ray, name, Path(spec.data_dir))
    # Its log is on this node's disk: started anywhere else, now or after a crash, it would find no cluster.
    told = ControllerStart(OWN, spec).encoded()
    controller = ray.start_here(Controller, ActorName(namespace(name), ALONE), told)
    try:
        controller.ask("addresses").answer(START_SECONDS)  # recovering brokers may take longer than that
        addresses = controller.ask("start_brokers", START_SECONDS).answer()
    except GetTimeoutError:
        controller.kill()
        raise ClusterError(
            f"Ray has not started the controller within {START_SECONDS:.0f} s: see `ray status` for what it waits for"
        ) from None
    except RayError as error:
        if isinstance(error, RayActorError) and not error.actor_init_failed:
            end_actors(ray, name)
            raise ClusterError(
                f"the controller's process ended while it started the brokers: start the cluster again, and if it does "
                f"so again, see {spec.log_dir}/controller.log"
            ) from None
        _stop_quietly(controller)
        raise ClusterError(reason(error)) from None
    except BaseException:  # Ctrl-C, too: a detached actor outlives this program
        _stop_quietly(controller)
        raise
    return controller, addresses


def refuse_if_it_runs(ray: DriverRay, name: str, folder: Path) -> None:
    """Raise ClusterError if a cluster of this name runs on this Ray, or another one has the data directory.

    One that ends is waited for later.
    """
    if any(map(is_controller, actors_of(ray, name))):
        raise ClusterError(f"a cluster called {name!r} runs on this Ray already: stop it with `coterie down {name}`")
    if not is_locked(folder / "controller"):
        return
    for each in namespaces(ray):
        with contextlib.suppress(ValueError, ConnectionError, RayError):  # it ends just now, or is busy
            other = leading(each, _STATUS_SECONDS, ray).ask("status").answer(_STATUS_SECONDS)
            if other.data_dir == str(folder):
                raise ClusterError(
                    f"data directory {folder} is in use by cluster {other.name!r} on this Ray: stop that cluster "
                    f"(coterie down {other.name}), or choose another --data-dir"
                )


def reason(error: Exception) -> str:
    """The line that says why an actor cannot start, or a method has failed."""
    cause = getattr(error, "cause", None)
    return last_line(cause if cause is not None else error)


def _stop_quietly(controller: FoundActor) -> None:
    with contextlib.suppress(RayError):
        end_controller(controller)


def end_controller(controller: FoundActor) -> None:
    """Have the controller end brokers and shards, and end the controller in any case. Raises RayError."""
    try:
        controller.ask("stop").answer(STOP_SECONDS)
    finally:
        controller.kill()
