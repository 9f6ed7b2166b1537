"""DeleteRecords: moves the start of partitions this broker leads (KIP-107)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from actors.handlers.context import BrokerContext, LogAccessError, Request
from actors.log.errors import LogError
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DeleteRecordsRequest, DeleteRecordsResponse
from placement.metadata import INTERNAL_TOPICS, PartitionInfo

log = logging.getLogger(__name__)

API = DeleteRecordsRequest
VERSIONS = (0, 2)

Partition = DeleteRecordsResponse.DeleteRecordsPartitionResult
Topic = DeleteRecordsResponse.DeleteRecordsTopicResult
Moved = tuple[str, PartitionInfo, Partition]
"""Topic, partition, and what is answered for it once the replicas in sync begin there, too."""


def handle(context: BrokerContext, request: Request) -> DeleteRecordsResponse | None:
    """Answered when no replica in sync has the records any more; offset -1 stands for the high watermark."""
    m: DeleteRecordsRequest = request.message
    waits: list[Moved] = []
    response = DeleteRecordsResponse(
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    _partition(context, topic.name, p.partition_index, p.offset, waits) for p in topic.partitions
                ],
            )
            for topic in m.topics
        ]
    )
    if waits:
        _Parked(context, request, response, waits)
        return None
    return response


class _Parked:
    """One request: answered when all its partitions are done, or when its time is up (REQUEST_TIMED_OUT)."""

    __slots__ = ("_open", "_request", "_response", "_timer")

    def __init__(
        self, context: BrokerContext, request: Request, response: DeleteRecordsResponse, waits: list[Moved]
    ) -> None:
        self._request = request
        self._response = response
        self._open = {id(answer): answer for _, _, answer in waits}
        self._timer: asyncio.TimerHandle = context.loop.call_later(
            max(request.message.timeout_ms, 0) / 1000, self._time_out
        )
        for topic, info, answer in waits:
            settle = partial(self._settle, answer)
            context.replication.await_start(topic, answer.partition_index, info, answer.low_watermark, settle)

    def _settle(self, answer: Partition, code: ErrorCode) -> None:
        if self._open.pop(id(answer), None) is None:
            return  # it has been answered with a timeout
        if code:
            _refuse(answer, code)
        if not self._open:
            self._timer.cancel()
            self._request.reply(self._response)

    def _time_out(self) -> None:
        """Our log begins there all the same, and the followers hear of it."""
        for answer in self._open.values():
            _refuse(answer, ErrorCode.REQUEST_TIMED_OUT)
        self._open.clear()
        self._request.reply(self._response)


def _refuse(answer: Partition, code: ErrorCode) -> None:
    answer.error_code = code
    answer.low_watermark = -1


def _partition(context: BrokerContext, topic: str, index: int, offset: int, waits: list[Moved]) -> Partition:
    if topic in INTERNAL_TOPICS:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        info = context.leader_of(topic, index)
        start = context.log(topic, index).delete_records_before(offset)
    except LogAccessError as error:
        return _refused(index, error.code)
    except LogError as error:
        return _refused(index, error.error_code)
    except OSError as error:
        log.error("%s-%d: %s", topic, index, error)
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR)
    answer = Partition(partition_index=index, low_watermark=start)
    if len(info.replicas) > 1:
        waits.append((topic, info, answer))
    return answer


def _refused(index: int, code: int) -> Partition:
    return Partition(partition_index=index, low_watermark=-1, error_code=code)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DeleteRecordsResponse:
    """The whole request refused."""
    assert isinstance(message, DeleteRecordsRequest)
    return DeleteRecordsResponse(
        topics=[
            Topic(name=topic.name, partitions=[_refused(p.partition_index, code) for p in topic.partitions])
            for topic in message.topics
        ]
    )
