"""A driver's orders about a cluster's several controllers: one is added, or removed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from actors.controller.asking import ControllerHandle
from actors.controller.driver_ray import DriverRay
from actors.controller.several_by_name import end_controller_of, start_another
from actors.controller.spec import ControllerSpec
from actors.runtime.ray_runtime import ClusterError

_TIMEOUT_SECONDS: Final = 60.0
_MORE_SECONDS: Final = 10.0


def _own(told: Any) -> ControllerSpec:
    """The same, of this process's class: Ray may have brought the class along with it."""
    return ControllerSpec(**{each.name: getattr(told, each.name) for each in fields(ControllerSpec)})


class Controllers:
    """Those of the cluster called `cluster`, of which `handle` finds the one that leads."""

    def __init__(self, ray: DriverRay, cluster: str, handle: ControllerHandle) -> None:
        self._ray = ray
        self._cluster = cluster
        self._handle = handle

    def add(self, controller_id: int, timeout_s: float = _TIMEOUT_SECONDS) -> None:
        """Start a controller, unless it runs, and give it a vote: a further one, or one that was removed.

        Raises ClusterError.
        """
        controllers = self._handle.ask("status").controllers
        others = {each.id: each.host for each in controllers if each.id != controller_id}
        if not others:
            raise ClusterError(f"cluster {self._cluster!r} was started with one controller, and can have no more")
        spec, _ = self._handle.ask("in_force")
        marks = self._handle.ask("join_info")[2]
        start_another(self._ray, self._cluster, controller_id, _own(spec), others, marks)
        self._handle.ask("add_controller", controller_id, timeout_s, within_s=timeout_s + _MORE_SECONDS)

    def remove(self, controller_id: int, timeout_s: float = _TIMEOUT_SECONDS) -> None:
        """Take a controller's vote, and end its process. Its log stays where it is. Raises ClusterError."""
        self._handle.ask("remove_controller", controller_id, timeout_s, within_s=timeout_s + _MORE_SECONDS)
        end_controller_of(self._ray, self._cluster, controller_id)
