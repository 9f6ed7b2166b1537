"""Requests that the controller decides: asked of it, and answered when it has answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from actors.broker.context import BrokerContext
from actors.broker.handlers.context import Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage

log = logging.getLogger(__name__)


def forward(
    broker: BrokerContext,
    request: Request,
    operation: str,
    arguments: Mapping[str, Any],
    answer: Callable[[Any], ApiMessage],
    failed: Callable[[ApiMessage, int, ErrorCode, str | None], ApiMessage],
) -> None:
    """Ask the controller; the request is answered with `answer(result)`, or with `failed` if none comes.

    Without an answer nobody knows whether it was done: REQUEST_TIMED_OUT, as in Kafka.
    """

    def done(result: Any, error: str | None) -> None:
        if error is not None:
            text = f"the controller did not answer: {error}"
            request.reply(failed(request.message, request.version, ErrorCode.REQUEST_TIMED_OUT, text))
            return
        try:
            response = answer(result)
        except Exception:
            log.exception("the controller's answer to %s is not understood", operation)
            response = failed(request.message, request.version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        request.reply(response)

    broker.controller.call(operation, arguments, done)
