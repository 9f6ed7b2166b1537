"""Has the controller create the topic of a kind of coordinator when it is first needed."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from actors.broker.context import Controller
from actors.coordinator_kinds.kind import CoordinatorKind

log = logging.getLogger(__name__)


class InternalTopics:
    """Asks for the topics, for each with one call at a time."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._creating: set[CoordinatorKind] = set()

    def ensure(self, kind: CoordinatorKind) -> None:
        """Have the topic created, unless that is under way. The next image shows the result."""
        if kind not in self._creating:
            self._creating.add(kind)
            self._controller.call(kind.creation(), partial(self._created, kind))

    def _created(self, kind: CoordinatorKind, result: Any, error: str | None) -> None:
        self._creating.discard(kind)
        if result is not None and error is None:
            error = result.error_message
        if error is not None:
            log.warning("%s is not created, %s have no coordinator yet: %s", kind.topic, kind.name, error)
