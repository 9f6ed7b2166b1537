"""DescribeAcls: answered SECURITY_DISABLED, as by a Kafka without an authorizer."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeAclsRequest, DescribeAclsResponse

API = DescribeAclsRequest
VERSIONS = (1, 3)


def handle(context: HandlerContext, request: Request) -> DescribeAclsResponse:
    """Answered at once."""
    text = "there are no ACLs: this broker has no authorizer"
    return failed(request.message, request.version, ErrorCode.SECURITY_DISABLED, text)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeAclsResponse:
    """The whole request refused."""
    return DescribeAclsResponse(error_code=code, error_message=text)
