"""Places the brokers of a cluster on Ray nodes: each where its data is, a new one where there is room.

Here is also what each broker's process is told. This asks Ray, and waits for the metadata log: it runs in any thread
but the loop's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from actors.broker.spec import BrokerSpec
from actors.controller.homes import Homes
from actors.controller.launcher import ActorLauncher
from actors.controller.listeners import ListenerPlan, listeners_of, plan_listeners, told_otherwise
from actors.controller.on_loop import OnLoop
from actors.controller.ray_actors import RayActors
from actors.controller.spec import ControllerSpec, SpecInForce
from actors.settings import ANY_HOST, BrokerConfig
from placement.nodes import Node, place_brokers, with_disk_of


class BrokerPlacing:
    """Notes where brokers are in `homes`, and tells the launcher.

    After a restart of the controller, brokers that run keep their ports.
    """

    def __init__(
        self,
        spec: SpecInForce,
        actors: RayActors,
        launcher: ActorLauncher,
        homes: Homes,
        loop: OnLoop,
        *,
        restarted: bool,
    ) -> None:
        self._spec = spec
        self._actors = actors
        self._launcher = launcher
        self._homes = homes
        self._loop = loop
        self._restarted = restarted
        self.lock = threading.Lock()
        """Held by a thread that places brokers which are added or moved, or has them told something else."""

    def may_move(self, broker_id: int) -> bool:
        """True for a broker that was replaced and has no data yet: it may be started on any node."""
        directory = self._loop.controller.metadata.directories.get(broker_id)
        return directory is not None and directory.awaited

    def place(
        self,
        count: int,
        only: Sequence[int] | None = None,
        *,
        may_be_away: bool = False,
        elsewhere: int | None = None,
    ) -> list[int]:
        """Place brokers on Ray nodes; one that has data goes where that is. `only`: the others run already.

        `elsewhere` is a broker that has no data any more: it goes to another node than it had, if there is one. Returns
        the ids of all. Raises PlacementError, OSError, and Ray's errors.
        """
        spec = self._spec.now
        known = self._homes.known()
        count = max([count, *(broker_id + 1 for broker_id in known)])
        alive = self._actors.nodes()
        known = {b: home for b, home in known.items() if with_disk_of(home, alive) or not self.may_move(b)}
        if spec.host is not None and len({node.address for node in alive}) == 1:
            known = {}  # a cluster on one machine: addresses of Ray's do not matter
        plans = _plans(spec)
        if not {plan.host for plan in plans} <= {None, *ANY_HOST}:
            alive = [replace(node, head=False) for node in alive]  # only this machine is sure to have that address
        leaving = set(self._launcher.leaving(alive))
        if elsewhere is not None and (former := known.pop(elsewhere, None)) is not None:
            leaving |= {node.node_id for node in with_disk_of(former, alive)}
        nodes = place_brokers(
            *(alive, known, count),
            may_be_away=may_be_away,
            leaving=leaving,
            removed=self._loop.controller.decided.removed,
        )
        self._homes.keep(nodes, spec.port)
        for broker_id, node in nodes.items():
            if only is None or broker_id in only:
                self._launcher.add(self._told(spec, plans, broker_id, node), node)
        return sorted(nodes)

    def place_elsewhere(self, broker_id: int) -> None:
        """Place a broker on another node than it had, if it was replaced and has no data yet."""
        with self.lock:
            if self._loop.ask(self._loop.controller.replacing.moved, broker_id):
                self.place(0, [broker_id], may_be_away=True, elsewhere=broker_id)

    def _told(self, spec: ControllerSpec, plans: tuple[ListenerPlan, ...], broker_id: int, node: Node) -> BrokerSpec:
        return BrokerSpec(
            broker_id=broker_id,
            host=spec.own_host(node.address),
            doors=listeners_of(plans, broker_id, node.address, self._present_ports(broker_id)),
            data_dir=str(Path(spec.data_dir) / f"broker-{broker_id}"),
            socket_path=str(Path(spec.socket_dir) / f"{broker_id}.sock"),
            config=spec.effective,
        )

    def _present_ports(self, broker_id: int) -> dict[str, int]:
        """The ports of a broker that runs already, which its successor is to have too; none of a new one."""
        known = self._loop.controller.metadata.brokers.get(broker_id) if self._restarted else None
        return {each.listener: each.port for each in known.endpoints} if known is not None else {}

    def tell_otherwise(self) -> None:
        """Have brokers and the Monitor told the settings that hold now whenever they are started."""
        spec = self._spec.now
        plans = _plans(spec)
        self._launcher.tell_otherwise(lambda broker, node: told_otherwise(plans, spec.effective, broker, node.address))
        self._launcher.tell_monitor_otherwise(spec.monitor)


def _plans(spec: ControllerSpec) -> tuple[ListenerPlan, ...]:
    return plan_listeners(BrokerConfig.from_mapping(spec.effective), spec.host, spec.port)
