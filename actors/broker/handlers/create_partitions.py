"""CreatePartitions: more partitions for a topic (KIP-195), decided by the controller."""

from __future__ import annotations

from collections import Counter

from actors.broker.handlers.authorization import denied
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.broker.handlers.rights import ALTER_TOPIC
from actors.links.operations import CreatedPartitions, CreatePartitions, GrownTopic, TopicOutcome
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, CreatePartitionsRequest, CreatePartitionsResponse

API = CreatePartitionsRequest
VERSIONS = (0, 3)

Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def handle(context: HandlerContext, request: Request) -> CreatePartitionsResponse | None:
    """Answered by the controller. `count` is the number of partitions a topic shall have in all."""
    m: CreatePartitionsRequest = request.message
    times = Counter(topic.name for topic in m.topics)
    forbidden = denied(context, request, ALTER_TOPIC, (name for name, n in times.items() if n == 1))
    asked = tuple(_asked(topic) for topic in m.topics if topic.name not in forbidden)

    def answer(created: CreatedPartitions) -> CreatePartitionsResponse:
        decided = iter(created.topics)
        return CreatePartitionsResponse(
            results=[_denied(t.name) if t.name in forbidden else _result(next(decided)) for t in m.topics]
        )

    if forbidden and not asked:
        return answer(CreatedPartitions(()))
    forward(context.broker, request, CreatePartitions(asked, m.validate_only), answer, failed)
    return None


def _asked(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> GrownTopic:
    given = None if topic.assignments is None else tuple(tuple(each.broker_ids) for each in topic.assignments)
    return GrownTopic(topic.name, topic.count, given)


def _result(topic: TopicOutcome) -> Result:
    return Result(name=topic.name, error_code=topic.error_code, error_message=topic.error_message)


def _denied(name: str) -> Result:
    return Result(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> CreatePartitionsResponse:
    """The whole request refused."""
    assert isinstance(message, CreatePartitionsRequest)
    return CreatePartitionsResponse(
        results=[Result(name=topic.name, error_code=code, error_message=text) for topic in message.topics]
    )
