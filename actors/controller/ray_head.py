"""One line that says whether the loss of Ray's head ends a cluster.

No call of Ray's tells a driver where the GCS keeps its state. A worker has the environment of its node's `ray start`,
which the GCS has, too: a task on the head looks there. It does not see what `ray start --system-config` has set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from actors.controller.driver_ray import Asked, DriverRay, FoundActor, GetTimeoutError, RayError
from actors.controller.gcs_environment import environment
from actors.runtime.ray_inside import FILES, RECONNECT, REDIS, STORE, STORE_PATH
from placement.nodes import Node, staying_at

_ANSWER_SECONDS: Final = 5.0
_DEFAULT_SECONDS: Final = 60.0
_ENOUGH_SECONDS: Final = 600
_STORE_FIX: Final = f"{STORE}={FILES} and {STORE_PATH}=FOLDER, on a disk that is kept"
_RECONNECT_FIX: Final = f"{RECONNECT}={_ENOUGH_SECONDS} for every node"


class HeadLook:
    """Looks at the head, and at one other node, while a cluster starts: a task may take a second to begin.

    `controller_here`: the controller that will be asked is on this process's node.
    """

    def __init__(self, ray: DriverRay, *, controller_here: bool = True) -> None:
        nodes = ray.nodes()
        self._ray = ray
        self._is_here = controller_here and any(node.head for node in nodes[:1])  # and so the controller can say
        self._head = None if self._is_here else _asked(ray, nodes, head=True)
        self._other = _asked(ray, nodes, head=False)

    def line(self, controller: FoundActor) -> str:
        """The line about the Ray that this process is connected to."""
        head = controller.ask("ray_environment") if self._is_here else self._head
        return said(self._ray.address, _answer(head), _answer(self._other))


def _asked(ray: DriverRay, nodes: list[Node], *, head: bool) -> Asked | None:
    """Asks a node that is the head, or one that is not; None if there is none."""
    node = next((each for each in nodes if each.head == head), None)
    return None if node is None else ray.run(environment, staying_at(node, nodes))


def _answer(asked: Asked | None) -> dict[str, str] | None:
    """None if there is no answer in time: Ray is then to try no longer, as this program may run for days."""
    if asked is not None:
        try:
            found: dict[str, str] = asked.answer(_ANSWER_SECONDS)
            return found
        except GetTimeoutError:
            asked.call_off()
        except RayError:
            pass
    return None


def said(address: str, head: Mapping[str, str] | None, other: Mapping[str, str] | None) -> str:
    """The line, of the environments of the head and of one `other` node; None: not seen, or there is none."""
    if head is None:
        return (
            f"the Ray at {address}: its head did not say whether the cluster survives the loss of it. It does if the "
            f"head has {_STORE_FIX}, and {_RECONNECT_FIX}"
        )
    store, longest = _store(head), _seconds(head if other is None else other)
    if store is None:
        return (
            f"warning: the Ray at {address} keeps its state in memory: with its head, all nodes are lost, within "
            f"{longest:g} s. Before `ray start`, set {_STORE_FIX}, for the head, and {_RECONNECT_FIX}"
        )
    kept = f"the Ray at {address} keeps its state in {store}: keep that, and its head may be lost and come back"
    if longest <= _DEFAULT_SECONDS:
        return f"warning: {kept}, but only for {longest:g} s. Before `ray start`, set {_RECONNECT_FIX}"
    return f"{kept} within {longest:g} s"


def _store(head: Mapping[str, str]) -> str | None:
    if head.get(REDIS):
        return "a Redis"
    if head.get(STORE) == FILES:
        return f"{head.get(STORE_PATH)} of its head"
    return None


def _seconds(node: Mapping[str, str]) -> float:
    with contextlib.suppress(ValueError):
        return float(node.get(RECONNECT, _DEFAULT_SECONDS))
    return _DEFAULT_SECONDS
