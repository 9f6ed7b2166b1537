"""The launcher's way to parts that are made after it, and news of nodes for a controller that may lead no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from actors.controller.launcher import ActorLauncher
from actors.controller.on_loop import OnLoop
from actors.controller.placing import BrokerPlacing
from actors.links.not_controller import NotControllerError


class LauncherOwner:
    """The `Owner` of a launcher (`launcher`). `loop` and `placing` give what is made later."""

    def __init__(self, loop: Callable[[], OnLoop], placing: Callable[[], BrokerPlacing]) -> None:
        self._loop = loop
        self._placing = placing

    def start_failed(self, broker_id: int, reason: str) -> None:
        loop = self._loop()
        with suppress(NotControllerError):  # the next one finds out
            loop.tell(loop.controller.start_failed, broker_id, reason)

    def may_move(self, broker_id: int) -> bool:
        return self._placing().may_move(broker_id)

    def place_elsewhere(self, broker_id: int) -> None:
        self._placing().place_elsewhere(broker_id)


def tell_drained(launcher: ActorLauncher, loop: OnLoop, nodes: Mapping[str, int]) -> None:
    """Tell both which nodes are drained. One that does not lead starts nothing anyway."""
    with suppress(NotControllerError):
        controller = loop.controller
        launcher.start_nothing_on(nodes)
        loop.tell(controller.draining.told, nodes)
