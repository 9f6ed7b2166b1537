"""Controller: the Ray actor around a ControllerProcess.

Its metadata log survives it. When Ray restarts it, it has the same arguments and finds the same log. The brokers, which
have gone on serving, register again.

When Ray starts it again, it has the methods of its first process, which another build may have been: all that they name
is what is installed now. So they are one line each, and name only `starting.start` and the methods of
ControllerProcess, which keep their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import ray

from actors.controller.settings_in_force import Changed
from actors.controller.spec import ControllerSpec, ControllerStart
from actors.links.group_status import GroupStatus
from actors.links.operations import Operation, Result
from actors.links.pool_seals import Answer, Wish
from actors.links.pools import PoolFigures
from actors.links.removals import RemovalOutlook
from actors.links.replacements import Outlook
from actors.links.secret import Marks, Secrets
from actors.links.status import ClusterStatus

if TYPE_CHECKING:  # drivers do not import what a controller works with: they would start later
    from actors.controller.process import ControllerProcess

__all__ = ["Controller", "ControllerSpec", "ControllerStart"]

R = TypeVar("R", bound=Result)


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=8)
class Controller:
    """A controller of a cluster, in the cluster's namespace. `told` is a ControllerStart, or a VoterStart.

    The only one is called `controller`, each of several `controller-ID`. Each method is that of ControllerProcess with
    its name.
    """

    def __init__(self, told: bytes) -> None:
        from actors.controller.starting import start

        self._process: ControllerProcess = start(told)

    # --- how processes find and join the cluster ---

    def join_info(self) -> tuple[str, int, Marks]:
        return self._process.join_info()

    def ray_asks_for_token(self) -> bool:
        return self._process.ray_asks_for_token()

    def ray_environment(self) -> dict[str, str]:
        return self._process.ray_environment()

    def hand_out_secret(self, asks: int | str) -> Secrets:
        return self._process.hand_out_secret(asks)

    # --- one of several ---

    def leads(self) -> bool:
        return self._process.leads()

    def own_address(self) -> tuple[str, int]:
        return self._process.own_address()

    def has_log(self) -> bool:
        return self._process.has_log()

    def add_controller(self, controller_id: int, timeout_s: float) -> None:
        self._process.add_controller(controller_id, timeout_s)

    def remove_controller(self, controller_id: int, timeout_s: float) -> None:
        self._process.remove_controller(controller_id, timeout_s)

    def cluster_started(self) -> None:
        self._process.cluster_started()

    # --- brokers that start, come back, come and go ---

    def start_brokers(self, timeout_s: float) -> list[tuple[str, int]]:
        return self._process.start_brokers(timeout_s)

    def add_brokers(self, count: int, timeout_s: float) -> list[int]:
        return self._process.add_brokers(count, timeout_s)

    def restart_broker(self, broker_id: int, timeout_s: float) -> None:
        self._process.restart_broker(broker_id, timeout_s)

    def outlook(self, broker_id: int, *, node_is_off: bool) -> Outlook:
        return self._process.outlook(broker_id, node_is_off=node_is_off)

    def replace_broker(
        self, broker_id: int, *, node_is_off: bool, accept_data_loss: bool, timeout_s: float
    ) -> tuple[str, int]:
        return self._process.replace_broker(
            broker_id, node_is_off=node_is_off, accept_data_loss=accept_data_loss, timeout_s=timeout_s
        )

    def removal(self, broker_id: int) -> RemovalOutlook:
        return self._process.removal(broker_id)

    def remove_broker(self, broker_id: int, throttle: int | None) -> None:
        self._process.remove_broker(broker_id, throttle)

    def call_off_removal(self, broker_id: int) -> None:
        self._process.call_off_removal(broker_id)

    def left_out(self) -> list[int]:
        return self._process.left_out()

    def elect_preferred(self) -> None:
        self._process.elect_preferred()

    # --- other settings, and another secret ---

    def in_force(self) -> tuple[ControllerSpec, int]:
        return self._process.in_force()

    def reconfigure(self, changed: Changed) -> None:
        self._process.reconfigure(changed)

    def restarted_all(self) -> None:
        self._process.restarted_all()

    def begin_new_secret(self) -> None:
        self._process.begin_new_secret()

    def use_new_secret(self) -> None:
        self._process.use_new_secret()

    def forget_old_secret(self) -> None:
        self._process.forget_old_secret()

    def write_authority(self) -> None:
        self._process.write_authority()

    # --- what programs ask ---

    def addresses(self) -> list[tuple[str, int]]:
        return self._process.addresses()

    def has_topic(self, name: str) -> bool:
        return self._process.has_topic(name)

    def answer_pool(self, wish: Wish) -> Answer:
        return self._process.answer_pool(wish)

    def status(self) -> ClusterStatus:
        return self._process.status()

    def group_status(self, broker_id: int, group_id: str) -> GroupStatus | None:
        return self._process.group_status(broker_id, group_id)

    def tell_of_pool(self, figures: PoolFigures) -> None:
        self._process.tell_of_pool(figures)

    def view(self, operation: Operation[R]) -> R:
        return self._process.view(operation)

    # --- the end ---

    def stop(self) -> None:
        self._process.stop()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names that methods of controllers of earlier builds look for here."""
        if name == "__path__":  # every import from here asks for it
            raise AttributeError(name)
        from actors.controller import earlier_builds

        return earlier_builds.found(__name__, name)
