"""Has the controller create `__consumer_offsets` when it is first needed."""

from __future__ import annotations

import logging

from actors.broker.context import Controller
from actors.links.operations import CreateOffsetsTopic, OffsetsTopicCreated

log = logging.getLogger(__name__)


class OffsetsTopic:
    """Asks for the topic, one call at a time."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._creating = False

    def ensure(self) -> None:
        """Have the topic created, unless that is under way. The next image shows the result."""
        if not self._creating:
            self._creating = True
            self._controller.call(CreateOffsetsTopic(), self._created)

    def _created(self, result: OffsetsTopicCreated | None, error: str | None) -> None:
        self._creating = False
        if result is not None and error is None:
            error = result.error_message
        if error is not None:
            log.warning("__consumer_offsets is not created, groups have no coordinator yet: %s", error)
