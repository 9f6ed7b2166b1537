"""The producer's background work: it sends batches in Produce requests, and judges the answers."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

from actors.client.error_codes import error_for, is_retriable
from actors.client.errors import (
    AuthenticationError,
    ClusterAuthorizationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OutOfOrderSequenceNumberError,
)
from actors.client.net.backoff import Backoff
from actors.client.net.network import Network
from actors.client.producer.accumulator import Batch, Identity, Lane
from actors.client.records import Node, TopicPartition
from actors.client.settings import ProducerConfig
from actors.records.compression import codec_id
from actors.records.growing import GrowingBatch
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import InitProducerIdRequest, ProduceRequest

log = logging.getLogger(__name__)

_NEW_IDENTITY = (Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH, Code.INVALID_PRODUCER_ID_MAPPING)


class Sender:
    """Owns the lanes of all partitions. `room` is the producer's lock, notified when a batch has its outcome."""

    def __init__(self, network: Network, config: ProducerConfig) -> None:
        self.network = network
        self._now_ms = network.now_ms
        self.config = config
        self.room = threading.Condition()
        self.lanes: dict[TopicPartition, Lane] = {}
        self.buffered = 0
        self.flushing = 0
        self.scheduled = False
        self.records_sent = 0
        self.requests = 0
        self.retries = 0
        self._codec = codec_id(config.compression_type)
        self._idempotent = bool(config.enable_idempotence)
        # Without sequence numbers only one batch at a time keeps the order.
        self._lane_limit = config.max_in_flight_requests_per_connection if self._idempotent else 1
        self._in_flight: dict[int, int] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._producer: tuple[int, int] | None = None
        self._asking_for_id = False
        self._fatal: KafkaError | None = None
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, network.jitter)
        self._wake_at: int | None = None

    # --- the user's thread ------------------------------------------------------------------------------------------

    def batch_for(self, tp: TopicPartition, size: int) -> tuple[Batch, bool]:
        """A partition's open batch with room for `size` bytes, and whether to call `soon`. Called under the lock."""
        lane = self.lanes.get(tp)
        if lane is None:
            lane = self.lanes[tp] = Lane(tp)
        if lane.waiting:
            last = lane.waiting[-1]
            if last.is_open and last.records.size + size <= self.config.batch_size:
                return last, False
        batch = Batch(tp, GrowingBatch(self._codec), self._now_ms())
        batch.outage = self.network.outage
        lane.waiting.append(batch)
        return batch, True

    def add_sealed(self, batch: Batch) -> None:
        """Queue a finished batch of a partition. Called under the lock; call `soon` afterwards."""
        lane = self.lanes.get(batch.tp)
        if lane is None:
            lane = self.lanes[batch.tp] = Lane(batch.tp)
        batch.outage = self.network.outage
        lane.waiting.append(batch)
        self.buffered += batch.size

    def soon(self) -> None:
        """Have `step` run on the loop. May be called from any thread."""
        if not self.scheduled:
            self.scheduled = True
            self.network.soon(self.step)

    @property
    def idle(self) -> bool:
        return all(lane.empty for lane in self.lanes.values())

    # --- the loop -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Send all batches that can be sent now, and fail those that are too late."""
        self.scheduled = False
        now = self._now_ms()
        with self.room:
            busy = [lane for lane in self.lanes.values() if not lane.empty]
            failed = self._expired(busy, now)
            for lane in busy:
                if lane.heal():
                    self._producer = None
            rounds = self._rounds(busy, now)
        for batch in failed:
            limit = self.config.delivery_timeout_ms
            where = f"{batch.tp.topic}-{batch.tp.partition}"
            late = f"{where}: not delivered within delivery_timeout_ms={limit}{self.network.outage.because()}"
            self._finish(batch, KafkaTimeoutError(late))
        for node, batches in rounds:
            self.network.loop.create_task(self._send(node, batches))

    def _expired(self, lanes: list[Lane], now: int) -> list[Batch]:
        timeout = self.config.delivery_timeout_ms
        return [batch for lane in lanes for batch in lane.expire(now, timeout)]

    def _rounds(self, lanes: list[Lane], now: int) -> list[tuple[Node, list[Batch]]]:
        """The requests to send now, in order: with all batches that may be in flight."""
        rounds: list[tuple[Node, list[Batch]]] = []
        while plans := self._plan(lanes, now):
            for node, batches in plans.items():
                self._in_flight[node.id] = self._in_flight.get(node.id, 0) + 1
                rounds.append((node, batches))
        return rounds

    def _plan(self, lanes: list[Lane], now: int) -> dict[Node, list[Batch]]:
        plans: dict[Node, list[Batch]] = {}
        sizes: dict[int, int] = {}
        homeless = False
        if lanes:
            # Look again soon, whatever keeps a batch from being sent below.
            self._wake(now + max(1, self.config.linger_ms, 20))
        for lane in lanes:
            node = self.network.cluster.leader(lane.tp)
            if node is None:
                homeless = True
                continue
            if lane.in_flight and lane.node_id != node.id:
                # A new leader must not get a later batch before it is known what became of the earlier ones.
                continue
            if self._in_flight.get(node.id, 0) >= self.config.max_in_flight_requests_per_connection:
                continue
            if self._idempotent and not self._identify(lane):
                continue
            if node.id in sizes and sizes[node.id] + lane.next_size > self.config.max_request_size:
                continue
            batch = lane.next(
                now,
                self.config.linger_ms,
                self.config.batch_size,
                self._lane_limit,
                flush=self.flushing > 0,
            )
            if batch is not None:
                batch.close(lane.identity)
                lane.node_id = node.id
                sizes[node.id] = sizes.get(node.id, 0) + batch.size
                plans.setdefault(node, []).append(batch)
        if homeless:
            self.network.refresh()
        return plans

    def _wake(self, at_ms: int) -> None:
        if self._wake_at is None or at_ms < self._wake_at:
            self._wake_at = at_ms
            self.network.loop.call_later(max(at_ms - self._now_ms(), 1) / 1000, self._on_wake)

    def _on_wake(self) -> None:
        self._wake_at = None
        self.step()

    def _identify(self, lane: Lane) -> bool:
        """Returns True if the lane has an identity. If not, a producer id is asked for, unless that is under way."""
        if lane.identity is None and self._producer is not None:
            lane.identity = Identity(*self._producer)
        if lane.identity is None and not self._asking_for_id:
            self._asking_for_id = True
            self.network.loop.create_task(self._ask_for_id())
        return lane.identity is not None

    async def _ask_for_id(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        try:
            response = await self.network.ask(None, request)
            if response.error_code:
                raise error_for(response.error_code, "asking for a producer id")
            self._producer = (response.producer_id, response.producer_epoch)
        except KafkaError as error:
            log.debug("producer id: %s", error)
            if not error.retriable:
                self._fail_everything(error)
            self._wake(self._now_ms() + self._backoff.delay_ms(1))
        finally:
            self._asking_for_id = False
        if self._producer is not None:
            self.step()

    def _fail_everything(self, error: KafkaError) -> None:
        with self.room:
            batches = [batch for lane in self.lanes.values() for batch in (*lane.retry, *lane.waiting)]
            for lane in self.lanes.values():
                lane.retry.clear()
                lane.waiting.clear()
        hint = ""
        if isinstance(error, ClusterAuthorizationError):
            hint = (
                "; it needs IDEMPOTENT_WRITE on the cluster or WRITE on a topic; enable_idempotence=False needs neither"
            )
        elif not isinstance(error, AuthenticationError):
            hint = "; set enable_idempotence=False for brokers without producer ids"
        for batch in batches:
            self._finish(batch, type(error)(f"{error}{hint}"))

    async def _send(self, node: Node, batches: list[Batch]) -> None:
        try:
            answers = await self._produce(node, batches)
        except KafkaError as error:
            for batch in batches:
                self._judge(batch, error, None)
        else:
            for batch in batches:
                answer = answers.get(batch.tp) if answers is not None else None
                self._answered(batch, answer, is_acknowledged=answers is not None)
        finally:
            self._in_flight[node.id] -= 1
            self.step()

    async def _produce(self, node: Node, batches: list[Batch]) -> dict[TopicPartition, Any] | None:
        topics: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
        for batch in batches:
            batch.attempts += 1
            data = ProduceRequest.PartitionProduceData(
                index=batch.tp.partition, records=bytes(batch.records.data or b"")
            )
            topics.setdefault(batch.tp.topic, []).append(data)
        request = ProduceRequest(
            transactional_id=None,
            acks=self.config.acks,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=[ProduceRequest.TopicProduceData(name=t, partition_data=ps) for t, ps in topics.items()],
        )
        self.requests += 1
        lowest = 7 if self.config.compression_type == "zstd" else 3
        # While a connection is being made, requests for it must not overtake one another: the broker would take the
        # later batch of a new producer for its first, and refuse the real first one. The lock is fair.
        async with self._turns.setdefault(node.id, asyncio.Lock()):
            connection = await self.network.connection(node)
            self._stay_in_line(batches)
            if self.config.acks == 0:
                connection.tell(request, lowest)
                # With acks=0 nobody answers: the buffer and close() wait until the request has left this process.
                await connection.written()
                return None
            answer = connection.call(request, self.config.request_timeout_ms, lowest)
        response = await answer
        return {TopicPartition(t.name, p.index): p for t in response.responses for p in t.partition_responses}

    def _stay_in_line(self, batches: list[Batch]) -> None:
        """Raise KafkaConnectionError if an earlier batch is to be sent again, which has to go first."""
        with self.room:
            for batch in batches:
                if any(earlier.order < batch.order for earlier in self.lanes[batch.tp].retry):
                    raise KafkaConnectionError("what was to be sent before this came back")

    def _answered(self, batch: Batch, answer: Any, *, is_acknowledged: bool) -> None:
        if not is_acknowledged:
            self._delivered(batch, -1, -1)
        elif answer is None:
            self._judge(batch, KafkaError("the broker's answer leaves this partition out"), None)
        elif answer.error_code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            self._delivered(batch, answer.base_offset, answer.log_append_time_ms)
        else:
            where = f"producing to {batch.tp.topic}-{batch.tp.partition}"
            batch.record_errors = _record_errors(answer, where)
            error = error_for(answer.error_code, where, answer.error_message, topics=[batch.tp.topic])
            self._judge(batch, error, answer.error_code)

    def _delivered(self, batch: Batch, base_offset: int, timestamp_ms: int) -> None:
        with self.room:
            self.lanes[batch.tp].back(batch, again=False)
            if batch.identity is not None:
                batch.identity.acknowledged = True
        self.records_sent += batch.count
        self._finish(batch, None, base_offset, timestamp_ms)

    def _judge(self, batch: Batch, error: KafkaError, code: int | None) -> None:
        """Decide whether a batch that failed is sent again, or fails for good."""
        now = self._now_ms()
        with self.room:
            lane = self.lanes[batch.tp]
            again = error.retriable if code is None else is_retriable(code)
            if code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER and not lane.is_first(batch):
                again = True
            elif code in _NEW_IDENTITY:
                again = lane.poisoned = True
            late = now - batch.created_ms >= self.config.delivery_timeout_ms
            again = again and not late and batch.attempts <= self.config.retries
            lane.back(batch, again=again)
            if again:
                self.retries += 1
                lane.not_before_ms = now + self._backoff.delay_ms(batch.attempts)
            elif self._idempotent:
                # The broker would never accept the batches that are numbered after it.
                lane.poisoned = True
        if again:
            self.network.refresh()
            self._wake(lane.not_before_ms)
            return
        if code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            error = OutOfOrderSequenceNumberError(f"{error}: records sent before these were lost by the broker")
        self._finish(batch, error)

    def _finish(self, batch: Batch, error: KafkaError | None, base_offset: int = -1, timestamp_ms: int = -1) -> None:
        size = batch.size
        if error is None:
            batch.finish(base_offset, timestamp_ms)
        else:
            batch.fail(error)
        with self.room:
            self.buffered -= size
            self.room.notify_all()


def _record_errors(answer: Any, where: str) -> dict[int, KafkaError]:
    """The errors of single records in the broker's answer (KIP-467).

    The only code there is is the batch's; as in Kafka's producer it is that of a record which alone is refused.
    """
    named = answer.record_errors
    code = answer.error_code if len(named) == 1 else Code.INVALID_RECORD
    return {e.batch_index: error_for(code, where, e.batch_index_error_message or answer.error_message) for e in named}
