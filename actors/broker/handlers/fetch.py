"""Fetch: reads record batches of the partitions this broker leads, and waits for them if asked to. A hot path.

Incremental fetch sessions (KIP-227) are declined: every answer has session id 0, so clients send whole requests.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Generator, Iterator
from typing import TypeAlias

from actors.broker.fetches import ParkedFetch
from actors.broker.handlers.authorization import denied, may
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.large_fetch import LargeFetch
from actors.broker.handlers.leaders import WRONG_LEADER, current_leader, endpoints
from actors.broker.handlers.rights import CLUSTER_ACTION, READ_TOPIC
from actors.broker.led import LogAccessError
from actors.broker.turns import PLACES_A_TURN
from actors.log.damage import DamagedBatchError
from actors.log.partition_log import PartitionLog
from actors.log.reading import Extent
from actors.records.errors import LogError
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from actors.wire.framing import LARGE_BYTES
from actors.wire.messages import ApiMessage, FetchRequest, FetchResponse

log = logging.getLogger(__name__)

API = FetchRequest
VERSIONS = (4, 18)

Partition = FetchResponse.PartitionData
Topic = FetchResponse.FetchableTopicResponse

_TOPIC_IDS_FROM = 13
_LEADERS_FROM = 12
_ENDPOINTS_FROM = 16
_READ_COMMITTED = 1

# Answers that clients have not read yet take memory. Beyond this sum answers become small.
WAITING_BYTES_MAX = 64 << 20
SMALL_ANSWER_BYTES = 64 << 10
# Pieces up to this size are read at once; larger ones are read while the client takes them. Many small ones would hold
# up the loop, and heartbeats with it. Clients simply ask again.
COPIED_BYTES_MAX = 2 << 20


def handle(context: HandlerContext, request: Request) -> FetchResponse | None:
    """Answered at once if there are `min_bytes` or an error to report, else parked for at most `max_wait_ms`.

    One of very many partitions is answered later in any case (large_fetch.py).
    """
    m: FetchRequest = request.message
    refusal = _session_refusal(m)
    if refusal is not None:
        return failed(m, request.version, refusal)
    if context.broker.authorizer.checks and _replica(m) >= 0 and not may(context, request, CLUSTER_ACTION):
        return _all_refused(m, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    fetch = _Fetch(context, request)
    if fetch.places > PLACES_A_TURN:
        LargeFetch(context, request, fetch, failed).begin(m.max_wait_ms)
        return None
    response = fetch.attempt(last=m.max_wait_ms <= 0)
    if response is None:
        context.broker.fetches.park(ParkedFetch(fetch.retry, fetch.partitions(), request.connection), m.max_wait_ms)
    return response


def _session_refusal(m: FetchRequest) -> ErrorCode | None:
    """The error of a request that needs a session. Epochs 0 and -1 mark a whole request, which needs none."""
    if m.session_epoch in (0, -1):
        return None
    return ErrorCode.FETCH_SESSION_ID_NOT_FOUND if m.session_id else ErrorCode.INVALID_FETCH_SESSION_EPOCH


def _replica(m: FetchRequest) -> int:
    """The broker that says it follows; -1 for a client. From version 15 on it stands in another field (KIP-903).

    No broker of ours fetches. A client that says it is one needs a right more, and in Kafka another one.
    """
    return m.replica_id if m.replica_state is None else max(m.replica_id, m.replica_state.replica_id)


_Wanted: TypeAlias = tuple[FetchRequest.FetchTopic, str | None, list[FetchRequest.FetchPartition]]
"""A topic as it is asked for, its name if it exists, and the partitions that are wanted of it."""


class _Fetch:
    """One request, which is tried until there is enough to answer. The client's rights to read are decided once."""

    __slots__ = (
        "_context",
        "_copied",
        "_enough",
        "_forbidden",
        "_message",
        "_read",
        "_request",
        "_wanted",
        "places",
    )

    def __init__(self, context: HandlerContext, request: Request) -> None:
        self._context = context
        self._request = request
        self._message: FetchRequest = request.message
        self._wanted: list[_Wanted] = []
        self.places = 0
        """The number of partitions that are named."""
        names = context.broker.metadata.names
        for topic in self._message.topics:
            by_id = request.version >= _TOPIC_IDS_FROM
            self._wanted.append((topic, names.get(topic.topic_id) if by_id else topic.topic, topic.partitions))
            self.places += len(topic.partitions)
        self._forbidden: Collection[str] = ()
        if context.broker.authorizer.checks:
            self._forbidden = denied(context, request, READ_TOPIC, (name for _, name, _ in self._wanted))
        self._read = 0
        self._copied = 0
        self._enough = False

    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that the fetch waits for."""
        return [(name, p.partition) for _, name, asked in self._wanted if name is not None for p in asked]

    def retry(self, last: bool) -> bool:
        """Try again, for the last time if `last`. Returns True if the request has been answered."""
        if self._request.connection.transport is None:
            return True
        try:
            response = self.attempt(last)
        except Exception:  # a bug, in the turn of whoever produced: its client is told
            log.exception("a parked fetch failed")
            response = failed(self._message, self._request.version, ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is None:
            return False
        self._request.reply(response)
        return True

    def attempt(self, last: bool) -> FetchResponse | None:
        """The response; None if there is too little and this is not the last try."""
        limit = self._limit()
        if limit is None:
            return self._throttled()
        min_bytes = min(self._message.min_bytes, max(limit, 1))
        if min_bytes > 1 and not last and self._available(self._wanted, limit, min_bytes) < min_bytes:
            return None
        self._begin()
        return self._enough_of(self._topics(self._wanted, limit), last, min_bytes)

    def attempt_in_pieces(self, last: bool) -> Generator[None, None, FetchResponse | None]:
        """The same, a piece of the partitions at a time."""
        limit = self._limit()
        if limit is None:
            return self._throttled()
        min_bytes = min(self._message.min_bytes, max(limit, 1))
        if min_bytes > 1 and not last:
            found = 0
            for piece in self._pieces():
                found = self._available(piece, limit, min_bytes, found)
                if found >= min_bytes:
                    break
                yield
            else:
                return None
        self._begin()
        topics: list[Topic] = []
        begun: FetchRequest.FetchTopic | None = None
        for piece in self._pieces():
            for (asked, _, _), topic in zip(piece, self._topics(piece, limit), strict=True):
                if asked is begun:  # it was cut
                    topics[-1].partitions += topic.partitions
                else:
                    topics.append(topic)
                begun = asked
            yield
        return self._enough_of(topics, last, min_bytes)

    def _pieces(self) -> Iterator[list[_Wanted]]:
        """The wanted partitions, cut where a piece is full."""
        piece: list[_Wanted] = []
        left = PLACES_A_TURN
        for topic, name, partitions in self._wanted:
            begin = 0
            while True:
                part = partitions[begin : begin + left]
                piece.append((topic, name, part))
                begin += left
                left -= len(part) + 1
                if left <= 0:
                    yield piece
                    piece, left = [], PLACES_A_TURN
                if begin >= len(partitions):
                    break
        if piece:
            yield piece

    def _begin(self) -> None:
        self._read, self._copied, self._enough = 0, 0, not self._wanted

    def _topics(self, wanted: list[_Wanted], limit: int) -> list[Topic]:
        return [
            Topic(
                topic_id=topic.topic_id,
                topic=topic.topic,
                partitions=[self._partition(name, asked, limit) for asked in partitions],
            )
            for topic, name, partitions in wanted
        ]

    def _enough_of(self, topics: list[Topic], last: bool, min_bytes: int) -> FetchResponse | None:
        """The response with what was read, unless it is too little."""
        if not last and not self._enough and self._read < min_bytes:
            return None
        response = self._response(topics)
        quotas = self._context.broker.quotas
        if quotas.limits and self._read:
            who = self._request.connection, self._request.header.client_id
            response.throttle_time_ms = quotas.fetched(*who, self._read)
        return response

    def _limit(self) -> int | None:
        """The most bytes of an answer; None if the client's quota has no room, so that nothing is to be read."""
        context = self._context
        limit = min(self._message.max_bytes, context.broker.config.integer("fetch.max.bytes"))
        room = WAITING_BYTES_MAX - context.clients.response_bytes_waiting()
        if room < limit:
            limit = min(limit, max(room, SMALL_ANSWER_BYTES))
        quotas = context.broker.quotas
        if not quotas.limits:
            return limit
        own = quotas.fetch_room(self._request.connection, self._request.header.client_id)
        return limit if own is None else min(limit, own) if own > 0 else None

    def _throttled(self) -> FetchResponse:
        quotas = self._context.broker.quotas
        throttle_ms = quotas.fetch_refused(self._request.connection, self._request.header.client_id)
        return FetchResponse(responses=[], throttle_time_ms=throttle_ms)

    def _available(self, wanted: list[_Wanted], limit: int, min_bytes: int, found: int = 0) -> int:
        """The bytes that an attempt would find beside those `found`; `min_bytes` for an error. Reads nothing."""
        for _, name, partitions in wanted:
            for asked in partitions:
                try:
                    partition_log = self._log(name, asked)
                    if _diverging(partition_log, asked) is not None:
                        return min_bytes
                    room = min(asked.partition_max_bytes, limit - found)
                    found += partition_log.readable_bytes(asked.fetch_offset, room)
                except (LogAccessError, LogError, OSError):
                    return min_bytes
                if found >= min_bytes:
                    return found
        return found

    def _log(self, topic: str | None, asked: FetchRequest.FetchPartition) -> PartitionLog:
        if topic is None:
            raise LogAccessError(ErrorCode.UNKNOWN_TOPIC_ID)
        if topic in self._forbidden:
            raise LogAccessError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self._context.led.leader_of(topic, asked.partition, asked.current_leader_epoch)
        return self._context.broker.log(topic, asked.partition)

    def _partition(self, topic: str | None, asked: FetchRequest.FetchPartition, limit: int) -> Partition:
        try:
            partition_log = self._log(topic, asked)
            diverging = _diverging(partition_log, asked)
            records: bytes | Extent = b""
            if diverging is not None:
                self._enough = True
            else:
                # The first batch of the first partition that has one is sent whatever its size (KIP-74).
                room = max(min(asked.partition_max_bytes, limit - self._read), 0)
                at_once = LARGE_BYTES
                if not Extent.may_be_kept():
                    room, at_once = min(room, max(COPIED_BYTES_MAX - self._copied, 0)), sys.maxsize
                elif self._copied > COPIED_BYTES_MAX:
                    room = 0
                records = partition_log.read_or_locate(asked.fetch_offset, room, at_once, self._read == 0)
        except LogAccessError as error:
            return self._refused(topic, asked.partition, error.code)
        except DamagedBatchError as error:
            return self._refused(topic, asked.partition, self._code_of(topic, asked.partition, error))
        except LogError as error:
            return self._refused(topic, asked.partition, error.error_code)
        except OSError as error:
            log.error("%s-%d: %s", topic, asked.partition, error, extra=at(topic or "?", asked.partition))
            return self._refused(topic, asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        self._read += len(records)
        self._copied += len(records) if isinstance(records, bytes) else 0
        high_watermark = partition_log.high_watermark
        return Partition(
            partition_index=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=partition_log.log_start_offset,
            diverging_epoch=diverging,
            aborted_transactions=[] if self._message.isolation_level == _READ_COMMITTED else None,
            records=records,  # type: ignore[arg-type]  # which the encoder only passes on
        )

    def _code_of(self, topic: str | None, index: int, error: DamagedBatchError) -> int:
        """While another replica may have the batch, clients ask again by themselves."""
        partition = self._context.broker.metadata.partition(topic or "", index)
        alone = partition is None or len(partition.isr) < 2
        beyond = alone or error.damage in self._context.broker.beyond_mending
        return error.error_code if beyond else ErrorCode.KAFKA_STORAGE_ERROR

    def _refused(self, topic: str | None, index: int, code: int) -> Partition:
        self._enough = True
        refused = _refused(index, code)
        if topic is not None and code in WRONG_LEADER and self._request.version >= _LEADERS_FROM:
            refused.current_leader = current_leader(self._context.broker, topic, index, FetchResponse.LeaderIdAndEpoch)
        return refused

    def _response(self, topics: list[Topic]) -> FetchResponse:
        response = FetchResponse(responses=topics)
        if self._read:
            self._count(topics)
        if self._enough and self._request.version >= _ENDPOINTS_FROM:
            leaders = [p.current_leader for topic in topics for p in topic.partitions if p.current_leader]
            listener = self._request.connection.listener
            response.node_endpoints = endpoints(self._context.broker, listener, leaders, FetchResponse.NodeEndpoint)
        return response

    def _count(self, topics: list[Topic]) -> None:
        counts = self._context.broker.counts.topics
        for (_, name, _), topic in zip(self._wanted, topics, strict=True):
            size_bytes = sum(len(p.records or b"") for p in topic.partitions)
            if size_bytes and name is not None:
                counts.went(name, size_bytes)


def _diverging(partition_log: PartitionLog, asked: FetchRequest.FetchPartition) -> FetchResponse.EpochEndOffset | None:
    """The offset where the client's log and ours part, if its last record's epoch ends earlier in ours (KIP-595)."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end = partition_log.end_offset_for_epoch(asked.last_fetched_epoch)
    if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
        return FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
    return None


def _refused(index: int, code: int) -> Partition:
    return Partition(partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None, records=b"")


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> FetchResponse:
    """The whole request refused. Before version 7 only partitions have a field for the error."""
    assert isinstance(message, FetchRequest)
    return FetchResponse(error_code=code) if version >= 7 else _all_refused(message, code)


def _all_refused(m: FetchRequest, code: int) -> FetchResponse:
    return FetchResponse(
        responses=[
            Topic(
                topic_id=topic.topic_id,
                topic=topic.topic,
                partitions=[_refused(asked.partition, code) for asked in topic.partitions],
            )
            for topic in m.topics
        ]
    )
