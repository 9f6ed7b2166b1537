"""DescribeTopicPartitions: topics in pages, with the replicas that are eligible to lead (KIP-966)."""

from __future__ import annotations

from collections.abc import Container

from actors.broker.handlers.authorization import denied, hidden, operations
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.leaders import described_partition, reachable
from actors.broker.handlers.rights import DESCRIBE_TOPIC
from actors.security.acl import ResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from placement.metadata import PartitionInfo, TopicInfo, topic_name_error

API = DescribeTopicPartitionsRequest
VERSIONS = (0, 0)

PAGE = 2000  # Kafka's max.request.partition.size.limit
Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
Cursor = DescribeTopicPartitionsResponse.Cursor


def handle(context: HandlerContext, request: Request) -> DescribeTopicPartitionsResponse:
    """Answered at once, in the order of names; no name means all. `next_cursor` says where the next page begins."""
    m: DescribeTopicPartitionsRequest = request.message
    known = context.broker.metadata.topics
    cursor = m.cursor
    first = cursor.topic_name if cursor else ""
    asked = {topic.name for topic in m.topics}
    forbidden = denied(context, request, DESCRIBE_TOPIC, asked)
    if not asked:
        asked = known.keys() - hidden(context, request, DESCRIBE_TOPIC, known)
    if cursor and (cursor.partition_index < 0 or (m.topics and first not in asked)):
        return failed(m, request.version, ErrorCode.INVALID_REQUEST)
    alive = {broker.id for broker in context.broker.metadata.alive()}
    reached = reachable(context.broker, request.connection.listener)
    room = max(1, min(m.response_partition_limit, PAGE))
    topics: list[Topic] = []
    for name in sorted(name for name in asked if name >= first):
        if room <= 0:
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=Cursor(topic_name=name))
        if name in forbidden:
            topics.append(Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name))
            continue
        may_do = operations(context, request, ResourceType.TOPIC, name)
        topic = known.get(name)
        if topic is None:
            topics.append(_missing(name, may_do))
            continue
        begin = cursor.partition_index if cursor and name == first else 0
        end = min(begin + room, len(topic.partitions))
        described = _described(topic, begin, end, alive, reached, may_do)
        described.is_internal = name in context.broker.metadata.internal_topics
        topics.append(described)
        room -= end - begin
        if end < len(topic.partitions):
            here = Cursor(topic_name=name, partition_index=end)
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=here)
    return DescribeTopicPartitionsResponse(topics=topics)


def _described(topic: TopicInfo, begin: int, end: int, alive: set[int], reached: Container[int], may_do: int) -> Topic:
    partitions = [_partition(index, topic.partitions[index], alive, reached) for index in range(begin, end)]
    return Topic(
        name=topic.name,
        topic_id=topic.id,
        partitions=partitions,
        topic_authorized_operations=may_do,
    )


def _partition(index: int, p: PartitionInfo, alive: set[int], reached: Container[int]) -> Partition:
    partition = described_partition(Partition, index, p, alive, reached)
    partition.eligible_leader_replicas = list(p.elr)
    partition.last_known_elr = []
    return partition


def _missing(name: str, may_do: int) -> Topic:
    illegal = topic_name_error(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return Topic(error_code=code, name=name, topic_authorized_operations=may_do)


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> DescribeTopicPartitionsResponse:
    """The whole request refused. Each topic has the error, because the answer has no field for it."""
    assert isinstance(message, DescribeTopicPartitionsRequest)
    return DescribeTopicPartitionsResponse(topics=[Topic(error_code=code, name=t.name) for t in message.topics])
