"""A cluster's controller as an actor with a name: how drivers start it, find it, and end it and what it has started.

All calls of Ray's here concern actors of a namespace that is the cluster's own. They survive the driver.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final

import ray

from actors.controller.actor import Controller
from actors.controller.preparation import socket_dir
from actors.controller.spec import ControllerSpec, ControllerStart
from actors.links.versions import OWN
from actors.log.folder_lock import is_locked
from actors.runtime.controllers import ALONE, is_controller, leading, namespaces
from actors.runtime.process import code_version, last_line
from actors.runtime.ray_runtime import ClusterError
from placement.nodes import staying_here

_STATUS_SECONDS: Final = 2.0
START_SECONDS: Final = 120.0
"""The time within which a controller must start, and then the brokers."""
STOP_SECONDS: Final = 5.0
"""The time that brokers and shards have to end in order."""


def namespace(name: str) -> str:
    """The Ray namespace of a cluster's actors."""
    return f"coterie-{name}"


def actors_of(name: str) -> list[str]:
    """The names of a cluster's actors that Ray knows of."""
    found = ray.util.list_named_actors(all_namespaces=True)
    return sorted(actor["name"] for actor in found if actor["namespace"] == namespace(name))


def why_not(name: str, left: list[str], error: Exception) -> str:
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


def end_actors(name: str) -> int:
    """End all actors of a cluster as they are. Returns how many, not counting controllers."""
    actors = {}
    for actor_name in actors_of(name):
        with contextlib.suppress(ValueError):  # it has died meanwhile
            actors[actor_name] = ray.get_actor(actor_name, namespace=namespace(name))
    for controller in filter(is_controller, list(actors)):  # the first to go: they would start what dies again
        ray.kill(actors.pop(controller))
    for actor in actors.values():
        ray.kill(actor)
    return len(actors)


def spec_of(
    name: str, folder: Path, secret: Path, host: str | None, brokers: int, port: int | None, config: dict[str, str]
) -> ControllerSpec:
    """The arguments of a controller's start, in this release."""
    sockets = str(socket_dir(folder, secret))
    return ControllerSpec(name, str(folder), host, brokers, port, sockets, str(secret), config, code_version())


def start_controller(spec: ControllerSpec) -> tuple[Any, list[tuple[str, int]]]:
    """Start a cluster's controller on this node, and have it start the brokers. Returns it and their addresses.

    Raises ClusterError; then nothing of the cluster runs.
    """
    name = spec.name
    refuse_if_it_runs(name, Path(spec.data_dir))
    # Its log is on this node's disk: started anywhere else, now or after a crash, it would find no cluster.
    controller = Controller.options(  # type: ignore[attr-defined]
        name=ALONE, namespace=namespace(name), lifetime="detached", **staying_here()
    ).remote(ControllerStart(OWN, spec).encoded())
    try:
        ray.get(controller.addresses.remote(), timeout=START_SECONDS)  # recovering brokers may take longer than that
        addresses = ray.get(controller.start_brokers.remote(START_SECONDS))
    except ray.exceptions.GetTimeoutError:
        ray.kill(controller)
        raise ClusterError(
            f"Ray has not started the controller within {START_SECONDS:.0f} s: see `ray status` for what it waits for"
        ) from None
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayActorError) and not error.actor_init_failed:
            end_actors(name)
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


def refuse_if_it_runs(name: str, folder: Path) -> None:
    """Raise ClusterError if a cluster of this name runs on this Ray, or another one has the data directory.

    One that ends is waited for later.
    """
    if any(is_controller(each) for each in actors_of(name)):
        raise ClusterError(f"a cluster called {name!r} runs on this Ray already: stop it with `coterie down {name}`")
    if not is_locked(folder / "controller"):
        return
    for each in namespaces():
        with contextlib.suppress(ValueError, ConnectionError, ray.exceptions.RayError):  # it ends just now, or is busy
            controller = leading(each, _STATUS_SECONDS)
            found = ray.get(controller.status.remote(), timeout=_STATUS_SECONDS)
            if found.data_dir == str(folder):
                raise ClusterError(
                    f"data directory {folder} is in use by cluster {found.name!r} on this Ray: stop that cluster "
                    f"(coterie down {found.name}), or choose another --data-dir"
                )


def _stop_quietly(controller: Any) -> None:
    with contextlib.suppress(ray.exceptions.RayError):
        end_controller(controller)


def end_controller(controller: Any) -> None:
    """Have the controller end brokers and shards, and end the controller in any case. Raises RayError."""
    try:
        ray.get(controller.stop.remote(), timeout=STOP_SECONDS)
    finally:
        ray.kill(controller)
