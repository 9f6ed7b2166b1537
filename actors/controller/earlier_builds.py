"""Names that methods of controllers of earlier builds have for what is elsewhere now, or done in another way.

When Ray starts a controller again, it has the methods of its first process; all that they name is what is installed
now. They look for these names in `actor` and `launcher`, and for others in `doors` and `server`. All this stays until
no cluster is left that was started with them. `tests/component/test_controller_shells.py` starts some of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from actors.broker.spec import BrokerSpec
from actors.controller.active import ActiveController
from actors.controller.launcher import ActorLauncher
from actors.controller.listeners import ListenerPlan, told_otherwise
from actors.controller.ray_actors import ActorsOnRay
from actors.controller.reports import with_shards
from actors.controller.sessions import close_broker, group_status, shards_of
from actors.controller.spec import ControllerSpec
from actors.controller.work_thread import WorkThread
from actors.links.group_status import GroupStatus
from actors.links.status import ClusterStatus
from actors.monitor.spec import MonitorSpec
from actors.runtime.logs import LogPlace
from placement.nodes import Node

_SHARDS_SECONDS: Final = 2.0


class RayLauncher(ActorLauncher):
    """The launcher as those methods know it: what it has to say is in attributes, which they read and set."""

    def __init__(self, namespace: str, logs: LogPlace, _version: str, _node_id: str) -> None:
        self.start_failed: Callable[[int], None] = lambda broker_id: None
        self.may_move: Callable[[int], bool] = lambda broker_id: False
        self.place_elsewhere: Callable[[int], None] = lambda broker_id: None
        self.errors: dict[int, str] = {}
        super().__init__(ActorsOnRay(namespace), namespace, logs, _Attributes(self), WorkThread("coterie-launcher"))

    @property
    def monitor(self) -> MonitorSpec | None:
        """The spec of the Monitor."""
        return self._monitor

    @monitor.setter
    def monitor(self, spec: MonitorSpec) -> None:
        self.tell_monitor_otherwise(spec)

    @property
    def start_timeout_s(self) -> float:
        """The time without a sign of life after which a process is given up."""
        return self._start_timeout_s

    @start_timeout_s.setter
    def start_timeout_s(self, timeout_s: float) -> None:
        self.expect_short_starts(timeout_s)

    @property
    def starts_under_way(self) -> bool:
        """True while a broker's process is starting."""
        return self.is_starting()

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        """A broker has registered."""
        super().registered(broker_id, ports)
        self.errors.pop(broker_id, None)


class _Attributes:
    """Tells them what a launcher tells its owner."""

    def __init__(self, launcher: RayLauncher) -> None:
        self._launcher = launcher

    def start_failed(self, broker_id: int, reason: str) -> None:
        self._launcher.errors[broker_id] = reason
        self._launcher.start_failed(broker_id)

    def may_move(self, broker_id: int) -> bool:
        return self._launcher.may_move(broker_id)

    def place_elsewhere(self, broker_id: int) -> None:
        self._launcher.place_elsewhere(broker_id)


def _told(plans: tuple[ListenerPlan, ...], spec: ControllerSpec, broker: BrokerSpec, node: Node) -> BrokerSpec:
    return told_otherwise(plans, spec.effective, broker, node.address)


def _monitor_of(spec: ControllerSpec) -> MonitorSpec:
    return spec.monitor


async def _close_broker(server: ActiveController, broker_id: int) -> None:
    await close_broker(server.brokers, broker_id)


async def _look(server: ActiveController) -> ClusterStatus:
    shards = await shards_of(server.brokers.values(), _SHARDS_SECONDS)
    return with_shards(server.status(), server.metadata, shards, server.absence)


async def _look_at_group(server: ActiveController, broker_id: int, group_id: str) -> GroupStatus | None:
    return await group_status(server.brokers, broker_id, group_id)


def _home(address: str, _port: int, name: str = "", *_: Any) -> Node:
    return Node("", address, 0.0, name=name)


_IN_ACTOR: Final = (_told, _monitor_of, _close_broker, _look, _look_at_group, _home)
_NAMES: Final[dict[str, dict[str, Any]]] = {
    "actors.controller.actor": {each.__name__: each for each in _IN_ACTOR},
    "actors.controller.launcher": {"RayLauncher": RayLauncher},
}


def found(module: str, name: str) -> Any:
    """The object that a module had under a name. Raises AttributeError."""
    try:
        return _NAMES[module][name]
    except KeyError:
        raise AttributeError(f"module {module!r} has no attribute {name!r}") from None
