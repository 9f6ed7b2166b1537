"""InitProducerId: an id for an idempotent producer (KIP-98), out of blocks the controller hands out."""

from __future__ import annotations

import logging
from typing import Any

from actors.broker.context import BrokerContext, Request
from actors.broker.handlers.find_coordinator import NO_TRANSACTIONS
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger(__name__)

API = InitProducerIdRequest
VERSIONS = (0, 5)


def handle(context: BrokerContext, request: Request) -> InitProducerIdResponse | None:
    """A new id with epoch 0; parked while the next block is fetched, which many requests share."""
    m: InitProducerIdRequest = request.message
    if m.transactional_id is not None:
        return failed(m, request.version, NO_TRANSACTIONS[0])
    if context.producer_ids[0] < context.producer_ids[1]:
        return _next(context)
    context.producer_id_waiters.append(lambda: request.reply(_next(context)))
    if len(context.producer_id_waiters) == 1:
        context.controller.call("producer_ids", {}, lambda result, error: _received(context, result, error))
    return None


def _received(context: BrokerContext, result: dict[str, Any] | None, error: str | None) -> None:
    if result is None or error is not None:
        log.warning("no producer ids from the controller: %s", error)
    else:
        context.producer_ids[:] = [result["first"], result["first"] + result["count"]]
    waiters = context.producer_id_waiters.copy()
    context.producer_id_waiters.clear()
    for reply in waiters:
        reply()


def _next(context: BrokerContext) -> InitProducerIdResponse:
    first, end = context.producer_ids
    if first >= end:
        # Retriable, and what Kafka answers while it waits for a block (KIP-730).
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=-1, producer_epoch=-1
        )
    context.producer_ids[0] = first + 1
    return InitProducerIdResponse(producer_id=first, producer_epoch=0)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> InitProducerIdResponse:
    """The whole request refused."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
