"""CreatePartitions: more partitions for a topic (KIP-195), decided by the controller."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.operations import CreatedPartitions, CreatePartitions, GrownTopic
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, CreatePartitionsRequest, CreatePartitionsResponse

API = CreatePartitionsRequest
VERSIONS = (0, 3)

Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def handle(context: HandlerContext, request: Request) -> None:
    """Answered by the controller. `count` is the number of partitions a topic shall have in all."""
    m: CreatePartitionsRequest = request.message
    operation = CreatePartitions(tuple(_asked(topic) for topic in m.topics), m.validate_only)
    forward(context.broker, request, operation, _answer, failed)


def _asked(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> GrownTopic:
    given = None if topic.assignments is None else tuple(tuple(each.broker_ids) for each in topic.assignments)
    return GrownTopic(topic.name, topic.count, given)


def _answer(created: CreatedPartitions) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[Result(name=t.name, error_code=t.error_code, error_message=t.error_message) for t in created.topics]
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> CreatePartitionsResponse:
    """The whole request refused."""
    assert isinstance(message, CreatePartitionsRequest)
    return CreatePartitionsResponse(
        results=[Result(name=topic.name, error_code=code, error_message=text) for topic in message.topics]
    )
