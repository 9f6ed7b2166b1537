"""ListOffsets: a partition's first and last offsets, and the first one at or after a time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator
from enum import IntEnum

from actors.broker.handlers.authorization import denied
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.in_turns import Work, in_turns
from actors.broker.handlers.rights import DESCRIBE_TOPIC
from actors.broker.led import LogAccessError
from actors.broker.turns import PLACES_A_TURN, Step
from actors.log.partition_log import PartitionLog
from actors.log.reading import StoredBatch
from actors.records.errors import LogError, OverBoundsError, Refusal
from actors.records.searching import Timed
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ListOffsetsRequest, ListOffsetsResponse
from placement.metadata import PartitionInfo

log = logging.getLogger(__name__)

API = ListOffsetsRequest
VERSIONS = (1, 11)


class Time(IntEnum):
    """Values of the timestamp field that have a special meaning."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_NOT_AVAILABLE_FROM = 5  # older clients do not know OFFSET_NOT_AVAILABLE (KIP-207)
# The first version of the request that knows each (KIP-734, 405, 1005, 1023).
_SINCE: dict[int, int] = {
    Time.LATEST: 1,
    Time.EARLIEST: 1,
    Time.MAX_TIMESTAMP: 7,
    Time.EARLIEST_LOCAL: 8,
    Time.LATEST_TIERED: 9,
    Time.EARLIEST_PENDING_UPLOAD: 11,
}

_KNOWN = frozenset(Time) - {Time.MAX_TIMESTAMP}
"""The times whose offsets are known without a look into files."""
_LOOKED_UP = 200  # as many times as long takes what is not

Partition = ListOffsetsResponse.ListOffsetsPartitionResponse
Topic = ListOffsetsResponse.ListOffsetsTopicResponse


def handle(context: HandlerContext, request: Request) -> ApiMessage | None:
    """Answered at once, unless it is about very many partitions."""
    return in_turns(context, request, _work(context, request), failed)


def _work(context: HandlerContext, request: Request) -> Work:
    m: ListOffsetsRequest = request.message
    forbidden = denied(context, request, DESCRIBE_TOPIC, (topic.name for topic in m.topics))
    times = Counter((topic.name, asked.partition_index) for topic in m.topics for asked in topic.partitions)
    topics: list[Topic] = []
    seen: set[tuple[str, int]] = set()
    left = PLACES_A_TURN
    for topic in m.topics:
        if topic.name in forbidden:
            topics.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        answered = Topic(name=topic.name, partitions=[])
        topics.append(answered)
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            if times[key] == 1:
                answered.partitions.append((yield from _partition(context, topic.name, asked, request.version)))
            elif key not in seen:  # refused once, as in Kafka, and not at each mention
                seen.add(key)
                answered.partitions.append(_repeated(asked.partition_index))
            left -= 1 if asked.timestamp in _KNOWN else _LOOKED_UP
            if left <= 0:
                yield None
                left = PLACES_A_TURN
    return ListOffsetsResponse(topics=topics)


def _repeated(index: int) -> Partition:
    """The answer for a partition that is named more than once: which of its timestamps is asked for is unclear."""
    return Partition(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)


def _partition(
    context: HandlerContext, topic: str, asked: ListOffsetsRequest.ListOffsetsPartition, version: int
) -> Generator[Step, None, Partition]:
    index = asked.partition_index
    if asked.timestamp < 0 and version < _SINCE.get(asked.timestamp, 1 << 15):
        return Partition(partition_index=index, error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = context.led.leader_of(topic, index, asked.current_leader_epoch)
        offset, timestamp, epoch = yield from _look_up(context, topic, index, asked.timestamp, partition)
    except LogAccessError as error:
        unknown_yet = error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_FROM
        code = ErrorCode.LEADER_NOT_AVAILABLE if unknown_yet else error.code
        return Partition(partition_index=index, error_code=code)
    except LogError as error:
        return Partition(partition_index=index, error_code=error.error_code)
    except OSError as error:
        log.error("%s-%d: %s", topic, index, error, extra=at(topic, index))
        return Partition(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return Partition(partition_index=index, offset=offset, timestamp=timestamp, leader_epoch=epoch)


def _look_up(
    context: HandlerContext, topic: str, index: int, time: int, partition: PartitionInfo
) -> Generator[Step, None, tuple[int, int, int]]:
    """(offset, timestamp, leader epoch), each -1 where there is none."""
    partition_log = context.broker.log(topic, index)
    match time:
        case Time.LATEST:
            if len(partition.replicas) > 1 and not context.replication.watermark_is_known(topic, index):
                raise LogAccessError(ErrorCode.OFFSET_NOT_AVAILABLE)
            return partition_log.high_watermark, -1, partition.leader_epoch
        case Time.EARLIEST | Time.EARLIEST_LOCAL:  # no log is tiered, so the local part begins where the log begins
            start = partition_log.log_start_offset
            return start, -1, partition_log.epoch_at(start)
        case Time.MAX_TIMESTAMP:
            newest = partition_log.newest_batch()
            found = None if newest is None else (yield from _found(context, newest))
        case Time.LATEST_TIERED | Time.EARLIEST_PENDING_UPLOAD:
            return -1, -1, -1
        case _:
            found = yield from _first(context, partition_log, time)
    if found is None:
        return -1, -1, -1
    return found.offset, found.timestamp, partition_log.epoch_at(found.offset)


def _first(context: HandlerContext, partition_log: PartitionLog, time: int) -> Generator[Step, None, Timed | None]:
    """The first record at or after `time`. The log is asked anew for each batch: it may be cut while one is read."""
    since = 0
    while (batch := partition_log.batch_with(time, since)) is not None:
        found = yield from _found(context, batch)
        if found is not None:
            return found
        since = batch.header.next_offset
    return None


def _found(context: HandlerContext, batch: StoredBatch) -> Generator[Step, None, Timed | None]:
    """The record found in a batch; a thread looks for it, if the batch takes long to read."""
    try:
        return batch.find_at_once()
    except OverBoundsError:
        reading = context.broker.record_jobs.search(batch.find)
        yield reading
    outcome = reading.result()
    if isinstance(outcome, Refusal):
        raise LogError(outcome.error_code, outcome.text)
    return outcome


def _refused(topic: ListOffsetsRequest.ListOffsetsTopic, code: int) -> Topic:
    return Topic(
        name=topic.name,
        partitions=[Partition(partition_index=p.partition_index, error_code=code) for p in topic.partitions],
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ListOffsetsResponse:
    """The whole request refused."""
    assert isinstance(message, ListOffsetsRequest)
    return ListOffsetsResponse(topics=[_refused(topic, code) for topic in message.topics])
