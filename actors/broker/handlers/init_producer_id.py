"""InitProducerId: an id for an idempotent producer (KIP-98), from a block that the controller has given."""

from __future__ import annotations

from actors.broker.handlers.authorization import may, may_produce_anything
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.find_coordinator import NO_TRANSACTIONS
from actors.broker.handlers.rights import WRITE_TRANSACTIONAL_ID
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, InitProducerIdRequest, InitProducerIdResponse

API = InitProducerIdRequest
VERSIONS = (0, 5)


def handle(context: HandlerContext, request: Request) -> InitProducerIdResponse | None:
    """A new id with epoch 0. If the block is used up, the request is parked until the next one is there."""
    m: InitProducerIdRequest = request.message
    if m.transactional_id is not None:
        may(context, request, WRITE_TRANSACTIONAL_ID, m.transactional_id)  # the code is the same: for the audit log
        return failed(m, request.version, NO_TRANSACTIONS[0])
    if not may_produce_anything(context, request):
        return failed(m, request.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    number = context.producer_ids.take()
    if number is not None:
        return _given(number)
    context.producer_ids.fetch(lambda: request.reply(_given(context.producer_ids.take())))
    return None


def _given(number: int | None) -> InitProducerIdResponse:
    if number is None:
        # Retriable, and what Kafka answers while it waits for a block (KIP-730).
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=-1, producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=number, producer_epoch=0)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> InitProducerIdResponse:
    """The whole request refused."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
