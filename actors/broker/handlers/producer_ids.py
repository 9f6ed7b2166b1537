"""Ids for idempotent producers, from blocks that the controller gives to brokers (KIP-730)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.broker.context import Controller
from actors.links import operations

log = logging.getLogger(__name__)


class ProducerIds:
    """The block in use, and the requests that wait for the next one."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._next = self._end = 0
        self._waiting: list[Callable[[], None]] = []

    def take(self) -> int | None:
        """A new id; None if the block is used up."""
        if self._next >= self._end:
            return None
        self._next += 1
        return self._next - 1

    def fetch(self, done: Callable[[], None]) -> None:
        """Ask the controller for a block, unless that is under way. `done` is called when it has answered."""
        self._waiting.append(done)
        if len(self._waiting) == 1:
            self._controller.call(operations.AllocateProducerIds(), self._received)

    def _received(self, result: operations.ProducerIds | None, error: str | None) -> None:
        if result is None or error is not None:
            log.warning("no producer ids from the controller: %s", error)
        else:
            self._next, self._end = result.first, result.first + result.count
        waiting = self._waiting.copy()
        self._waiting.clear()
        for done in waiting:
            done()
