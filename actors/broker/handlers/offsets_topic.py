"""The lazy creation of `__consumer_offsets`: at the first need, once, by the controller."""

from __future__ import annotations

import logging
from typing import Any

from actors.broker.context import BrokerContext

log = logging.getLogger(__name__)


def ensure_offsets_topic(context: BrokerContext) -> None:
    """Have the topic created unless that is under way. What comes of it, the next image tells."""
    if context.creating_offsets_topic:
        return
    context.creating_offsets_topic = True

    def done(result: dict[str, Any] | None, error: str | None) -> None:
        context.creating_offsets_topic = False
        if result is not None and error is None:
            error = result["error_message"]
        if error is not None:
            log.warning("__consumer_offsets is not created, groups have no coordinator yet: %s", error)

    context.controller.call("create_offsets_topic", {}, done)
