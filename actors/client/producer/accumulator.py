"""The producer's buffer: a queue of batches for each partition, and which batch may be sent now. No I/O, no thread.

It is used under the producer's lock.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from actors.client.errors import KafkaError, KafkaTimeoutError
from actors.client.net.outage import Outage
from actors.client.records import BatchMetadata, RecordMetadata, TopicPartition
from actors.records.batch import MAX_SEQUENCE, NO_SEQUENCE, number
from actors.records.growing import GrowingBatch

log = logging.getLogger(__name__)

_NO_ERRORS: Final[Mapping[int, BaseException]] = MappingProxyType({})


@dataclass(slots=True)
class Identity:
    """An idempotent producer's id for one partition, and the sequence of its next batch there.

    Until a batch is `acknowledged`, only one is in flight: the first that a broker takes of a producer it does not
    know may have any sequence, so a later one must not come before a first one that has to be sent again.
    """

    producer_id: int
    epoch: int
    next_sequence: int = 0
    acknowledged: bool = False


class Batch:
    """Records of one partition that are sent together, and their outcome."""

    __slots__ = (
        "_done",
        "attempts",
        "base_offset",
        "callbacks",
        "created_ms",
        "error",
        "identity",
        "order",
        "outage",
        "record_errors",
        "records",
        "sequence",
        "timestamp_ms",
        "tp",
    )

    def __init__(self, tp: TopicPartition, records: GrowingBatch, now_ms: int) -> None:
        self.tp = tp
        self.records = records
        self.created_ms = now_ms
        self.attempts = 0
        self.identity: Identity | None = None
        self.sequence = NO_SEQUENCE
        self.order = 0
        self.outage: Outage | None = None
        self.base_offset = -1
        self.timestamp_ms = -1
        self.error: BaseException | None = None
        self.record_errors = _NO_ERRORS
        self.callbacks: list[Callable[[Batch], None]] = []
        self._done: threading.Event | None = None

    @property
    def is_open(self) -> bool:
        """True if records can be appended."""
        return self.records.data is None

    @property
    def count(self) -> int:
        return self.records.count

    @property
    def size(self) -> int:
        """The size in bytes; before compression, if records were appended one by one."""
        return self.records.size

    def close(self, identity: Identity | None) -> None:
        """End the batch: build its bytes, and number it in the sequence of `identity` if it has no number yet."""
        data = self.records.build()
        if identity is not None and self.identity is not identity:
            self.identity = identity
            self.sequence = identity.next_sequence
            identity.next_sequence = (identity.next_sequence + self.records.count) & MAX_SEQUENCE
            number(data, identity.producer_id, identity.epoch, self.sequence)

    # --- the outcome ------------------------------------------------------------------------------------------------

    def finished(self) -> bool:
        return self.error is not None or self.base_offset != -1 or self.timestamp_ms == -2

    def finish(self, base_offset: int, timestamp_ms: int) -> None:
        """The batch was delivered. Offset and timestamp are -1 if the broker did not give them."""
        self.base_offset = base_offset
        self.timestamp_ms = -2 if base_offset == -1 else timestamp_ms
        self._finished()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self._finished()

    def error_of(self, number: int) -> BaseException | None:
        """The error of one record. If only others of its batch were refused, it says so (KIP-467)."""
        if self.error is None or not self.record_errors or number in self.record_errors:
            return self.record_errors.get(number, self.error)
        return KafkaError(f"not written, because of other records of its batch: {self.error}")

    def _finished(self) -> None:
        self.records.drop()
        if self._done is not None:
            self._done.set()
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # it is the user's, and the others have nothing to do with it
                log.exception("a callback of a produced record failed")

    def late(self, timeout_s: float | None) -> KafkaTimeoutError:
        """The error for somebody who has waited so long and waits no more."""
        why = self.outage.because() if self.outage is not None else ""
        return KafkaTimeoutError(
            f"not delivered within {timeout_s} s; delivery_timeout_ms says how long it is tried{why}"
        )

    def wait(self, timeout_s: float | None) -> bool:
        if self.finished():
            return True
        if self._done is None:
            self._done = threading.Event()
            if self.finished():
                return True
        return self._done.wait(timeout_s)


class FutureBatchMetadata:
    """The result of `send_arrow` for each record batch: a future of the place where it was written."""

    __slots__ = ("_batch", "_timestamp_ms")

    def __init__(self, batch: Batch, timestamp_ms: int) -> None:
        self._batch = batch
        self._timestamp_ms = timestamp_ms

    @property
    def count(self) -> int:
        """The number of its records."""
        return self._batch.count

    @property
    def is_done(self) -> bool:
        return self._batch.finished()

    @property
    def exception(self) -> BaseException | None:
        return self._batch.error

    def get(self, timeout: float | None = None) -> BatchMetadata:
        """Wait for the outcome (seconds; None = as long as it takes). Raises what went wrong, or KafkaTimeoutError."""
        batch = self._batch
        if not batch.wait(timeout):
            raise batch.late(timeout)
        if batch.error is not None:
            raise batch.error
        at = batch.timestamp_ms if batch.timestamp_ms >= 0 else self._timestamp_ms
        return BatchMetadata(*batch.tp, batch.base_offset, batch.count, at)


class FutureRecordMetadata:
    """The result of `send`: a future of the place where the record was written."""

    __slots__ = ("_batch", "_key_size", "_number", "_timestamp_ms", "_value_size")

    def __init__(self, batch: Batch, number: int, timestamp_ms: int, key_size: int, value_size: int) -> None:
        self._batch = batch
        self._number = number
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size

    @property
    def is_done(self) -> bool:
        return self._batch.finished()

    @property
    def exception(self) -> BaseException | None:
        return self._batch.error_of(self._number)

    def succeeded(self) -> bool:
        return self.is_done and self._batch.error is None

    def failed(self) -> bool:
        return self._batch.error is not None

    @property
    def value(self) -> RecordMetadata:
        batch = self._batch
        offset = batch.base_offset + self._number if batch.base_offset >= 0 else -1
        timestamp = batch.timestamp_ms if batch.timestamp_ms >= 0 else self._timestamp_ms
        return RecordMetadata(*batch.tp, offset, timestamp, self._key_size, self._value_size)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome (seconds; None = as long as it takes). Raises what went wrong, or KafkaTimeoutError."""
        if not self._batch.wait(timeout):
            raise self._batch.late(timeout)
        if (error := self.exception) is not None:
            raise error
        return self.value

    def add_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Have `function(*args, metadata)` called after success, in the producer's thread."""
        self._when_done(lambda batch: None if batch.error else function(*args, self.value, **kwargs))
        return self

    def add_errback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Have `function(*args, error)` called after failure, in the producer's thread."""
        self._when_done(lambda batch: function(*args, self.exception, **kwargs) if batch.error else None)
        return self

    def _when_done(self, callback: Callable[[Batch], Any]) -> None:
        if not self._batch.finished():
            self._batch.callbacks.append(callback)
            # It may have finished between the check and the append; whoever takes the callback out runs it.
            if not self._batch.finished():
                return
            try:
                self._batch.callbacks.remove(callback)
            except ValueError:
                return
        callback(self._batch)


@dataclass(slots=True)
class Lane:
    """The batches of one partition: those not sent yet, those in flight, and those to be sent again, each in order.

    A batch is sent again before any new one, and not while a later one is in flight, so that the order stays.
    `poisoned`: the sequence has a hole, and all batches wait for a new identity. `node_id`: the broker that the last
    batch was sent to.
    """

    tp: TopicPartition
    waiting: deque[Batch] = field(default_factory=deque)
    in_flight: list[Batch] = field(default_factory=list)
    retry: list[Batch] = field(default_factory=list)
    identity: Identity | None = None
    not_before_ms: int = 0
    poisoned: bool = False
    node_id: int = -1
    _last_order: int = 0

    def next(self, now_ms: int, linger_ms: int, batch_size: int, limit: int, *, flush: bool) -> Batch | None:
        """Take out the batch to send now, which is in flight then; None if there is none yet."""
        if self.identity is not None and not self.identity.acknowledged:
            limit = 1
        if now_ms < self.not_before_ms or len(self.in_flight) >= limit or self.poisoned:
            return None
        if self.retry:
            if any(batch.order > self.retry[0].order for batch in self.in_flight):
                return None
            return self._sent(self.retry.pop(0))
        if not self.waiting:
            return None
        batch = self.waiting[0]
        full = len(self.waiting) > 1 or batch.size >= batch_size or not batch.is_open
        if full or flush or now_ms - batch.created_ms >= linger_ms:
            self._last_order += 1
            batch.order = self._last_order
            return self._sent(self.waiting.popleft())
        return None

    @property
    def next_size(self) -> int:
        """The size in bytes of the batch that `next` would take; 0 if there is none."""
        first = self.retry or self.waiting
        return first[0].size if first else 0

    def _sent(self, batch: Batch) -> Batch:
        self.in_flight.append(batch)
        return batch

    def back(self, batch: Batch, *, again: bool) -> None:
        """A batch has been answered; with `again` it is queued to be sent again."""
        self.in_flight.remove(batch)
        if again:
            self.retry.append(batch)
            self.retry.sort(key=lambda entry: entry.order)

    def is_first(self, batch: Batch) -> bool:
        """True if no earlier batch is open. An out-of-order answer to it then means that records were lost."""
        return all(entry.order >= batch.order for entry in (*self.in_flight, *self.retry))

    def heal(self) -> bool:
        """Have a poisoned lane begin anew once nothing is in flight. Its batches are numbered when they are sent."""
        if not self.poisoned or self.in_flight:
            return False
        self.poisoned = False
        self.identity = None
        return True

    def expire(self, now_ms: int, timeout_ms: int) -> list[Batch]:
        """Take out the batches that have waited longer than the delivery timeout."""
        late = [batch for batch in (*self.retry, *self.waiting) if now_ms - batch.created_ms >= timeout_ms]
        for batch in late:
            if batch in self.retry:
                self.retry.remove(batch)
                self.poisoned = self.poisoned or batch.sequence >= 0
            else:
                self.waiting.remove(batch)
        return late

    @property
    def empty(self) -> bool:
        return not (self.waiting or self.in_flight or self.retry)
