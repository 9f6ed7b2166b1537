"""DescribeUserScramCredentials: refused, because there is no SASL (KIP-554)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiMessage,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

API = DescribeUserScramCredentialsRequest
VERSIONS = (0, 0)


def handle(context: HandlerContext, request: Request) -> DescribeUserScramCredentialsResponse:
    """Answered at once."""
    text = "there are no SCRAM credentials: this broker has no SASL listener"
    return failed(request.message, request.version, ErrorCode.SECURITY_DISABLED, text)


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> DescribeUserScramCredentialsResponse:
    """The whole request refused."""
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=text)
