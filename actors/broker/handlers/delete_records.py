"""DeleteRecords: moves the start of partitions this broker leads (KIP-107)."""

from __future__ import annotations

import logging
from functools import partial

from actors.broker.handlers.authorization import denied
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.parked import Awaited, Parked
from actors.broker.handlers.rights import DELETE_TOPIC
from actors.broker.led import LogAccessError
from actors.records.errors import LogError
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DeleteRecordsRequest, DeleteRecordsResponse

log = logging.getLogger(__name__)

API = DeleteRecordsRequest
VERSIONS = (0, 2)

Partition = DeleteRecordsResponse.DeleteRecordsPartitionResult
Topic = DeleteRecordsResponse.DeleteRecordsTopicResult


def handle(context: HandlerContext, request: Request) -> DeleteRecordsResponse | None:
    """Answered when no replica in sync has the records any more. Offset -1 means the high watermark."""
    m: DeleteRecordsRequest = request.message
    waits: list[Awaited] = []
    forbidden = denied(context, request, DELETE_TOPIC, (topic.name for topic in m.topics))
    response = DeleteRecordsResponse(
        topics=[
            _all_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if topic.name in forbidden
            else Topic(
                name=topic.name,
                partitions=[
                    _partition(context, topic.name, p.partition_index, p.offset, waits) for p in topic.partitions
                ],
            )
            for topic in m.topics
        ]
    )
    if waits:
        Parked(context.broker, request, response, waits, _refuse)
        return None
    return response


def _refuse(answer: Partition, code: ErrorCode) -> None:
    answer.error_code = code
    answer.low_watermark = -1


def _partition(context: HandlerContext, topic: str, index: int, offset: int, waits: list[Awaited]) -> Partition:
    if topic in context.broker.metadata.internal_topics:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        info = context.led.leader_of(topic, index)
        start = context.broker.log(topic, index).retention.delete_before(offset)
    except LogAccessError as error:
        return _refused(index, error.code)
    except LogError as error:
        return _refused(index, error.error_code)
    except OSError as error:
        log.error("%s-%d: %s", topic, index, error, extra=at(topic, index))
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    answer = Partition(partition_index=index, low_watermark=start)
    if len(info.replicas) > 1:
        waits.append((answer, partial(context.replication.await_start, topic, index, info, start)))
    return answer


def _refused(index: int, code: int) -> Partition:
    return Partition(partition_index=index, low_watermark=-1, error_code=code)


def _all_refused(topic: DeleteRecordsRequest.DeleteRecordsTopic, code: int) -> Topic:
    return Topic(name=topic.name, partitions=[_refused(p.partition_index, code) for p in topic.partitions])


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DeleteRecordsResponse:
    """The whole request refused."""
    assert isinstance(message, DeleteRecordsRequest)
    return DeleteRecordsResponse(topics=[_all_refused(topic, code) for topic in message.topics])
