"""A launcher with a Ray that the test plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from actors.broker.spec import BrokerSpec, Door
from actors.controller.launcher import ActorLauncher
from actors.monitor.spec import MonitorSpec
from actors.runtime.environment import REAL, Clock
from actors.runtime.logs import LogPlace
from tests.support.fake_ray import NODES, FakeRay, HandWork

OF_BROKER = BrokerSpec(0, "10.0.0.0", (Door("PLAINTEXT", "10.0.0.0", 0, "10.0.0.0"),), "", "", {})


class Launched:
    """A launcher with broker 0 on the first node, and the controller that owns it. `failed` are starts that failed."""

    def __init__(self, folder: Path, node_id: str = "node", of_controller: str = "") -> None:
        self.ray = FakeRay(node_id)
        self.work = HandWork()
        self.failed: list[int] = []
        self.reasons: dict[int, str] = {}
        self.replaced: set[int] = set()
        self.elsewhere: Callable[[int], None] = lambda broker_id: None
        environment = replace(REAL, clock=Clock(monotonic=lambda: self.work.now))
        monitor = MonitorSpec("c", "coterie-c", str(folder), "", {})
        self.launcher = ActorLauncher(
            *(self.ray, "coterie-c", LogPlace(str(folder), "c"), self, self.work, monitor, environment, of_controller)
        )
        self.launcher.add(OF_BROKER, NODES[0])

    def start_failed(self, broker_id: int, reason: str) -> None:
        self.failed.append(broker_id)
        self.reasons[broker_id] = reason

    def may_move(self, broker_id: int) -> bool:
        return broker_id in self.replaced

    def place_elsewhere(self, broker_id: int) -> None:
        self.elsewhere(broker_id)
