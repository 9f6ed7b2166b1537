"""A member loop with everything around it faked: its consumer, its producer, its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from actors.client import ConsumerRecord, OffsetAndMetadata, TopicPartition
from actors.client.errors import KafkaTimeoutError
from actors.client.records import ConsumerGroupMetadata
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.members.pools.handling.commits import REBALANCE_SECONDS
from actors.runtime.environment import Environment
from tests.support.left_open import LEFT_OPEN

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(offset: int, partition: int = 0, headers: list[tuple[str, bytes | None]] | None = None) -> ConsumerRecord:
    return ConsumerRecord(
        topic="t",
        partition=partition,
        leader_epoch=0,
        offset=offset,
        timestamp=0,
        timestamp_type=0,
        key=b"k%d" % offset,
        value=b"v%d" % offset,
        headers=headers or [],
        serialized_key_size=2,
        serialized_value_size=2,
    )


class FakeConsumer:
    """Returns the given polls one by one, then stops the loop; notes all calls, in order."""

    def __init__(self, polls: list[Any], log: list[Any]) -> None:
        self.polls = polls
        self.log = log
        self.loop: MemberLoop
        self.listener: Any = None
        self.commit_error: Exception | None = None
        self.async_error: Exception | None = None
        self.options: dict[str, Any] = {}
        self.closed = 0
        self.on_close: Callable[[], object] = lambda: None
        self.commit_timeouts: list[int | None] = []
        self.due = False
        self.lapsed = False
        self.group_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.hindered: str | None = None
        self.topic_ids: dict[str, bytes] = {}
        self._paused: set[TopicPartition] = set()

    def position_topic_id(self, partition: TopicPartition) -> bytes:
        return self.topic_ids.get(partition.topic, b"")

    def pause(self, *partitions: TopicPartition) -> None:
        self.log.append(("pause", *partitions))
        self._paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.log.append(("resume", *partitions))
        self._paused.difference_update(partitions)

    def paused(self) -> set[TopicPartition]:
        return set(self._paused)

    def committed_offsets(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self.log.append(("fetch offsets", *partitions))
        return {p: self.group_offsets.get(p) for p in partitions}

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        if partition not in self.positions:
            raise KafkaTimeoutError("not known yet")
        return self.positions[partition]

    def hindrance(self, grace_ms: int = 3_000) -> str | None:
        return self.hindered

    def rebalance_due(self) -> bool:
        return self.due

    def session_lapsed(self) -> bool:
        return self.lapsed

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.log.append(("seek", partition, offset))

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.log.append(("subscribe", topics))
        self.listener = listener

    def _next(self) -> Any:
        while self.polls:
            step = self.polls.pop(0)
            if not callable(step):
                return step
            step()  # an event within a poll: a rebalance
        self.loop.stop()
        return None

    def poll(self, timeout_ms: int) -> Any:
        return self._next() or {}

    def poll_arrow(self, timeout_ms: int, headers: bool) -> Any:
        found = self._next()
        return arrow([]) if found is None else found

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None) -> None:
        self.commit_timeouts.append(timeout_ms)
        self.log.append(("commit", {p: o.offset for p, o in offsets.items()}))
        if self.commit_error is not None:
            raise self.commit_error

    def commit_async(self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: Any = None) -> None:
        self.log.append(("commit_async", {p: o.offset for p, o in offsets.items()}))
        if callback is not None:
            callback(offsets, self.async_error)

    def group_metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("group", 4, "member-1", None)

    def assignment(self) -> set[TopicPartition]:
        return {T1, T0}

    def close(self, timeout_ms: int | None = None) -> None:
        self.closed += 1
        self.on_close()
        self.log.append("consumer closed")


class FakeProducer:
    """A send is done at once unless `is_done` is false. The producer is its own future."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.sent: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.send_error: Exception | None = None
        self.is_done = True

    def send(self, topic: str, **fields: Any) -> FakeProducer:
        if self.send_error is not None:
            raise self.send_error
        self.sent.append({"topic": topic, **fields})
        return self

    def get(self, timeout: float) -> None:
        if self.error is not None:
            raise self.error
        self.log.append("dead letter stored")

    def close(self, timeout_ms: int | None = None) -> None:
        self.log.append("producer closed")


class Member:
    """A member loop with everything around it faked."""

    def __init__(
        self,
        handler: Any,
        polls: list[Any],
        *,
        environment: Environment | None = None,
        rebalance_s: float = REBALANCE_SECONDS,
        **spec: Any,
    ) -> None:
        self.log: list[Any] = []
        self.sleeps: list[float] = []
        self.consumer = FakeConsumer(polls, self.log)
        self.producer = FakeProducer(self.log)
        self.producer_options: dict[str, Any] = {}
        self.environment = environment or Environment()

        def make_consumer(**options: Any) -> FakeConsumer:
            self.consumer.options = options
            return self.consumer

        def make_producer(**options: Any) -> FakeProducer:
            self.producer_options = options
            return self.producer

        self.loop = MemberLoop(
            MemberSpec(("t",), "g", "host:1", **spec),
            handler,
            make_consumer=make_consumer,
            make_producer=make_producer,
            sleep=self._sleep,
            environment=self.environment,
            rebalance_s=rebalance_s,
        )
        self.consumer.loop = self.loop
        LEFT_OPEN.callback(self._end)
        self.on_sleep: Callable[[], None] = lambda: None

    def _end(self) -> None:
        if "loop" in vars(self.loop.handler):  # of an async handler: it has three file descriptors
            self.loop.handler.loop.close()

    def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.on_sleep()

    def run(self) -> dict[str, Any]:
        self.loop.run()
        return self.loop.report()

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The last committed offset of each partition."""
        found: dict[TopicPartition, int] = {}
        for entry in self.log:
            if isinstance(entry, tuple) and entry[0].startswith("commit"):
                found |= entry[1]
        return found


class Flaky:
    """Fails for some values, so often."""

    def __init__(self, **failures: int) -> None:
        self.failures = {name.encode(): times for name, times in failures.items()}
        self.handled: list[bytes] = []
        self.calls = 0

    def one(self, record: ConsumerRecord) -> None:
        self.many([record])

    def many(self, records: list[ConsumerRecord]) -> None:
        self.calls += 1
        for each in records:
            if self.failures.get(each.value or b"", 0) > 0:
                self.failures[each.value or b""] -= 1
                raise RuntimeError(f"cannot do {each.value!r}")
        self.handled += [each.value or b"" for each in records]


async def forgotten(_: ConsumerRecord) -> Any:
    """A handler that lacks an `await`."""
    return nothing()


async def nothing() -> None:
    """Work that is not done."""


def arrow(rows: list[tuple[int, int, bytes]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["t"] * len(rows), pa.string()),
            "partition": pa.array([p for p, _, _ in rows], pa.int32()),
            "offset": pa.array([o for _, o, _ in rows], pa.int64()),
            "key": pa.array([b"k"] * len(rows), pa.binary()),
            "value": pa.array([v for _, _, v in rows], pa.binary()),
        }
    )
