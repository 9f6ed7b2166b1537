"""DeleteTopics: decided by the controller, answered when the living brokers have forgotten the topics."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import DeletedTopic, DeletedTopics, DeleteTopics, DoomedTopic
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DeleteTopicsRequest, DeleteTopicsResponse

API = DeleteTopicsRequest
VERSIONS = (1, 6)

Result = DeleteTopicsResponse.DeletableTopicResult

_IDS_FROM = 6
_DISABLED_FROM = 3
_NO_ID = bytes(16)


def handle(context: HandlerContext, request: Request) -> None:
    """Answered by the controller. From version 6 on, topics are given by name or by id (KIP-516)."""
    m: DeleteTopicsRequest = request.message

    def answer(deleted: DeletedTopics) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=[_result(topic, request.version) for topic in deleted.topics])

    forward(context.broker, request, DeleteTopics(_asked(m, request.version)), answer, failed)


def _asked(m: DeleteTopicsRequest, version: int) -> tuple[DoomedTopic, ...]:
    if version < _IDS_FROM:
        return tuple(DoomedTopic(name) for name in m.topic_names)
    return tuple(DoomedTopic(t.name, t.topic_id if t.topic_id != _NO_ID else None) for t in m.topics)


def _result(topic: DeletedTopic, version: int) -> Result:
    code = topic.error_code
    if code == ErrorCode.TOPIC_DELETION_DISABLED and version < _DISABLED_FROM:
        code = ErrorCode.INVALID_REQUEST  # older clients do not know the code (KIP-322)
    return Result(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=topic.error_message)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DeleteTopicsResponse:
    """The whole request refused."""
    assert isinstance(message, DeleteTopicsRequest)
    return DeleteTopicsResponse(
        responses=[
            Result(name=asked.name, topic_id=asked.topic_id or _NO_ID, error_code=code, error_message=text)
            for asked in _asked(message, version)
        ]
    )
