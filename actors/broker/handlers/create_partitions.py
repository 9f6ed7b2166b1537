"""CreatePartitions: more partitions for a topic (KIP-195), decided by the controller."""

from __future__ import annotations

from collections import Counter

from actors.broker.context import BrokerContext
from actors.broker.handlers.authorization import denied
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.broker.handlers.mutations import EXCEEDED, charge
from actors.broker.handlers.rights import ALTER_TOPIC
from actors.links.operations import CreatedPartitions, CreatePartitions, GrownTopic, TopicOutcome
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, CreatePartitionsRequest, CreatePartitionsResponse

API = CreatePartitionsRequest
VERSIONS = (0, 3)

Result = CreatePartitionsResponse.CreatePartitionsTopicResult

_STRICT_FROM = 3


def handle(context: HandlerContext, request: Request) -> CreatePartitionsResponse | None:
    """Answered by the controller. `count` is the number of partitions a topic shall have in all."""
    m: CreatePartitionsRequest = request.message
    times = Counter(topic.name for topic in m.topics)
    forbidden = denied(context, request, ALTER_TOPIC, (name for name, n in times.items() if n == 1))
    left = [i for i, topic in enumerate(m.topics) if topic.name not in forbidden]
    costs = {i: 0 if m.validate_only else _more(context.broker, m.topics[i]) for i in left}
    exceeded, throttle_ms = charge(context, request, _STRICT_FROM, costs)
    asked = tuple(_asked(m.topics[i]) for i in left if i not in exceeded)

    def answer(created: CreatedPartitions) -> CreatePartitionsResponse:
        decided = iter(created.topics)
        refused = {i: _exceeded(m.topics[i].name) for i in exceeded}
        refused |= {i: _denied(topic.name) for i, topic in enumerate(m.topics) if topic.name in forbidden}
        results = [refused.get(i) or _result(next(decided)) for i in range(len(m.topics))]
        return CreatePartitionsResponse(throttle_time_ms=throttle_ms, results=results)

    if (forbidden or exceeded) and not asked:
        return answer(CreatedPartitions(()))
    forward(context.broker, request, CreatePartitions(asked, m.validate_only), answer, failed)
    return None


def _more(broker: BrokerContext, topic: CreatePartitionsRequest.CreatePartitionsTopic) -> int:
    known = broker.metadata.topics.get(topic.name)
    return 0 if known is None else max(topic.count - len(known.partitions), 0)


def _asked(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> GrownTopic:
    given = None if topic.assignments is None else tuple(tuple(each.broker_ids) for each in topic.assignments)
    return GrownTopic(topic.name, topic.count, given)


def _result(topic: TopicOutcome) -> Result:
    return Result(name=topic.name, error_code=topic.error_code, error_message=topic.error_message)


def _denied(name: str) -> Result:
    return Result(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None)


def _exceeded(name: str) -> Result:
    return Result(name=name, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message=EXCEEDED)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> CreatePartitionsResponse:
    """The whole request refused."""
    assert isinstance(message, CreatePartitionsRequest)
    return CreatePartitionsResponse(
        results=[Result(name=topic.name, error_code=code, error_message=text) for topic in message.topics]
    )
