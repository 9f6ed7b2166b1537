"""OffsetForLeaderEpoch: where a leader epoch ends, so that readers notice a truncated log (KIP-320)."""

from __future__ import annotations

import logging
from collections.abc import Collection

from actors.broker.handlers.authorization import denied, would
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.rights import CLUSTER_ACTION, DESCRIBE_TOPIC
from actors.broker.led import LogAccessError
from actors.records.errors import LogError
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

log = logging.getLogger(__name__)

API = OffsetForLeaderEpochRequest
VERSIONS = (2, 4)

Result = OffsetForLeaderEpochResponse.EpochEndOffset
Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


def handle(context: HandlerContext, request: Request) -> OffsetForLeaderEpochResponse:
    """Answered at once. Epoch and offset are -1 if the epoch is unknown."""
    m: OffsetForLeaderEpochRequest = request.message
    forbidden: Collection[str] = ()
    if not would(context, request, CLUSTER_ACTION):  # a client that may follow may ask about every topic
        forbidden = denied(context, request, DESCRIBE_TOPIC, (topic.topic for topic in m.topics))
    return OffsetForLeaderEpochResponse(
        topics=[
            _refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if topic.topic in forbidden
            else Topic(
                topic=topic.topic, partitions=[_partition(context, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in m.topics
        ]
    )


def _partition(
    context: HandlerContext, topic: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> Result:
    index = asked.partition
    try:
        context.led.leader_of(topic, index, asked.current_leader_epoch)
        epoch, end = context.broker.log(topic, index).end_offset_for_epoch(asked.leader_epoch)
    except LogAccessError as error:
        return Result(partition=index, error_code=error.code)
    except LogError as error:
        return Result(partition=index, error_code=error.error_code)
    except OSError as error:
        log.error("%s-%d: %s", topic, index, error, extra=at(topic, index))
        return Result(partition=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return Result(partition=index, leader_epoch=epoch, end_offset=end)


def _refused(topic: OffsetForLeaderEpochRequest.OffsetForLeaderTopic, code: int) -> Topic:
    return Topic(
        topic=topic.topic, partitions=[Result(partition=p.partition, error_code=code) for p in topic.partitions]
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> OffsetForLeaderEpochResponse:
    """The whole request refused."""
    assert isinstance(message, OffsetForLeaderEpochRequest)
    return OffsetForLeaderEpochResponse(topics=[_refused(topic, code) for topic in message.topics])
