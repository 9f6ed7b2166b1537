"""CreatePartitions: more partitions for a topic (KIP-195), decided by the controller."""

from __future__ import annotations

from typing import Any

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, CreatePartitionsRequest, CreatePartitionsResponse

API = CreatePartitionsRequest
VERSIONS = (0, 3)

Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def handle(context: HandlerContext, request: Request) -> None:
    """`count` is a topic's new total."""
    m: CreatePartitionsRequest = request.message
    arguments = {"topics": [_arguments(topic) for topic in m.topics], "validate_only": m.validate_only}
    forward(context.broker, request, "create_partitions", arguments, _answer, failed)


def _arguments(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> dict[str, Any]:
    given = None if topic.assignments is None else [list(each.broker_ids) for each in topic.assignments]
    return {"name": topic.name, "count": topic.count, "assignments": given}


def _answer(results: list[dict[str, Any]]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[Result(name=r["name"], error_code=r["error_code"], error_message=r["error_message"]) for r in results]
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> CreatePartitionsResponse:
    """The whole request refused."""
    assert isinstance(message, CreatePartitionsRequest)
    return CreatePartitionsResponse(
        results=[Result(name=topic.name, error_code=code, error_message=text) for topic in message.topics]
    )
