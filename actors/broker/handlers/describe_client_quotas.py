"""DescribeClientQuotas: there are none (KIP-546)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeClientQuotasRequest, DescribeClientQuotasResponse

API = DescribeClientQuotasRequest
VERSIONS = (0, 1)


def handle(context: HandlerContext, request: Request) -> DescribeClientQuotasResponse:
    """Answered at once: no entity has a quota, whatever is asked for."""
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeClientQuotasResponse:
    """The whole request refused."""
    return DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None)
