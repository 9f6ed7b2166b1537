"""CreateTopics: decided by the controller, answered when the living brokers know the topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from actors.broker.context import BrokerContext
from actors.broker.handlers.authorization import hidden, not_creatable
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.broker.handlers.mutations import EXCEEDED, charge
from actors.broker.handlers.rights import DESCRIBE_CONFIGS_TOPIC
from actors.links.operations import CreatedTopic, CreatedTopics, CreateTopics, NewTopic
from actors.settings import topic_config_names, topic_config_value
from actors.wire.config_resources import ConfigResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, CreateTopicsRequest, CreateTopicsResponse

API = CreateTopicsRequest
VERSIONS = (2, 7)

Result = CreateTopicsResponse.CreatableTopicResult

_STRICT_FROM = 6


def handle(context: HandlerContext, request: Request) -> CreateTopicsResponse | None:
    """Topics with impossible fields are refused here, the others are decided by the controller."""
    m: CreateTopicsRequest = request.message
    times = Counter(topic.name for topic in m.topics)
    forbidden = not_creatable(context, request, (name for name, n in times.items() if n == 1))
    secretive = hidden(context, request, DESCRIBE_CONFIGS_TOPIC, times)
    refused = {
        i: result for i, topic in enumerate(m.topics) if (result := _refused(topic, times, forbidden)) is not None
    }
    broker = context.broker
    costs = {
        i: 0 if topic.name in broker.metadata.topics or m.validate_only else _partitions(broker, topic)
        for i, topic in enumerate(m.topics)
        if i not in refused
    }
    exceeded, throttle_ms = charge(context, request, _STRICT_FROM, costs)
    refused |= {i: _exceeded(m.topics[i].name) for i in exceeded}
    asked = [topic for i, topic in enumerate(m.topics) if i not in refused]

    def answer(created: CreatedTopics) -> CreateTopicsResponse:
        made = (_result(context, topic, result, secretive) for topic, result in zip(asked, created.topics, strict=True))
        topics = [refused.get(i) or next(made) for i in range(len(m.topics))]
        return CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=topics)

    if not asked:
        return answer(CreatedTopics(()))
    operation = CreateTopics(tuple(_new(topic) for topic in asked), m.validate_only)
    forward(broker, request, operation, answer, failed)
    return None


def _refused(
    topic: CreateTopicsRequest.CreatableTopic, times: Counter[str], forbidden: Collection[str]
) -> Result | None:
    if times[topic.name] > 1:
        text = f"topic {topic.name!r} is named more than once"
        return Result(name=topic.name, error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    if topic.name in forbidden:
        text = "Authorization failed."  # Kafka's words
        return Result(name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=text)
    indexes = sorted(assignment.partition_index for assignment in topic.assignments)
    if indexes != list(range(len(indexes))):
        text = f"the assigned partitions {indexes} are not numbered from 0 without a gap"
        return Result(name=topic.name, error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, error_message=text)
    names = [config.name for config in topic.configs]
    if len(set(names)) != len(names):
        text = "a setting is given more than once"
        return Result(name=topic.name, error_code=ErrorCode.INVALID_CONFIG, error_message=text)
    return None


def _partitions(broker: BrokerContext, topic: CreateTopicsRequest.CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return topic.num_partitions if topic.num_partitions > 0 else broker.config.integer("num.partitions")


def _exceeded(name: str) -> Result:
    return Result(name=name, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message=EXCEEDED)


def _new(topic: CreateTopicsRequest.CreatableTopic) -> NewTopic:
    ordered = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        factor=topic.replication_factor,
        assignments=tuple(tuple(assignment.broker_ids) for assignment in ordered) or None,
        configs={config.name: config.value for config in topic.configs},
    )


def _result(
    context: HandlerContext,
    topic: CreateTopicsRequest.CreatableTopic,
    result: CreatedTopic,
    secretive: Collection[str],
) -> Result:
    made = Result(
        name=result.name,
        topic_id=result.topic_id,
        error_code=result.error_code,
        error_message=result.error_message,
        num_partitions=result.partitions,
        replication_factor=result.factor,
    )
    if not result.error_code:
        context.idle_settings.note(ConfigResourceType.TOPIC, (config.name for config in topic.configs))
        if topic.name in secretive:
            made.num_partitions = made.replication_factor = -1
            made.configs = []
            made.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            made.configs = _configs(context.broker, topic)
    return made


def _configs(
    broker: BrokerContext, topic: CreateTopicsRequest.CreatableTopic
) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    """Every setting of the new topic (KIP-525)."""
    known = broker.metadata.topics.get(topic.name)
    own = (
        known.configs if known else {config.name: config.value for config in topic.configs if config.value is not None}
    )
    values = (topic_config_value(name, own, broker.config) for name in topic_config_names(own))
    return [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=v.name, value=v.value, read_only=v.read_only, config_source=v.source, is_sensitive=v.sensitive
        )
        for v in values
    ]


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> CreateTopicsResponse:
    """The whole request refused."""
    assert isinstance(message, CreateTopicsRequest)
    return CreateTopicsResponse(
        topics=[Result(name=topic.name, error_code=code, error_message=text) for topic in message.topics]
    )
