"""`Producer`: writes records. Names and defaults are kafka-python's and Kafka's; sending happens in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from actors.client.config import network_settings, producer_config
from actors.client.errors import (
    AuthenticationError,
    BufferExhaustedError,
    ClosedError,
    IllegalStateError,
    KafkaTimeoutError,
    MessageTooLargeError,
    SerializationError,
    TopicAuthorizationError,
)
from actors.client.net.metadata import TopicInfo
from actors.client.net.network import Network, again
from actors.client.producer.accumulator import FutureBatchMetadata, FutureRecordMetadata
from actors.client.producer.sender import Sender
from actors.client.producer.values import headers_of, time_of
from actors.client.records import TopicPartition
from actors.records.batch import RECORD_OVERHEAD_BYTES
from actors.runtime.environment import REAL, Environment
from actors.wire.errors import ErrorCode as Code
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
        self._key_of = _serializer(self.config["key_serializer"], "key_serializer")
        self._value_of = _serializer(self.config["value_serializer"], "value_serializer")
        self._topics: dict[str, int] = {}  # the times at which each was last sent to
        self._sticky: dict[str, tuple[int, int]] = {}
        self._closed = False
        self._now_ms, self._wall_ms = environment.clock.monotonic_ms, environment.clock.wall_ms
        settled = network_settings(self.config)
        self._network = Network(settled, self._wanted_topics, create_only_held=True, environment=environment)
        self._sender = Sender(self._network, self.config)
        self._known = threading.Condition()
        self._denials = 0
        self._denied: AuthenticationError | None = None
        self._network.on_metadata = self._on_metadata
        self._network.on_denied = self._on_denied
        self._network.start()

    def _wanted_topics(self) -> frozenset[str]:
        """The topics whose metadata is kept fresh: those sent to lately, and those with queued batches."""
        idle = self._now_ms() - self.config["metadata_max_idle_ms"]
        for topic, last in list(self._topics.items()):
            if last <= idle:
                self._topics.pop(topic, None)
        with self._sender.room:
            queued = {tp.topic for tp, lane in self._sender.lanes.items() if not lane.empty}
        return frozenset(queued.union(list(self._topics)))

    def _on_metadata(self) -> None:
        with self._known:
            self._known.notify_all()
        self._sender.step()

    def _on_denied(self, error: AuthenticationError) -> None:
        with self._known:
            self._denials += 1
            self._denied = error
            self._known.notify_all()

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
        deadline = self._now_ms() + self.config["max_block_ms"]
        key_bytes = _to_bytes(self._key_of, topic, key, "key")
        value_bytes = _to_bytes(self._value_of, topic, value, "value")
        key_size = -1 if key_bytes is None else len(key_bytes)
        value_size = -1 if value_bytes is None else len(value_bytes)
        header_list, size = headers_of(headers) if headers else ([], 0)
        size += RECORD_OVERHEAD_BYTES + max(key_size, 0) + max(value_size, 0)
        at = self._wall_ms() if timestamp_ms is None else time_of(timestamp_ms)
        for limit in ("max_request_size", "buffer_memory"):
            if size > self.config[limit]:
                raise MessageTooLargeError(f"a record of {size} bytes is larger than {limit}={self.config[limit]}")
        info = self._topic(topic, deadline)
        number = self._partition(topic, info, key_bytes, partition, size)
        sender = self._sender
        with sender.room:
            if sender.buffered + size > self.config["buffer_memory"]:
                self._wait_for_room(size, deadline)
            batch, tell = sender.batch_for(TopicPartition(topic, number), size)
            records = batch.records
            before = records.size if records.count else 0
            place = records.append(key_bytes, value_bytes, header_list, at)
            sender.buffered += records.size - before
            tell = tell or records.size >= self.config["batch_size"]
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

        return ArrowSending(self.config, self._sender, self._sticky, self._topic, self._wait_for_room)

    def _wait_for_room(self, size: int, deadline: int) -> None:
        sender = self._sender
        while sender.buffered + size > self.config["buffer_memory"]:
            sender.soon()
            left = deadline - self._now_ms()
            if left <= 0 or not sender.room.wait(left / 1000):
                raise BufferExhaustedError(
                    f"the buffer of buffer_memory={self.config['buffer_memory']} bytes stayed full for max_block_ms; "
                    "the brokers take records more slowly than they are sent"
                )

    def _topic(self, topic: str, deadline: int) -> TopicInfo:
        info = self._network.cluster.topics.get(topic)
        if info is None or not info.partitions:
            with self._network.holding((topic,)):
                return self._await_topic(topic, deadline)
        self._topics[topic] = self._now_ms()
        return info

    def _await_topic(self, topic: str, deadline: int) -> TopicInfo:
        denials, version = self._denials, self._network.cluster.version
        while True:
            with self._known:
                info = self._network.cluster.topics.get(topic)
                if info is not None and info.partitions:
                    self._topics[topic] = self._now_ms()
                    return info
                if self._denied is not None and self._denials != denials:
                    raise again(self._denied)
                fresh = self._network.cluster.version != version
                if fresh and info is not None and info.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
                    raise TopicAuthorizationError(topics=[topic])
                self._network.soon(self._network.refresh)
                left = deadline - self._now_ms()
                if left <= 0:
                    self._topics.pop(topic, None)
                    raise KafkaTimeoutError(
                        f"topic {topic!r} was not found within max_block_ms={self.config['max_block_ms']}: "
                        f"{self._why_not_found()}"
                    )
                self._known.wait(left / 1000)

    def _why_not_found(self) -> str:
        if self._network.outage.reason or not self._network.cluster.brokers:
            return self._network.silence()
        if self.config["allow_auto_create_topics"]:
            return "it does not exist, and the brokers do not create it"
        return "it does not exist, and allow_auto_create_topics=False"

    def _partition(self, topic: str, info: TopicInfo, key: bytes | None, asked: int | None, size: int) -> int:
        count = len(info.partitions)
        if asked is not None:
            if asked not in info.partitions:
                raise IllegalStateError(f"topic {topic} has no partition {asked}; it has {count}")
            return asked
        custom = self.config["partitioner"]
        if custom is not None:
            everything = sorted(info.partitions)
            live = [n for n, p in info.partitions.items() if p.leader >= 0]
            return int(custom(key, everything, live or everything))
        if key is not None:
            return partition_for_key(key, count)
        number, used = self._sticky.get(topic, (-1, 0))
        if number < 0 or used >= self.config["batch_size"]:
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
        return set(self._topic(topic, self._now_ms() + self.config["max_block_ms"]).partitions)

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
        limit = self.config["delivery_timeout_ms"] / 1000 + 1 if timeout is None else timeout
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
