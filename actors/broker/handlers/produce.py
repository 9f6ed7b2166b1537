"""Produce: appends record batches to the partitions this broker leads. A hot path."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass
from functools import partial

from actors import CoterieError
from actors.broker.context import BrokerContext
from actors.broker.handlers.authorization import denied, may
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.find_coordinator import NO_TRANSACTIONS
from actors.broker.handlers.in_turns import Work, in_turns
from actors.broker.handlers.leaders import WRONG_LEADER, current_leader, endpoints
from actors.broker.handlers.parked import Awaited, Parked
from actors.broker.handlers.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from actors.broker.led import LogAccessError
from actors.broker.turns import PIECE_SECONDS, Step
from actors.log.admission import Admitted, Produced, admit, admit_at_once, one_batch
from actors.log.config import LogConfig
from actors.records.errors import LogError, Refusal
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ProduceRequest, ProduceResponse
from placement.metadata import PartitionInfo

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
_CODEC = 7
_NAMED_MAX = 1000
"""The most refused records that an answer names: a request of some hundred bytes for each partition can have millions.
"""


_Job = tuple[Produced, LogConfig, int]
"""The arguments of `admit`."""


@dataclass(slots=True)
class _Part:
    """The records of a request for one partition, and the answer, which is open until they are in the log."""

    topic: str
    index: int
    answer: Partition
    records: bytes = b""
    topic_id: bytes = b""
    unchecked: _Job | None = None
    """A batch that takes long to check, until a thread does."""

    def job(self) -> _Job:
        """Hand out what is `unchecked`, and keep it no longer."""
        assert self.unchecked is not None
        job, self.unchecked = self.unchecked, None
        return job


def handle(context: HandlerContext, request: Request) -> ApiMessage | None:
    """Answered at once; with acks=all when the replicas in sync have the records; with acks=0 never.

    Large batches are checked in a thread first. Meanwhile nothing more is read from the client.
    """
    return in_turns(context, request, _work(context, request), failed, to_the_end=True)


def _work(context: HandlerContext, request: Request) -> Work:
    m: ProduceRequest = request.message
    waits: list[Awaited] = []
    if m.acks not in (-1, 0, 1):
        text = f"acks={m.acks} is not -1, 0 or 1"
        response = failed(m, request.version, ErrorCode.INVALID_REQUIRED_ACKS, text)
    elif m.transactional_id is not None:
        response = failed(m, request.version, *_why_not(context, request, m.transactional_id))
    else:
        response = yield from _append_all(context, request, waits)
    quotas = context.broker.quotas
    if quotas.limits:
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


def _append_all(
    context: HandlerContext, request: Request, waits: list[Awaited]
) -> Generator[Step, None, ProduceResponse]:
    m: ProduceRequest = request.message
    version, by_id = request.version, context.broker.metadata.names
    topics = [(by_id.get(t.topic_id) if version >= _TOPIC_IDS_FROM else t.name, t) for t in m.topic_data]
    forbidden: Collection[str] = ()
    if context.broker.authorizer.checks:
        forbidden = denied(context, request, WRITE_TOPIC, (name for name, _ in topics))
    response, parts = _laid_out(topics, forbidden)
    clock = context.broker.environment.clock.monotonic
    until = clock() + PIECE_SECONDS
    long: deque[_Part] = deque()
    may_name = _NAMED_MAX
    for part in parts:
        if clock() > until:
            yield None
            until = clock() + PIECE_SECONDS
        _attempt(context, part, partial(_append_at_once, context, part, m.acks, version, waits))
        may_name -= _named(part.answer, may_name)
        if part.unchecked is not None:
            long.append(part)
    while long:  # one after the other: a client has one job in the threads, and one checked batch in memory
        part = long.popleft()
        checked = context.broker.record_jobs.run((part.topic, part.index), partial(admit, *part.job()))
        yield checked
        _attempt(context, part, partial(_append_checked, context, part, checked.result(), m.acks, version, waits))
        may_name -= _named(part.answer, may_name)
    return response


def _laid_out(
    topics: Iterable[tuple[str | None, ProduceRequest.TopicProduceData]], forbidden: Collection[str]
) -> tuple[ProduceResponse, list[_Part]]:
    """The response, whose partitions are open yet, and what is to be done.

    Of a partition that is named twice the last mention counts, as in Kafka.
    """
    response, open_ = ProduceResponse(responses=[]), dict[tuple[str, int], _Part]()
    for name, topic in topics:
        answered = Topic(topic_id=topic.topic_id, name=topic.name, partition_responses=[])
        response.responses.append(answered)
        for data in topic.partition_data:
            if name is None or name in forbidden:
                code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
                answered.partition_responses.append(_refused(data.index, code))
                continue
            part = open_.get((name, data.index))
            if part is None:
                part = open_[name, data.index] = _Part(name, data.index, Partition(index=data.index, base_offset=-1))
                answered.partition_responses.append(part.answer)
            part.records = data.records or b""
    return response, list(open_.values())


def _attempt(context: HandlerContext, part: _Part, step: Callable[[], None]) -> None:
    """Do the step, and put into the answer why it cannot be done."""
    answer, broker = part.answer, context.broker
    try:
        step()
    except _RefusedError as error:
        answer.error_code, answer.error_message = error.code, error.text
    except LogAccessError as error:
        answer.error_code = error.code
        if error.code in WRONG_LEADER:
            leader = current_leader(broker, part.topic, part.index, ProduceResponse.LeaderIdAndEpoch)
            answer.current_leader = leader
    except (LogError, OSError) as error:
        why = Refusal.of(error) if isinstance(error, LogError) else Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if why.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            log.error("%s-%d: %s", part.topic, part.index, error, extra=at(part.topic, part.index))
        _explain(answer, why)


def _append_at_once(context: HandlerContext, part: _Part, acks: int, version: int, waits: list[Awaited]) -> None:
    """Append the records, if it takes no time to check them; else leave them `unchecked`."""
    broker, key = context.broker, (part.topic, part.index)
    partition = _partition(context, part, acks, version)
    config = broker.log(*key).config
    produced, now_ms = one_batch(part.records, config), broker.now_ms()
    admitted = None if broker.record_jobs.busy(key) else admit_at_once(produced, config, now_ms)
    if admitted is None:
        part.unchecked = produced, config, now_ms
        part.topic_id = broker.metadata.topics[part.topic].id
    else:
        _append(context, part, partition, admitted, acks, waits)


def _append_checked(
    context: HandlerContext,
    part: _Part,
    admitted: Admitted | Refusal,
    acks: int,
    version: int,
    waits: list[Awaited],
) -> None:
    """Append what a thread has checked, if this broker may still do so: it may have lost the partition meanwhile."""
    if isinstance(admitted, Refusal):
        _explain(part.answer, admitted)
        return
    partition = _partition(context, part, acks, version)
    if context.broker.metadata.topics[part.topic].id != part.topic_id:
        raise LogAccessError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _append(context, part, partition, admitted, acks, waits)


def _partition(context: HandlerContext, part: _Part, acks: int, version: int) -> PartitionInfo:
    """The partition, if these records may be appended to it now. Raises LogAccessError, _RefusedError."""
    partition = context.led.leader_of(part.topic, part.index)
    _judge(context.broker, part.topic, part.records, acks, version, len(partition.isr))
    return partition


def _append(
    context: HandlerContext,
    part: _Part,
    partition: PartitionInfo,
    admitted: Admitted,
    acks: int,
    waits: list[Awaited],
) -> None:
    topic, index, answer, broker = part.topic, part.index, part.answer, context.broker
    partition_log = broker.log(topic, index)
    done = partition_log.append_admitted((admitted,), partition.leader_epoch, broker.now_ms())
    if not done.duplicate:
        context.led.appended(topic, index, partition_log, partition)
        broker.counts.topics.came(topic, done.last_offset - done.base_offset + 1, len(part.records))
    answer.base_offset = done.base_offset
    answer.log_append_time_ms = done.log_append_time_ms
    answer.log_start_offset = done.log_start_offset
    if acks == -1 and partition_log.high_watermark <= done.last_offset:
        waits.append((answer, partial(context.replication.await_commit, topic, index, done.last_offset + 1)))


def _explain(answer: Partition, why: Refusal) -> None:
    answer.error_code = why.error_code
    answer.error_message = why.text
    answer.record_errors = [RecordError(batch_index=i, batch_index_error_message=t) for i, t in why.record_errors]


def _named(answer: Partition, most: int) -> int:
    """Leave at most so many of the records that are named in an answer; how many are left."""
    if answer.record_errors:
        answer.record_errors = answer.record_errors[:most]
    return len(answer.record_errors)


def _refuse(answer: Partition, code: ErrorCode) -> None:
    answer.error_code = code
    answer.base_offset = -1


class _RefusedError(CoterieError):
    """Records that Kafka refuses before it looks at the log."""

    def __init__(self, code: ErrorCode, text: str | None) -> None:
        super().__init__(code.name)
        self.code = code
        self.text = text


def _judge(broker: BrokerContext, topic: str, records: bytes, acks: int, version: int, in_sync: int) -> None:
    if topic in broker.metadata.internal_topics:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by coordinators only")
    if acks == -1 and in_sync < (needed := broker.min_insync_replicas(topic)):
        text = f"{in_sync} replica(s) in sync, min.insync.replicas={needed}"
        raise _RefusedError(ErrorCode.NOT_ENOUGH_REPLICAS, text)
    if len(records) > _ATTRIBUTES_AT:
        attributes = records[_ATTRIBUTES_AT]
        if attributes & _TRANSACTIONAL:
            raise _RefusedError(*NO_TRANSACTIONS)
        if version < _ZSTD_FROM and attributes & _CODEC == _ZSTD:
            text = f"zstd needs Produce version {_ZSTD_FROM} (KIP-110)"
            raise _RefusedError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)


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
