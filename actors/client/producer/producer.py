"""`Producer`: writes records. Names and defaults are kafka-python's and Kafka's; sending happens in the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from actors.client.config import network_settings, producer_config
from actors.client.errors import (
    BufferExhaustedError,
    ClosedError,
    IllegalStateError,
    KafkaTimeoutError,
    MessageTooLargeError,
    SerializationError,
)
from actors.client.net.metadata import TopicInfo
from actors.client.net.network import Network
from actors.client.producer.accumulator import FutureBatchMetadata, FutureRecordMetadata
from actors.client.producer.sender import Sender
from actors.client.producer.topics import Topics
from actors.client.producer.values import headers_of, limit_of, time_of
from actors.client.records import TopicPartition
from actors.records.batch import RECORD_OVERHEAD_BYTES
from actors.runtime.environment import REAL, Environment
from placement.hashing import partition_for_key

if TYPE_CHECKING:
    import pyarrow as pa

    from actors.client.producer.arrow_sending import ArrowSending


class Producer:
    """`Producer(bootstrap_servers="localhost:9092")`; thread-safe. Its settings are `config.PRODUCER_SETTINGS`.

    Records with a key go to the partition that Kafka's partitioner chooses. Those without one fill a batch of one
    partition, and then of another (KIP-480). Time and chance are those of `environment`.
    """

    def __init__(self, *, environment: Environment = REAL, **settings: Any) -> None:
        self.config = producer_config(settings)
        self._key_of = _serializer(self.config.key_serializer, "key_serializer")
        self._value_of = _serializer(self.config.value_serializer, "value_serializer")
        self._size_max = min(self.config.max_request_size, self.config.buffer_memory)
        self._sticky: dict[str, tuple[int, int]] = {}
        self._closed = False
        self._now_ms, self._wall_ms = environment.clock.monotonic_ms, environment.clock.wall_ms
        settings_of_network = replace(network_settings(self.config), create_only_held=True)
        self._network = Network(settings_of_network, environment=environment)
        self._sender = Sender(self._network, self.config)
        idle_ms, block_ms = self.config.metadata_max_idle_ms, self.config.max_block_ms
        self._topics = Topics(self._network, self._sender, idle_ms, block_ms)
        self._network.start(self._topics)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Sequence[tuple[str | bytes, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Queue a record. The future's `get()` returns where it was written, or raises why it was not delivered.

        Waits up to max_block_ms for the topic's metadata and for room in the buffer (the timeout of `get` begins only
        then), and raises KafkaTimeoutError or BufferExhaustedError. A header's name is str, or bytes that need not be
        UTF-8. `timestamp_ms` is Unix time; None: now, -1: the record has no time. Raises SerializationError,
        MessageTooLargeError, AuthenticationError and TopicAuthorizationError at once.
        """
        if self._closed:
            raise ClosedError
        deadline = self._now_ms() + self.config.max_block_ms
        key_bytes = _to_bytes(self._key_of, topic, key, "key")
        value_bytes = _to_bytes(self._value_of, topic, value, "value")
        key_size = -1 if key_bytes is None else len(key_bytes)
        value_size = -1 if value_bytes is None else len(value_bytes)
        header_list, size = headers_of(headers) if headers else ([], 0)
        size += RECORD_OVERHEAD_BYTES + max(key_size, 0) + max(value_size, 0)
        at = self._wall_ms() if timestamp_ms is None else time_of(timestamp_ms)
        if size > self._size_max:
            name, limit = limit_of(self.config, size)
            raise MessageTooLargeError(f"a record of {size} bytes is larger than {name}={limit}")
        info = self._topics.find(topic, deadline)
        number = self._partition(topic, info, key_bytes, partition, size)
        sender = self._sender
        with sender.room:
            if sender.buffered + size > self.config.buffer_memory:
                self._wait_for_room(size, deadline)
            batch, tell = sender.batch_for(TopicPartition(topic, number), size)
            records = batch.records
            before = records.size if records.count else 0
            place = records.append(key_bytes, value_bytes, header_list, at)
            sender.buffered += records.size - before
            tell = tell or records.size >= self.config.batch_size
        if tell:
            sender.soon()
        return FutureRecordMetadata(batch, place, at, key_size, value_size)

    def send_arrow(
        self,
        topic: str,
        batch: pa.RecordBatch | pa.Table,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[FutureBatchMetadata]:
        """Queue records from Arrow columns, many times faster than one by one. Returns a future for each record batch.

        Columns: value (binary or string) and, where there are such, key, headers (a list of (key, value), the key
        string or binary), partition (int; null = by the key) and timestamp (a timestamp, or Unix ms; -1 = none);
        others are not looked at. Serializers are not used. Keys choose partitions as in `send`; rows without one fill
        a batch of one partition, then of another. Rows of a partition keep their order, also with what `send` queued
        before.

        Waits, and raises, as `send` does; when it raises after a part was queued, that part is sent.
        """
        if self._closed:
            raise ClosedError
        futures: list[FutureBatchMetadata] = []
        for each in batch.to_batches() if hasattr(batch, "to_batches") else [batch]:
            futures += self._arrow.send(topic, each, partition, timestamp_ms)
        return futures

    @cached_property
    def _arrow(self) -> ArrowSending:
        # Imported here: a producer of records starts in half the time without Arrow.
        from actors.client.producer.arrow_sending import ArrowSending

        return ArrowSending(self.config, self._sender, self._sticky, self._topics.find, self._wait_for_room)

    def _wait_for_room(self, size: int, deadline: int) -> None:
        sender = self._sender
        while sender.buffered + size > self.config.buffer_memory:
            sender.soon()
            left = deadline - self._now_ms()
            if left <= 0 or not sender.room.wait(left / 1000):
                raise BufferExhaustedError(
                    f"the buffer of buffer_memory={self.config.buffer_memory} bytes stayed full for max_block_ms; "
                    "the brokers take records more slowly than they are sent"
                )

    def _partition(self, topic: str, info: TopicInfo, key: bytes | None, asked: int | None, size: int) -> int:
        count = len(info.partitions)
        if asked is not None:
            if asked not in info.partitions:
                raise IllegalStateError(f"topic {topic} has no partition {asked}; it has {count}")
            return asked
        custom = self.config.partitioner
        if custom is not None:
            everything = sorted(info.partitions)
            live = [n for n, p in info.partitions.items() if p.leader >= 0]
            return int(custom(key, everything, live or everything))
        if key is not None:
            return partition_for_key(key, count)
        number, used = self._sticky.get(topic, (-1, 0))
        if number < 0 or used >= self.config.batch_size:
            live = [n for n, p in info.partitions.items() if p.leader >= 0 and n != number]
            among = live or list(info.partitions)
            number, used = among[self._network.environment.chance.randrange(len(among))], 0
        self._sticky[topic] = (number, used + size)
        return number

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far has its outcome. Raises KafkaTimeoutError after `timeout` seconds."""
        sender = self._sender
        deadline = None if timeout is None else self._now_ms() + int(timeout * 1000)
        with sender.room:
            sender.flushing += 1
            waiting = {
                batch for lane in sender.lanes.values() for batch in (*lane.waiting, *lane.in_flight, *lane.retry)
            }
        sender.soon()
        try:
            for batch in waiting:
                left = None if deadline is None else max(0, deadline - self._now_ms()) / 1000
                if not batch.wait(left):
                    why = self._network.outage.because()
                    raise KafkaTimeoutError(f"not everything was delivered within {timeout} s{why}")
        finally:
            with sender.room:
                sender.flushing -= 1

    def partitions_for(self, topic: str) -> set[int]:
        """The partition numbers of a topic. Waits up to max_block_ms for its metadata."""
        return set(self._topics.find(topic, self._now_ms() + self.config.max_block_ms).partitions)

    def metrics(self) -> dict[str, int]:
        """Counters since the producer was made."""
        sender = self._sender
        return {
            "records_sent": sender.records_sent,
            "requests": sender.requests,
            "retries": sender.retries,
            "buffered_bytes": sender.buffered,
        }

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds (None: delivery_timeout_ms), and close."""
        if self._closed:
            return
        self._closed = True
        limit = self.config.delivery_timeout_ms / 1000 + 1 if timeout is None else timeout
        try:
            self.flush(limit)
        finally:
            self._network.close()
            self._abandon()

    def _abandon(self) -> None:
        """Fail all records that are not delivered yet."""
        with self._sender.room:
            left = [b for lane in self._sender.lanes.values() for b in (*lane.waiting, *lane.in_flight, *lane.retry)]
        for batch in left:
            if not batch.finished():
                batch.fail(ClosedError("the producer was closed before this record was delivered"))

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _serializer(given: Any, name: str) -> Callable[[str, Any], bytes | None] | None:
    if given is None:
        return None
    function = given.serialize if hasattr(given, "serialize") else lambda topic, data: given(data)

    def checked(topic: str, data: Any) -> bytes | None:
        try:
            return function(topic, data)  # type: ignore[no-any-return]
        except Exception as error:  # it is the user's, and may raise anything
            raise SerializationError(f"{name} failed: {type(error).__name__}: {error}") from error

    return checked


def _to_bytes(serializer: Callable[[str, Any], bytes | None] | None, topic: str, data: Any, what: str) -> bytes | None:
    if serializer is not None and data is not None:
        data = serializer(topic, data)
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise SerializationError(f"the {what} is a {type(data).__name__}, not bytes: set {what}_serializer")
