"""DeleteTopics: decided by the controller, answered when the living brokers have forgotten the topics."""

from __future__ import annotations

from collections import Counter

from actors.broker.context import BrokerContext
from actors.broker.handlers.authorization import denied, hidden, would
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.broker.handlers.mutations import EXCEEDED, charge
from actors.broker.handlers.rights import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC
from actors.links.operations import DeletedTopic, DeletedTopics, DeleteTopics, DoomedTopic
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DeleteTopicsRequest, DeleteTopicsResponse

API = DeleteTopicsRequest
VERSIONS = (1, 6)

Result = DeleteTopicsResponse.DeletableTopicResult

_IDS_FROM = 6
_STRICT_FROM = 5
_DISABLED_FROM = 3
_NO_ID = bytes(16)


def handle(context: HandlerContext, request: Request) -> DeleteTopicsResponse | None:
    """Answered by the controller. From version 6 on, topics are given by name or by id (KIP-516).

    The answers are in the order of the request, so that their places tell nothing about what exists. (Kafka, whose
    places would, mixes them.)
    """
    m: DeleteTopicsRequest = request.message
    asked = _asked(m, request.version)
    refused = _refused(context, request, asked)
    costs = {i: _partitions(context.broker, topic) for i, topic in enumerate(asked) if i not in refused}
    exceeded, throttle_ms = charge(context, request, _STRICT_FROM, costs)
    refused |= {i: _exceeded(asked[i]) for i in exceeded}
    left = tuple(topic for i, topic in enumerate(asked) if i not in refused)

    def answer(deleted: DeletedTopics) -> DeleteTopicsResponse:
        decided = iter(deleted.topics)
        topics = (refused.get(i) or next(decided) for i in range(len(asked)))
        responses = [_result(topic, request.version) for topic in topics]
        return DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=responses)

    if refused and not left:
        return answer(DeletedTopics(()))
    forward(context.broker, request, DeleteTopics(left), answer, failed)
    return None


def _refused(context: HandlerContext, request: Request, asked: tuple[DoomedTopic, ...]) -> dict[int, DeletedTopic]:
    """Topics that the controller is not asked about, by place: named twice, or not the client's to delete.

    A topic that is given by its id is judged by its name. That a topic has an id is no secret, unlike its name.
    """
    times = Counter((topic.name, topic.topic_id) for topic in asked)
    refused = {}
    for i, topic in enumerate(asked):
        if times[topic.name, topic.topic_id] > 1:
            text = f"topic {topic.name or (topic.topic_id or _NO_ID).hex()!r} is named more than once"
            refused[i] = DeletedTopic(topic.name, topic.topic_id or _NO_ID, ErrorCode.INVALID_REQUEST, text)
    if not context.broker.authorizer.checks:
        return refused
    metadata = context.broker.metadata
    left = {
        i: (topic, metadata.names.get(topic.topic_id) if topic.topic_id else topic.name)
        for i, topic in enumerate(asked)
        if i not in refused and (topic.name is None) != (topic.topic_id is None)
    }
    names = [name for _, name in left.values()]
    unseen = hidden(context, request, DESCRIBE_TOPIC, names)
    forbidden = () if would(context, request, DELETE_CLUSTER) else denied(context, request, DELETE_TOPIC, names)
    for i, (topic, name) in left.items():
        if name is None:
            refused[i] = DeletedTopic(None, topic.topic_id or _NO_ID, ErrorCode.UNKNOWN_TOPIC_ID, None)
        elif topic.name is not None and name not in unseen and name not in metadata.topics:
            refused[i] = DeletedTopic(name, _NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        elif name in forbidden or (topic.name is not None and name in unseen):
            shown = None if topic.name is None and name in unseen else name
            refused[i] = DeletedTopic(shown, topic.topic_id or _NO_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    return refused


def _partitions(broker: BrokerContext, topic: DoomedTopic) -> int:
    name = topic.name if topic.topic_id is None else broker.metadata.names.get(topic.topic_id)
    known = None if name is None else broker.metadata.topics.get(name)
    return 0 if known is None else len(known.partitions)


def _exceeded(topic: DoomedTopic) -> DeletedTopic:
    return DeletedTopic(topic.name, topic.topic_id or _NO_ID, ErrorCode.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)


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
