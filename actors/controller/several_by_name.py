"""A cluster's several controllers as actors with names: how a driver starts them, finds the one that leads, ends them.

Each is on a Ray node of its own, where its log is; the first is on the driver's. A Ray of one node has all of them:
that is for tries, and survives the death of a process, not the loss of the node.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from actors.controller.actor import Controller
from actors.controller.by_name import (
    START_SECONDS,
    STOP_SECONDS,
    actors_of,
    end_actors,
    namespace,
    reason,
    refuse_if_it_runs,
    start_controller,
)
from actors.controller.driver_ray import ActorName, DriverRay, FoundActor, GetTimeoutError, RayActorError, RayError
from actors.controller.secret_handover import give_secret
from actors.controller.spec import ControllerSpec, VoterStart
from actors.links.secret import Marks
from actors.links.versions import OWN
from actors.log.files import REAL_WRITER
from actors.runtime.controllers import leading_of, name_of
from actors.runtime.environment import Clock
from actors.runtime.ray_runtime import ClusterError
from placement.nodes import Node, PlacementError, place_brokers, with_disk_of


class AlreadyRunsError(ClusterError):
    """Another program starts a cluster of this name at the same time."""


_PLACES: Final = Path("controller", "controllers.json")
_VOTES_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.1
_ANSWER_SECONDS: Final = 10.0


def check_count(controllers: int) -> None:
    """Raise ClusterError if a cluster cannot have so many controllers."""
    if controllers < 1 or controllers % 2 == 0:
        raise ClusterError(f"controllers must be an odd number, as most of them have to live; got {controllers}")


def start_some(
    ray: DriverRay, spec: ControllerSpec, count: int, clock: Clock
) -> tuple[FoundActor, list[tuple[str, int]]]:
    """Start the controller of a cluster, or its several ones. Returns the one that leads, and the brokers' addresses.

    Raises ClusterError; then nothing of the cluster runs.
    """
    return start_controller(ray, spec) if count == 1 else start_controllers(ray, spec, count, clock)


def start_controllers(
    ray: DriverRay, spec: ControllerSpec, count: int, clock: Clock
) -> tuple[FoundActor, list[tuple[str, int]]]:
    """Start a cluster's controllers, and have the one that leads start the brokers. Returns it, and their addresses.

    Raises ClusterError; then nothing of the cluster runs.
    """
    folder = Path(spec.data_dir)
    refuse_if_it_runs(ray, spec.name, folder)
    try:
        nodes = place_controllers(ray.nodes(), known_places(folder), count)
    except PlacementError as error:
        raise ClusterError(str(error)) from None
    try:
        return _started(ray, spec, nodes, clock)
    except AlreadyRunsError:
        raise
    except BaseException as error:  # Ctrl-C, too: detached actors outlive this program
        end_actors(ray, spec.name)
        if isinstance(error, GetTimeoutError):
            text = f"Ray has not started {count} controllers within {START_SECONDS:.0f} s: see `ray status`"
            raise ClusterError(text) from None
        if isinstance(error, RayActorError) and not error.actor_init_failed:
            text = "a controller's process ended during the start: start the cluster again, and if it does so again"
            raise ClusterError(f"{text}, see {spec.log_dir}") from None
        if isinstance(error, RayError | ConnectionError):
            raise ClusterError(f"{reason(error)}; see {spec.log_dir}") from None
        raise


def _started(
    ray: DriverRay, spec: ControllerSpec, nodes: Mapping[int, Node], clock: Clock
) -> tuple[FoundActor, list[tuple[str, int]]]:
    def start(controller_id: int, *, founds: bool) -> FoundActor:
        told = VoterStart(OWN, spec, controller_id, tuple(nodes), founds)
        return _start_at(ray, nodes[controller_id], told)

    # A new log is begun only if none of the others has one: the first one's disk may be another than it was.
    actors: dict[int, FoundActor] = {}
    give_secret(ray, spec, nodes.values())
    try:
        for each in filter(None, nodes):
            actors[each] = start(each, founds=False)
        founds = not any(_answers(actors.values(), "has_log", clock))
        actors[0] = start(0, founds=founds)
    except ValueError as error:  # another program has just started one of this name
        if isinstance(error, RayError):  # a method's own
            raise
        for actor in actors.values():
            actor.kill()
        raise AlreadyRunsError(f"a cluster called {spec.name!r} is being started on this Ray already") from None
    _answers(actors.values(), "own_address", clock)
    leader = leading_of(ray, list(actors.values()), START_SECONDS, clock)
    addresses: list[tuple[str, int]] = leader.ask("start_brokers", START_SECONDS).answer()
    _answers(actors.values(), "cluster_started", clock)
    _keep_places(Path(spec.data_dir), nodes)
    _await_votes(leader, len(nodes), clock)
    return leader, addresses


def _start_at(ray: DriverRay, node: Node, told: VoterStart) -> FoundActor:
    name = ActorName(told.spec.namespace, name_of(told.controller_id))
    return ray.start_at(node, Controller, name, told.encoded())


def _answers(actors: Iterable[FoundActor], method: str, clock: Clock) -> list[Any]:
    """The answers of all, which are asked at once."""
    deadline = clock.monotonic() + START_SECONDS
    return [call.answer(max(deadline - clock.monotonic(), 0.0)) for call in [each.ask(method) for each in actors]]


def _await_votes(leader: FoundActor, count: int, clock: Clock) -> None:
    """Wait until all controllers of a new cluster have a vote. It serves without that; a status shows who has none."""
    deadline = clock.monotonic() + _VOTES_SECONDS
    while clock.monotonic() < deadline:
        with contextlib.suppress(RayError):
            found = leader.ask("status").answer(_ANSWER_SECONDS).controllers
            if sum(each.role != "Observer" for each in found) >= count:
                return
        clock.sleep(_LOOK_SECONDS)


def place_controllers(alive: list[Node], known: Mapping[int, Node], count: int) -> dict[int, Node]:
    """The node of each controller: the one with its log, or for a new one a node that has none yet.

    The first of `alive` is the driver's own node, which has the first controller. Raises PlacementError.
    """
    if len(alive) == 1:
        return dict.fromkeys(range(count), alive[0])
    for controller_id, node in known.items():
        if controller_id < count and not with_disk_of(node, alive):
            raise PlacementError(
                f"the log of controller {controller_id} is on Ray node {node.home}, which is not in this Ray cluster "
                f"(its nodes are {', '.join(sorted(each.home for each in alive))}): start that node again"
            )
    nodes = place_brokers(alive, {0: alive[0], **known}, count)
    if len({node.node_id for node in nodes.values()}) < count:
        raise PlacementError(
            f"{count} controllers need {count} Ray nodes, so that the loss of one is that of one controller; this Ray "
            f"has {len(alive)}"
        )
    return nodes


def _place_another(alive: list[Node], known: Node | None, taken: Collection[str]) -> Node:
    """The node for one more controller, beside those at the addresses `taken`. Raises PlacementError."""
    if len(alive) == 1:
        return alive[0]
    homes = with_disk_of(known, alive) if known is not None else []  # none: its node is lost, and its log with it
    free = [each for each in homes or sorted(alive, key=lambda each: each.head) if each.address not in taken]
    if not free:
        raise PlacementError(
            f"one more controller needs a Ray node without one; the {len(alive)} nodes of this Ray have one each"
        )
    return free[0]


def known_places(folder: Path) -> dict[int, Node]:
    """The nodes that have the controllers' logs, as an earlier start has noted them. Raises PlacementError."""
    path = folder / _PLACES
    if not path.exists():
        return {}
    try:
        noted = json.loads(path.read_text())
        return {int(each): Node("", address, 0.0, name=label) for each, (address, label) in noted.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise PlacementError(f"{path} does not say where the controllers' logs are: {error}") from None


def _keep_places(folder: Path, nodes: Mapping[int, Node]) -> None:
    text = json.dumps({str(each): [node.address, node.name] for each, node in nodes.items()})
    REAL_WRITER.write_atomically(folder / _PLACES, text.encode())


def start_another(
    ray: DriverRay, cluster: str, controller_id: int, spec: ControllerSpec, others: Mapping[int, str], marks: Marks
) -> FoundActor:
    """Start one more controller, on the node that has its log, or on one without a controller. Returns its actor.

    One of its id that runs already is that. `others` has the addresses of the other ones, by id; `marks` are those of
    the cluster's secrets. Raises ClusterError.
    """
    if name_of(controller_id) in actors_of(ray, cluster):
        with contextlib.suppress(ValueError):
            return ray.find(ActorName(namespace(cluster), name_of(controller_id)))
    folder = Path(spec.data_dir)
    try:
        known = known_places(folder)
        node = _place_another(ray.nodes(), known.get(controller_id), others.values())
    except PlacementError as error:
        raise ClusterError(str(error)) from None
    give_secret(ray, spec, [node], marks)
    voters = tuple(sorted({*others, controller_id}))
    actor = _start_at(ray, node, VoterStart(OWN, spec, controller_id, voters, founds=False))
    try:
        actor.ask("cluster_started").answer(START_SECONDS)
    except RayError as error:
        actor.kill()
        raise ClusterError(reason(error)) from None
    if (folder / _PLACES).exists():  # this is the node of the program that has started the cluster
        _keep_places(folder, {**known, controller_id: node})
    return actor


def end_controller_of(ray: DriverRay, cluster: str, controller_id: int) -> None:
    """End the process of a controller, if there is one. It is not started again."""
    with contextlib.suppress(ValueError):
        ray.find(ActorName(namespace(cluster), name_of(controller_id))).kill()


def end_controllers(ray: DriverRay, cluster: str, leader: FoundActor) -> None:
    """Have the one that leads end brokers and shards, and end all controllers in any case. Raises RayError."""
    try:
        leader.ask("stop").answer(STOP_SECONDS)
    finally:
        end_actors(ray, cluster)
