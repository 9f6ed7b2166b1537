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
from actors.runtime.process import code_version, last_line
from actors.runtime.ray_runtime import ClusterError

_NAME: Final = "controller"
_STATUS_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 10.0
START_SECONDS: Final = 120.0
"""The time within which a controller must start, and then the brokers."""
STOP_SECONDS: Final = 5.0
"""The time that brokers and shards have to end in order."""


def namespace(name: str) -> str:
    """The Ray namespace of a cluster's actors."""
    return f"coterie-{name}"


def actors_of(ray: DriverRay, name: str) -> list[str]:
    """The names of a cluster's actors that Ray knows of."""
    return sorted(actor.name for actor in ray.names() if actor.namespace == namespace(name))


def find_controller(ray: DriverRay, name: str) -> tuple[FoundActor, list[tuple[str, int]]]:
    """The controller of a cluster that runs, and its brokers' addresses. Raises ClusterError."""
    try:
        controller = ray.find(_controller(name))
        return controller, controller.ask("addresses").answer(_ANSWER_SECONDS)
    except (ValueError, RayError) as error:
        raise ClusterError(_why_not(name, actors_of(ray, name), error)) from None


def _controller(name: str) -> ActorName:
    return ActorName(namespace(name), _NAME)


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
    """End all actors of a cluster as they are. Returns how many, not counting the controller."""
    actors = {}
    for actor_name in actors_of(ray, name):
        with contextlib.suppress(ValueError):  # it has died meanwhile
            actors[actor_name] = ray.find(ActorName(namespace(name), actor_name))
    if _NAME in actors:  # the first to go: it would start what dies again
        actors.pop(_NAME).kill()
    for actor in actors.values():
        actor.kill()
    return len(actors)


def start_controller(
    ray: DriverRay,
    name: str,
    folder: Path,
    secret: Path,
    host: str | None,
    brokers: int,
    port: int | None,
    config: dict[str, str],
) -> tuple[FoundActor, list[tuple[str, int]]]:
    """Start a cluster's controller on this node, and have it start the brokers. Returns it and their addresses.

    Raises ClusterError; then nothing of the cluster runs.
    """
    try:
        ray.find(_controller(name))
    except ValueError:
        pass
    else:
        raise ClusterError(f"a cluster called {name!r} runs on this Ray already: stop it with `coterie down {name}`")
    _refuse_if_in_use(ray, folder)
    spec = ControllerSpec(
        name, str(folder), host, brokers, port, str(socket_dir(folder, secret)), str(secret), config, code_version()
    )
    # Its log is on this node's disk: started anywhere else, now or after a crash, it would find no cluster.
    controller = ray.start_here(Controller, _controller(name), ControllerStart(OWN, spec).encoded())
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
        cause = getattr(error, "cause", None)
        _stop_quietly(controller)
        raise ClusterError(last_line(cause if cause is not None else error)) from None
    except BaseException:  # Ctrl-C, too: a detached actor outlives this program
        _stop_quietly(controller)
        raise
    return controller, addresses


def _refuse_if_in_use(ray: DriverRay, folder: Path) -> None:
    """Raise ClusterError if another cluster on this Ray has the data directory. One that ends is waited for later."""
    if not is_locked(folder / "controller"):
        return
    for actor in ray.names():
        if actor.name != _NAME or not actor.namespace.startswith(namespace("")):
            continue
        with contextlib.suppress(ValueError, RayError):  # it ends just now, or is busy
            found = ray.find(actor).ask("status").answer(_STATUS_SECONDS)
            if found.data_dir == str(folder):
                raise ClusterError(
                    f"data directory {folder} is in use by cluster {found.name!r} on this Ray: stop that cluster "
                    f"(coterie down {found.name}), or choose another --data-dir"
                )


def _stop_quietly(controller: FoundActor) -> None:
    with contextlib.suppress(RayError):
        end_controller(controller)


def end_controller(controller: FoundActor) -> None:
    """Have the controller end brokers and shards, and end the controller in any case. Raises RayError."""
    try:
        controller.ask("stop").answer(STOP_SECONDS)
    finally:
        controller.kill()
