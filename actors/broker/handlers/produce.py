"""Produce: appends record batches to the partitions this broker leads. A hot path."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from actors.broker.context import BrokerContext
from actors.broker.handlers.authorization import denied, may
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.find_coordinator import NO_TRANSACTIONS
from actors.broker.handlers.leaders import WRONG_LEADER, current_leader, endpoints
from actors.broker.handlers.parked import Awaited, Parked
from actors.broker.handlers.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from actors.broker.led import LogAccessError
from actors.records.errors import LogError, RefusedRecordsError
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ProduceRequest, ProduceResponse
from placement.metadata import INTERNAL_TOPICS

log = logging.getLogger(__name__)

API = ProduceRequest
# Advertised from 0 although 0 to 2 are not served: librdkafka before 2.1 takes a higher minimum for a broker
# that knows no lz4, gzip and snappy, and silently sends uncompressed batches. Apache Kafka 4 does the same.
VERSIONS = (0, 13)
SERVED_FROM = 3

Partition = ProduceResponse.PartitionProduceResponse
Topic = ProduceResponse.TopicProduceResponse
RecordError = ProduceResponse.BatchIndexAndErrorMessage

_TOPIC_IDS_FROM = 13
_LEADERS_FROM = 10
_ZSTD_FROM = 7
_ATTRIBUTES_AT = 22  # of the low byte, which has the codec and the transactional bit
_ZSTD = 4
_TRANSACTIONAL = 0x10


def handle(context: HandlerContext, request: Request) -> ProduceResponse | None:
    """Answered at once; with acks=all when the replicas in sync have the records; with acks=0 never."""
    m: ProduceRequest = request.message
    waits: list[Awaited] = []
    if m.acks not in (-1, 0, 1):
        text = f"acks={m.acks} is not -1, 0 or 1"
        response = failed(m, request.version, ErrorCode.INVALID_REQUIRED_ACKS, text)
    elif m.transactional_id is not None:
        response = failed(m, request.version, *_why_not(context, request, m.transactional_id))
    else:
        response = _append_all(context, request, waits)
    quotas = context.broker.quotas
    if quotas is not None:
        size = sum(len(part.records or b"") for topic in m.topic_data for part in topic.partition_data)
        response.throttle_time_ms = quotas.produced(request.connection, request.header.client_id, size)
    errors = {part.error_code for topic in response.responses for part in topic.partition_responses} - {0}
    if request.slot is None:
        if errors:
            # A producer that waits for no answer can be told in no other way: it looks up its leaders again.
            names = ", ".join(ErrorCode(code).name for code in sorted(errors))
            request.connection.close(f"a produce request with acks=0 failed: {names}")
        return None
    if request.version >= _LEADERS_FROM and errors & WRONG_LEADER:
        leaders = [p.current_leader for t in response.responses for p in t.partition_responses if p.current_leader]
        response.node_endpoints = endpoints(
            context.broker, request.connection.listener, leaders, ProduceResponse.NodeEndpoint
        )
    if waits:
        Parked(context.broker, request, response, waits, _refuse)
        return None
    return response


def _why_not(context: HandlerContext, request: Request, transactional_id: str) -> tuple[ErrorCode, str | None]:
    if may(context, request, WRITE_TRANSACTIONAL_ID, transactional_id):
        return NO_TRANSACTIONS
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None


def _append_all(context: HandlerContext, request: Request, waits: list[Awaited]) -> ProduceResponse:
    m: ProduceRequest = request.message
    version, by_id = request.version, context.broker.metadata.names
    topics = [(by_id.get(t.topic_id) if version >= _TOPIC_IDS_FROM else t.name, t) for t in m.topic_data]
    forbidden: Collection[str] = ()
    if context.broker.authorizer is not None:
        forbidden = denied(context, request, WRITE_TOPIC, (name for name, _ in topics))
    return ProduceResponse(
        responses=[
            Topic(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=[
                    _append(context, name, part, m.acks, version, waits)
                    if name not in forbidden
                    else _refused(part.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for part in topic.partition_data
                ],
            )
            for name, topic in topics
        ]
    )


def _append(
    context: HandlerContext,
    topic: str | None,
    data: ProduceRequest.PartitionProduceData,
    acks: int,
    version: int,
    waits: list[Awaited],
) -> Partition:
    if topic is None:
        return _refused(data.index, ErrorCode.UNKNOWN_TOPIC_ID)
    index, records = data.index, data.records or b""
    try:
        partition = context.led.leader_of(topic, index)
        refusal = _judge(context.broker, topic, records, acks, version, len(partition.isr))
        if refusal is not None:
            return _refused(index, *refusal)
        partition_log = context.broker.log(topic, index)
        done = partition_log.append_as_leader(records, partition.leader_epoch, context.broker.now_ms())
    except LogAccessError as error:
        refused = _refused(index, error.code)
        if error.code in WRONG_LEADER:
            refused.current_leader = current_leader(context.broker, topic, index, ProduceResponse.LeaderIdAndEpoch)
        return refused
    except RefusedRecordsError as error:
        refused = _refused(index, error.error_code, str(error))
        refused.record_errors = [
            RecordError(batch_index=i, batch_index_error_message=t) for i, t in error.record_errors
        ]
        return refused
    except LogError as error:
        if error.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            log.error("%s-%d: %s", topic, index, error, extra=at(topic, index))
        return _refused(index, error.error_code, str(error))
    except OSError as error:
        log.error("%s-%d: %s", topic, index, error, extra=at(topic, index))
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if not done.duplicate:
        context.led.appended(topic, index, partition_log, partition)
        context.broker.counts.topics.came(topic, done.last_offset - done.base_offset + 1, len(records))
    answer = Partition(
        index=index,
        base_offset=done.base_offset,
        log_append_time_ms=done.log_append_time_ms,
        log_start_offset=done.log_start_offset,
    )
    if acks == -1 and partition_log.high_watermark <= done.last_offset:
        waits.append((answer, partial(context.replication.await_commit, topic, index, done.last_offset + 1)))
    return answer


def _refuse(answer: Partition, code: ErrorCode) -> None:
    answer.error_code = code
    answer.base_offset = -1


def _judge(
    broker: BrokerContext, topic: str, records: bytes, acks: int, version: int, in_sync: int
) -> tuple[ErrorCode, str] | None:
    """The error of records that Kafka refuses before it looks at the log, with its text; None if there is none."""
    if topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by coordinators only"
    if acks == -1 and in_sync < (needed := broker.min_insync_replicas(topic)):
        return ErrorCode.NOT_ENOUGH_REPLICAS, f"{in_sync} replica(s) in sync, min.insync.replicas={needed}"
    if len(records) > _ATTRIBUTES_AT:
        attributes = records[_ATTRIBUTES_AT]
        if attributes & _TRANSACTIONAL:
            return NO_TRANSACTIONS
        if version < _ZSTD_FROM and attributes & 7 == _ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version {_ZSTD_FROM} (KIP-110)"
    return None


def _refused(index: int, code: int, text: str | None = None) -> Partition:
    return Partition(index=index, error_code=code, base_offset=-1, error_message=text)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ProduceResponse:
    """The whole request refused."""
    assert isinstance(message, ProduceRequest)
    return ProduceResponse(
        responses=[
            Topic(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=[_refused(part.index, code, text) for part in topic.partition_data],
            )
            for topic in message.topic_data
        ]
    )
