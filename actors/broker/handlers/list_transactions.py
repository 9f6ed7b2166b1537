"""ListTransactions: there are none (KIP-664)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ListTransactionsRequest, ListTransactionsResponse

API = ListTransactionsRequest
VERSIONS = (0, 2)

STATES = frozenset(
    (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    )
)


def handle(context: HandlerContext, request: Request) -> ListTransactionsResponse:
    """Answered at once. As in Kafka, unknown states are named in the answer, so that a typing error is seen."""
    m: ListTransactionsRequest = request.message
    return ListTransactionsResponse(unknown_state_filters=[s for s in m.state_filters if s not in STATES])


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ListTransactionsResponse:
    """The whole request refused."""
    return ListTransactionsResponse(error_code=code)
