"""The Ray nodes of a session's executors, by what nodes have: room, brokers, Java. Imported only for a session."""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.links.status import ClusterStatus
from actors.runtime import controllers, ray_inside
from actors.runtime.environment import REAL, Clock
from actors.runtime.process import last_line
from placement.executors import NoRoomError, Room, place_executors
from spark_bridge.encryption import what_is_wrong
from spark_bridge.java import WANTED, JavaError, find_java
from spark_bridge.spark_config import Application, SessionError

_MASTER: Final = "RAY_APP_MASTER"  # the fixed name of RayDP's actor
_PYTHON_MASTER: Final = "_SPARK_MASTER"
_NODE_LABEL: Final = "ray.io/node-id"
_ANSWER_SECONDS: Final = 30.0
_FREE_SECONDS: Final = 10.0
_PLACE_SECONDS: Final = 60.0
_ORDERLY_SECONDS: Final = 10.0
_GONE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class NodeJava:
    """The Java of a Ray node. `home` is that of a Java 17; None: there is none, and `why` says what there is."""

    address: str
    on_path: bool
    """True if any `java` is on the PATH of Ray's processes: without one Ray starts no Java actors."""
    needs_home: bool
    """True if the Java on PATH cannot be used, so that actors must be started with `home`."""
    home: str | None
    why: str
    has_python: bool


def refuse_taken_namespace() -> None:
    """Raise SessionError if another RayDP application has this Ray namespace, because its actors' names are fixed."""
    if _named(_MASTER):
        raise SessionError(
            f"Ray namespace {ray.get_runtime_context().namespace!r} has an application of RayDP already: connect with "
            "another namespace, ray.init(namespace=...), or without one"
        )


@contextlib.contextmanager
def placed(app: Application, clock: Clock = REAL.clock) -> Iterator[Any]:
    """Within the block there is a placement group with a bundle for each executor on its node; None for one node.

    Raises SessionError if the executors do not fit.
    """
    nodes = _choose_nodes(app, clock)
    if is_single():
        yield None
        return
    group = _group(app, nodes)
    try:
        yield group
    finally:
        ray.util.remove_placement_group(group)


def wait_until_gone(app: Application, in_order: bool = True, clock: Clock = REAL.clock) -> None:
    """Wait until the actors of this application are gone, so that the next one can have their names.

    Actors that do not end in time are killed; if not `in_order`, at once.
    """
    patience_s = _ORDERLY_SECONDS if in_order else 0.0
    begun = clock.monotonic()
    names = {_MASTER, app.name + _PYTHON_MASTER}
    while ray.is_initialized() and (left := [n for n in _names() if n in names or n.startswith("raydp-executor-")]):
        waited = clock.monotonic() - begun
        if waited > _GONE_SECONDS:
            warnings.warn(f"Spark session {app.name!r} has left {', '.join(left)} behind on Ray", stacklevel=2)
            return
        if waited > patience_s:
            _kill(left)
        clock.sleep(_POLL_SECONDS)


def _kill(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(ValueError):  # gone since
            ray.kill(ray.get_actor(name))


def is_single() -> bool:
    """True if Ray has one node."""
    return len(_alive()) == 1


def _alive() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def check_secret_file(path: str) -> None:
    """Raise SessionError, which names the node, if one has no such file with the secret of Spark's connections."""
    for address, wrong in _ask_nodes(what_is_wrong, path):
        if wrong is not None:
            raise SessionError(f"encrypted={path!r} on Ray node {address}: {wrong}")


def java_env_of_nodes(python: str) -> dict[str, str]:
    """The environment that the JVMs on Ray's nodes need; empty if the Java on the nodes' PATH can be used.

    Raises SessionError naming the node and what it has.
    """
    return choose_java([NodeJava(address, *answer) for address, answer in _ask_nodes(_probe, python)], python)


def choose_java(nodes: Sequence[NodeJava], python: str) -> dict[str, str]:
    """The environment for the JVMs of all these nodes. Raises SessionError if there is no common one."""
    for node in nodes:
        if not node.has_python:
            raise SessionError(f"Ray node {node.address} has no {python}: install the same Python on every Ray node")
        if node.home is None:
            raise SessionError(f"Ray node {node.address}: {node.why}")
        if not node.on_path:
            raise SessionError(
                f"Ray on node {node.address} was started without a java on PATH, so it cannot start Java actors: "
                f"set JAVA_HOME={node.home} and PATH={node.home}/bin:$PATH before `ray start`"
            )
    homes = {node.home for node in nodes if node.needs_home}
    if not homes:
        return {}
    unlike = [f"{node.address} has {node.home}" for node in nodes if node.home not in homes] if len(homes) == 1 else []
    if len(homes) > 1 or unlike:
        each = "; ".join(f"{node.address}: {node.home}" for node in nodes)
        raise SessionError(
            f"the Java on PATH of Ray's nodes is not {WANTED} everywhere, and no Java {WANTED} has the same path on "
            f"all of them ({each}): put one first on PATH before `ray start`"
        )
    home = homes.pop()
    # Ray fills in ${PATH} from each node's own environment.
    return {"JAVA_HOME": str(home), "PATH": f"{home}/bin:${{PATH}}"}


def _probe(python: str) -> tuple[bool, bool, str | None, str, bool]:
    """The fields of NodeJava after the address. Runs on the node."""
    path = os.environ.get("PATH", os.defpath)
    has_python = os.path.exists(python)
    on_path = shutil.which("java", path=path) is not None
    try:
        first = find_java({"PATH": path})
        if first.source != "PATH":
            first = find_java()
    except JavaError as error:
        return on_path, False, None, str(error), has_python
    return on_path, first.source != "PATH", str(first.home), "", has_python


def _ask_nodes(question: Callable[[str], Any], about: str) -> Iterator[tuple[str, Any]]:
    """The address of each node, and what the function returns there."""
    nodes = _alive()  # RayDP's masters, which need no CPU, can be on any
    asks = ray.remote(num_cpus=0, max_retries=0)(question)
    asked = [
        asks.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(about)
        for node in nodes
    ]
    for node, answer in zip(nodes, asked, strict=True):
        address = node["NodeManagerAddress"]
        try:
            yield address, ray.get(answer, timeout=_ANSWER_SECONDS)
        except ray.exceptions.RayError as error:
            raise SessionError(f"Ray node {address} cannot be asked what it has: {last_line(error)}") from error


def _choose_nodes(app: Application, clock: Clock) -> list[str]:
    """The node of each executor. If they do not fit, waits a while for room that is just being freed."""
    brokers = _brokers_by_node()
    deadline = clock.monotonic() + _FREE_SECONDS
    while True:
        try:
            return _place(app, _rooms(brokers, ray_inside.available_by_node()))
        except NoRoomError as error:
            if clock.monotonic() > deadline or not _would_fit(app, brokers):
                text = f"{error}: ask for less, end what else runs there, or give Ray more"
                raise SessionError(text) from error
        clock.sleep(_POLL_SECONDS)


def room_for(most: int, cpus: float, memory_bytes: int) -> int:
    """The number of further executors, up to `most`, that find room on Ray's nodes now."""
    rooms = _rooms({}, ray_inside.available_by_node())
    for count in range(most, 0, -1):
        with contextlib.suppress(NoRoomError):
            place_executors(rooms, count, cpus, memory_bytes)
            return count
    return 0


def _would_fit(app: Application, brokers: Mapping[str, int]) -> bool:
    try:
        _place(app, _rooms(brokers, {node["NodeID"]: node["Resources"] for node in ray.nodes()}))
    except NoRoomError:
        return False
    return True


def _place(app: Application, rooms: Sequence[Room]) -> list[str]:
    return place_executors(rooms, app.num_executors, app.executor_cpus, app.executor_memory_bytes)


def _rooms(brokers: Mapping[str, int], resources: Mapping[str, Mapping[str, float]]) -> list[Room]:
    rooms = []
    for node in ray.nodes():
        if node["Alive"]:
            name = node["NodeID"]
            free = resources.get(name, {})
            address = node["NodeManagerAddress"]
            rooms.append(Room(name, address, free.get("CPU", 0.0), free.get("memory", 0.0), brokers.get(name, 0)))
    return rooms


def _brokers_by_node() -> Counter[str]:
    """The number of Coterie's brokers on each Ray node, as their controllers say."""
    found: Counter[str] = Counter()
    for namespace in controllers.namespaces():
        # While a controller is being replaced, its brokers are not counted; that must not stop the session.
        with contextlib.suppress(ValueError, ConnectionError, ray.exceptions.RayError):
            status: ClusterStatus = controllers.leading(namespace, 5).ask("status").answer(5)
            found.update(broker.node_id for broker in status.brokers if broker.node_id)
    return found


def _group(app: Application, nodes: Sequence[str]) -> Any:
    group = ray.util.placement_group(
        [{"CPU": app.executor_cpus, "memory": app.executor_memory_bytes} for _ in nodes],
        strategy="PACK",
        bundle_label_selector=[{_NODE_LABEL: node} for node in nodes],
    )
    if group.wait(_PLACE_SECONDS):
        return group
    ray.util.remove_placement_group(group)
    raise SessionError(
        f"Ray has not given num_executors={app.num_executors} executors their places within {_PLACE_SECONDS:.0f} s: "
        "something else took the room meanwhile (`ray status`)"
    )


def _names() -> list[str]:
    return [name for name in ray.util.list_named_actors() if isinstance(name, str)]


def _named(name: str) -> bool:
    return name in _names()
