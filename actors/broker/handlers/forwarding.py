"""Requests that the controller decides: they are passed on to it, and answered when it has answered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from actors.broker.context import BrokerContext
from actors.broker.handlers.context import Request
from actors.links.calls import Fault
from actors.links.operations import Operation, Result
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Result)


def forward(
    broker: BrokerContext,
    request: Request,
    operation: Operation[R],
    answer: Callable[[R], ApiMessage],
    failed: Callable[[ApiMessage, int, ErrorCode, str | None], ApiMessage],
) -> None:
    """Ask the controller. The request is answered with `answer(result)`, or with `failed` if there is no result.

    Then nobody knows whether the operation was carried out, so the code is REQUEST_TIMED_OUT, as in Kafka. If it was a
    bug of the controller's, it is UNKNOWN_SERVER_ERROR.
    """

    def done(result: R | None, error: str | None) -> None:
        if result is None:
            request.reply(failed(request.message, request.version, *_why_not(error)))
            return
        try:
            response = answer(result)
        except Exception:  # a bug, in the turn of the controller's link: the client waits
            log.exception("the controller's answer to %s is not understood", type(operation).__name__)
            response = failed(request.message, request.version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        request.reply(response)

    broker.controller.call(operation, done, request.connection.principal)


def _why_not(error: str | None) -> tuple[ErrorCode, str]:
    if isinstance(error, Fault):
        return ErrorCode.UNKNOWN_SERVER_ERROR, error
    return ErrorCode.REQUEST_TIMED_OUT, f"the controller did not answer: {error}"
