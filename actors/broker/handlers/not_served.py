"""Requests that ApiVersions names and that are refused: the group protocols that are not served.

Kafka does the same while they are off, and then clients report an error at once. If the API is missing from ApiVersions
they may not: librdkafka's consumer waits for it to appear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    ApiMessage,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

SHARE = "share groups (KIP-932) are not served"

Refusal = Callable[[Any, ErrorCode, str | None], ApiMessage]


class NotServed:
    """One such API. The registry uses it in place of a handler's module."""

    def __init__(self, request: type[ApiMessage], versions: tuple[int, int], why: str, refusal: Refusal) -> None:
        self.API = request
        self.VERSIONS = versions
        self._why = why
        self._refusal = refusal

    def handle(self, context: HandlerContext, request: Request) -> ApiMessage:
        """Answered at once, with UNSUPPORTED_VERSION."""
        return self._refusal(request.message, ErrorCode.UNSUPPORTED_VERSION, self._why)

    def failed(self, message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ApiMessage:
        """The whole request refused."""
        return self._refusal(message, code, text)


def _whole(response: Callable[..., ApiMessage]) -> Refusal:
    return lambda message, code, text: response(error_code=code, error_message=text)


def _share_groups(message: ShareGroupDescribeRequest, code: ErrorCode, text: str | None) -> ApiMessage:
    group = ShareGroupDescribeResponse.DescribedGroup
    return ShareGroupDescribeResponse(
        groups=[group(group_id=each, error_code=code, error_message=text) for each in message.group_ids]
    )


def _share_offsets(message: DescribeShareGroupOffsetsRequest, code: ErrorCode, text: str | None) -> ApiMessage:
    group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
    return DescribeShareGroupOffsetsResponse(
        groups=[group(group_id=each.group_id, error_code=code, error_message=text) for each in message.groups]
    )


# The versions of Kafka 4.4.
SHARE_GROUP_HEARTBEAT = NotServed(ShareGroupHeartbeatRequest, (1, 1), SHARE, _whole(ShareGroupHeartbeatResponse))
SHARE_GROUP_DESCRIBE = NotServed(ShareGroupDescribeRequest, (1, 1), SHARE, _share_groups)
SHARE_FETCH = NotServed(ShareFetchRequest, (1, 2), SHARE, _whole(ShareFetchResponse))
SHARE_ACKNOWLEDGE = NotServed(ShareAcknowledgeRequest, (1, 2), SHARE, _whole(ShareAcknowledgeResponse))
DESCRIBE_SHARE_GROUP_OFFSETS = NotServed(DescribeShareGroupOffsetsRequest, (0, 1), SHARE, _share_offsets)
ALTER_SHARE_GROUP_OFFSETS = NotServed(
    AlterShareGroupOffsetsRequest, (0, 0), SHARE, _whole(AlterShareGroupOffsetsResponse)
)
DELETE_SHARE_GROUP_OFFSETS = NotServed(
    DeleteShareGroupOffsetsRequest, (0, 0), SHARE, _whole(DeleteShareGroupOffsetsResponse)
)
