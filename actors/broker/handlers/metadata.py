"""Metadata: brokers, topics and their leaders. Topics that do not exist may be created."""

from __future__ import annotations

from collections.abc import Collection

from actors.broker.context import BrokerContext
from actors.broker.handlers.authorization import cluster_operations, denied, hidden, not_creatable, operations
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.leaders import described_broker, described_partition, reachable
from actors.broker.handlers.rights import DESCRIBE_TOPIC
from actors.security.acl import ResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, MetadataRequest, MetadataResponse
from actors.wire.operations import NOT_ASKED
from placement.metadata import INTERNAL_TOPICS, TopicInfo, topic_name_error

API = MetadataRequest
VERSIONS = (0, 13)

Topic = MetadataResponse.MetadataResponseTopic
_NO_ID = bytes(16)
_IDS_FROM = 12
_LISTENER_NOT_FOUND_FROM = 6


def handle(context: HandlerContext, request: Request) -> MetadataResponse:
    """Answered at once. Missing topics that may be created are unknown until the client asks again, as in Kafka."""
    m: MetadataRequest = request.message
    broker, topics = context.broker, m.topics
    if topics is None or (request.version == 0 and not topics):
        unseen = hidden(context, request, DESCRIBE_TOPIC, broker.metadata.topics)
        shown = _Shown(broker, request)
        seen = [topic for name, topic in broker.metadata.topics.items() if name not in unseen]
        return _response(context, request, shown, [shown.described(topic) for topic in seen])
    if not all(_legal(topic, request.version) for topic in topics):
        return failed(m, request.version, ErrorCode.INVALID_REQUEST)
    forbidden = set(denied(context, request, DESCRIBE_TOPIC, (_name(broker, topic) for topic in topics)))
    missing = [name for name in _may_be_created(context, request) if name not in forbidden]
    forbidden |= set(not_creatable(context, request, missing))
    shown = _Shown(broker, request)
    response = _response(context, request, shown, _found(shown, m, forbidden))
    _create(context, request, [name for name in missing if name not in forbidden])
    return response


def _name(broker: BrokerContext, topic: MetadataRequest.MetadataRequestTopic) -> str | None:
    """The name of a topic that is asked for; None if it is given by an id that no topic has."""
    return topic.name if topic.topic_id == _NO_ID else broker.metadata.names.get(topic.topic_id)


def _legal(topic: MetadataRequest.MetadataRequestTopic, version: int) -> bool:
    """True if a topic is given by name, or by id from version 12 on; 10 and 11 have the field alone (KIP-516)."""
    return topic.name is not None if topic.topic_id == _NO_ID else version >= _IDS_FROM


def _may_be_created(context: HandlerContext, request: Request) -> list[str]:
    """The topics asked for that do not exist, if they shall be created."""
    m: MetadataRequest = request.message
    allowed = request.version < 4 or m.allow_auto_topic_creation
    if not allowed or not context.broker.config.boolean("auto.create.topics.enable"):
        return []
    names = dict.fromkeys(t.name for t in m.topics or () if t.name is not None and t.topic_id == _NO_ID)
    return [name for name in names if name not in context.broker.metadata.topics]


def _create(context: HandlerContext, request: Request, missing: list[str]) -> None:
    names = [name for name in missing if topic_name_error(name) is None]
    for kind in context.coordinators:
        if kind.topic in names:  # it has settings of its own
            names.remove(kind.topic)
            context.internal_topics.ensure(kind)
    context.auto_creation.begin(names, request.connection.principal)


class _Shown:
    """A client's view of the cluster: brokers that have its listener, and the leaders among them."""

    def __init__(self, broker: BrokerContext, request: Request) -> None:
        self.broker = broker
        self.reached = reachable(broker, request.connection.listener)
        self._alive = {each.id for each in broker.metadata.alive()}
        known = request.version >= _LISTENER_NOT_FOUND_FROM
        self._elsewhere = ErrorCode.LISTENER_NOT_FOUND if known else ErrorCode.LEADER_NOT_AVAILABLE

    def described(self, topic: TopicInfo) -> Topic:
        """A topic with its partitions."""
        make = MetadataResponse.MetadataResponsePartition
        partitions = [
            described_partition(make, index, p, self._alive, self.reached, self._elsewhere)
            for index, p in enumerate(topic.partitions)
        ]
        is_internal = topic.name in self.broker.metadata.internal_topics
        return Topic(name=topic.name, topic_id=topic.id, is_internal=is_internal, partitions=partitions)


def _found(shown: _Shown, m: MetadataRequest, forbidden: Collection[str]) -> list[Topic]:
    """The topics asked for, each once."""
    answers: dict[str | bytes | None, Topic] = {}
    metadata = shown.broker.metadata
    for asked in m.topics or ():
        if asked.topic_id != _NO_ID:
            name = metadata.names.get(asked.topic_id)
            missing = Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
            key: str | bytes | None = asked.topic_id if name is None else name
        else:
            name = key = asked.name
            missing = Topic(error_code=_why_missing(name), name=name, is_internal=name in INTERNAL_TOPICS)
        if key in answers:  # else a large topic that is named ten thousand times is described ten thousand times
            continue
        topic = metadata.topics.get(name) if name is not None else None
        if name in forbidden:
            answers[key] = _forbidden(asked)
        else:
            answers[key] = missing if topic is None else shown.described(topic)
    return list(answers.values())


def _forbidden(asked: MetadataRequest.MetadataRequestTopic) -> Topic:
    """The answer about a topic that a client may not see, or not create: no more than it has said itself."""
    given = asked.name if asked.topic_id == _NO_ID else None
    return Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=given, topic_id=asked.topic_id)


def _why_missing(name: str | None) -> ErrorCode:
    legal = name is not None and topic_name_error(name) is None
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION


def _response(context: HandlerContext, request: Request, shown: _Shown, topics: list[Topic]) -> MetadataResponse:
    broker, m = context.broker, request.message
    if m.include_topic_authorized_operations:
        for topic in topics:
            unseen = topic.name is None or topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.topic_authorized_operations = (
                NOT_ASKED if unseen else operations(context, request, ResourceType.TOPIC, topic.name or "")
            )
    make = MetadataResponse.MetadataResponseBroker
    return MetadataResponse(
        brokers=[described_broker(make, broker, i, at) for i, at in shown.reached.items()],
        cluster_id=broker.metadata.cluster_id,
        controller_id=next(iter(shown.reached), -1),
        topics=topics,
        cluster_authorized_operations=cluster_operations(context, request, m.include_cluster_authorized_operations),
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> MetadataResponse:
    """The whole request refused. Each topic has the error, because only version 13 has a field for it."""
    assert isinstance(message, MetadataRequest)
    topics = [
        Topic(
            error_code=code,
            name=topic.name if topic.name is not None or version >= _IDS_FROM else "",
            topic_id=topic.topic_id,
        )
        for topic in message.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)
