"""DeleteTopics: decided by the controller, answered when the living brokers have forgotten the topics."""

from __future__ import annotations

from typing import Any

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DeleteTopicsRequest, DeleteTopicsResponse

API = DeleteTopicsRequest
VERSIONS = (1, 6)

Result = DeleteTopicsResponse.DeletableTopicResult

_IDS_FROM = 6
_DISABLED_FROM = 3
_NO_ID = bytes(16)


def handle(context: HandlerContext, request: Request) -> None:
    """Topics are named, from version 6 on by name or id (KIP-516)."""
    m: DeleteTopicsRequest = request.message

    def answer(results: list[dict[str, Any]]) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=[_result(result, request.version) for result in results])

    forward(context.broker, request, "delete_topics", {"topics": _asked(m, request.version)}, answer, failed)


def _asked(m: DeleteTopicsRequest, version: int) -> list[dict[str, Any]]:
    if version < _IDS_FROM:
        return [{"name": name, "topic_id": None} for name in m.topic_names]
    return [
        {"name": topic.name, "topic_id": topic.topic_id if topic.topic_id != _NO_ID else None} for topic in m.topics
    ]


def _result(result: dict[str, Any], version: int) -> Result:
    code = result["error_code"]
    if code == ErrorCode.TOPIC_DELETION_DISABLED and version < _DISABLED_FROM:
        code = ErrorCode.INVALID_REQUEST  # older clients do not know the code (KIP-322)
    return Result(
        name=result["name"], topic_id=result["topic_id"], error_code=code, error_message=result["error_message"]
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DeleteTopicsResponse:
    """The whole request refused."""
    assert isinstance(message, DeleteTopicsRequest)
    return DeleteTopicsResponse(
        responses=[
            Result(name=asked["name"], topic_id=asked["topic_id"] or _NO_ID, error_code=code, error_message=text)
            for asked in _asked(message, version)
        ]
    )
