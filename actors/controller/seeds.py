"""The addresses of the other controllers, as Ray's actors tell them: for those that the metadata does not know yet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from actors.controller.ray_actors import RayActors
from actors.controller.work_thread import Work
from actors.runtime.controllers import name_of
from actors.runtime.process import last_line

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 5.0


class Seeds:
    """Asks in a thread of its own, one controller after the other: nobody waits for Ray."""

    def __init__(self, actors: RayActors, work: Work, clock: Callable[[], float]) -> None:
        self._actors = actors
        self._work = work
        self._clock = clock
        self._due: dict[int, float] = {}
        self._found: dict[int, tuple[str, int]] = {}

    def address_of(self, controller_id: int) -> tuple[str, int] | None:
        """The address that a controller told last. It is asked for another time, because that may be an old one."""
        if self._clock() >= self._due.get(controller_id, 0.0):
            self._due[controller_id] = self._clock() + _ANSWER_SECONDS  # until it has answered
            self._work.put(partial(self._ask, controller_id))
        return self._found.get(controller_id)

    def _ask(self, controller_id: int) -> None:
        try:
            host, port = self._actors.ask(name_of(controller_id), "own_address", within_s=_ANSWER_SECONDS)
            self._found[controller_id] = (str(host), int(port))
        except Exception as error:  # Ray raises many kinds; it is asked again
            log.debug("controller %d does not say where it is: %s", controller_id, last_line(error))
        self._due[controller_id] = self._clock() + _AGAIN_SECONDS
