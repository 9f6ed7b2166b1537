"""`Consumer`: reads topics, alone or as a member of a group. Names and defaults are kafka-python's and Kafka's.

The user's thread runs the rebalance callbacks and takes records; heartbeats and sockets have a thread of their own.
The parts: `core` (threads, group, commits), here the public methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from actors.client.consumer.core import ConsumerCore
from actors.client.consumer.listener import ConsumerRebalanceListener
from actors.client.consumer.positions import EARLIEST, LATEST
from actors.client.errors import IllegalStateError, KafkaTimeoutError
from actors.client.net.network import now_ms
from actors.client.records import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

_ARROW_ROWS = 131_072

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], Any]


class Consumer(ConsumerCore):
    """`Consumer("orders", group_id="billing", bootstrap_servers="localhost:9092")`.

    For the settings see `config.CONSUMER_SETTINGS`; an unknown one is an error. Not for several threads at once,
    except `wakeup`. Usable as a context manager and as an endless iterator of records.
    """

    def __init__(self, *topics: str, **settings: Any) -> None:
        super().__init__(settings)
        if topics:
            self.subscribe(list(topics))

    # --- what to read -----------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Join the group for these topics, or for all whose whole name matches `pattern`; replaces what was before.

        Raises IllegalStateError if partitions were assigned by hand.
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names, not one string")
        topics = list(topics)
        if bool(topics) == bool(pattern):
            raise ValueError("subscribe needs either topics or a pattern")
        with self._using():
            self._require_group("subscribe")
            if self._manual:
                raise IllegalStateError("partitions are assigned by hand: call unsubscribe() first")
            self._listener = listener or ConsumerRebalanceListener()
            with self._changed:
                if pattern:
                    matches = re.compile(pattern).fullmatch
                    self._member.subscribe_pattern(lambda topic: matches(topic) is not None)
                else:
                    self._member.subscribe(topics)
                self._driver.pump()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without joining a group. An empty list is `unsubscribe`."""
        wanted = [TopicPartition(*tp) for tp in partitions]
        if not wanted:
            self.unsubscribe()
            return
        with self._using():
            if self._member.subscribed:
                raise IllegalStateError("this consumer subscribes to topics: call unsubscribe() first")
            self._manual = True
            self._set_assignment(wanted)
            self._network.soon(self._network.refresh)

    def unsubscribe(self) -> None:
        """Leave the group, or let go of the assigned partitions."""
        with self._using():
            self._leave("unsubscribe")

    def assignment(self) -> set[TopicPartition]:
        """The partitions this consumer has now."""
        return set(self._positions.states)

    def subscription(self) -> set[str] | None:
        """The topics subscribed to; None without a subscription."""
        return set(self._member.topics) if self._member.subscribed else None

    # --- reading --------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records by partition, as soon as there are any; {} after `timeout_ms`.

        Takes part in rebalances and calls the listener on the way. Raises what the group, the topics or the
        listener have to say; WakeupError after `wakeup`.
        """
        limit = max_records or self.config["max_poll_records"]
        with self._using():
            self._stop_iterating()
            return self._poll(timeout_ms, lambda: self._drain.take(limit)) or {}

    def poll_arrow(self, timeout_ms: int = 0, max_records: int = _ARROW_ROWS, headers: bool = False) -> pa.RecordBatch:
        """The same as one Arrow batch; keys and values are bytes, whatever the deserializers. May have no rows.

        Columns topic, partition (int32), offset (int64), timestamp (ms, UTC), key, value (binary) and, with
        `headers`, a list of (key, value). Stops at the first whole record batch that reaches `max_records`.
        """
        with self._using():
            self._stop_iterating()
            columns = self._poll(timeout_ms, lambda: self._drain.take_columns(max_records, with_headers=headers))
            return (columns or self._drain.take_columns(0, with_headers=headers)).batch()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record; waits as long as it takes. A record counts as consumed once the next one is asked for."""
        with self._using():
            return self._next_record()

    def rebalance_due(self) -> bool:
        """Whether the group waits for this consumer's next poll.

        Nothing is given up before that. A program that takes long over what a poll returned may look between two
        records, `seek` back to the first it has not handled, and poll.
        """
        return self._member.awaits_poll(now_ms())

    def session_lapsed(self) -> bool:
        """Whether no heartbeat has been answered for session_timeout_ms: what poll returned may have other owners."""
        return not self._member.may_deliver(now_ms())

    def wakeup(self) -> None:
        """From another thread: the poll that runs now, or the next one, raises WakeupError."""
        self._wakeup = True
        with self._changed:
            self._driver.changes += 1
            self._changed.notify_all()

    # --- offsets --------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit these offsets, or all positions, and wait; what may pass is tried again until the timeout.

        Raises CommitFailedError when the partitions have other owners now, RebalanceInProgressError when a poll
        must come first, KafkaTimeoutError, and what else the coordinator says.
        """
        with self._using():
            self._require_group("commit")
            self._commit_sync(self._offsets_of(offsets), timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit and go on. `callback(offsets, error)` runs within a later poll, commit or close. Not repeated."""
        with self._using():
            self._require_group("commit")
            self._commit_async(self._offsets_of(offsets), callback)

    def committed(self, partition: TopicPartition, timeout_ms: int | None = None) -> OffsetAndMetadata | None:
        """The group's committed offset of a partition; None if there is none."""
        return self.committed_offsets([partition], timeout_ms)[TopicPartition(*partition)]

    def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """`committed` for several partitions, in one request."""
        with self._using():
            self._require_group("committed")
            wanted = [TopicPartition(*tp) for tp in partitions]
            timeout_ms = self._timeout(timeout_ms)
            found = self._await(self._driver.committed(wanted, timeout_ms), timeout_ms)
            return {tp: found.get(tp) for tp in wanted}

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record of an assigned partition; waits until it is known."""
        with self._using():
            state = self._state(partition)
            deadline = now_ms() + self._timeout(timeout_ms)
            self._fetcher.soon()
            while state.position is None:
                before = self._driver.changes
                self._raise_fetch_errors()
                if state.chunks:
                    self._drain.take(0)
                    self._drain._front(state)
                if now_ms() >= deadline:
                    raise KafkaTimeoutError(f"the position of {partition} is not known yet")
                self._wait(before, deadline)
            return state.position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on with this offset at the next poll."""
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        with self._using():
            with self._changed:
                self._state(partition).seek(offset)
            self._fetcher.soon()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on with the oldest record of these, or of all assigned partitions."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on with what is produced from now on."""
        self._seek_to(partitions, LATEST)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        with self._using():
            with self._changed:
                for tp in list(partitions) or list(self._positions.states):
                    self._state(tp).reset(timestamp)
            self._fetcher.soon()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of these until `resume`; they stay assigned."""
        with self._using():
            for tp in partitions:
                self._state(tp).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        with self._using():
            for tp in partitions:
                self._state(tp).paused = False
            self._fetcher.soon()

    def paused(self) -> set[TopicPartition]:
        return {tp for tp, state in self._positions.states.items() if state.paused}

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The oldest offset of each partition."""
        return self._ends(partitions, EARLIEST, timeout_ms)

    def end_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timeout_ms: int | None = None,
        *,
        isolation_level: int | None = None,
    ) -> dict[TopicPartition, int]:
        """The offset the next record of each partition will have; with read_committed, the last stable offset.

        `isolation_level` is 0 (uncommitted) or 1 (committed); the consumer's own if it is not given.
        """
        return self._ends(partitions, LATEST, timeout_ms, isolation_level)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix ms); None where there is none."""
        if any(at < 0 for at in timestamps.values()):
            raise ValueError("a time must not be negative")
        with self._using():
            return self._offsets_at({TopicPartition(*tp): at for tp, at in timestamps.items()}, timeout_ms)

    def _ends(
        self,
        partitions: Iterable[TopicPartition],
        at: int,
        timeout_ms: int | None,
        isolation_level: int | None = None,
    ) -> dict[TopicPartition, int]:
        with self._using():
            found = self._offsets_at({TopicPartition(*tp): at for tp in partitions}, timeout_ms, isolation_level)
            return {tp: offset.offset if offset else 0 for tp, offset in found.items()}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The end of a partition's log as of the last fetch; None before the first."""
        mark = self._state(partition).high_watermark
        return None if mark < 0 else mark

    # --- the group and the cluster ----------------------------------------------------------------------------------

    def enforce_rebalance(self, reason: str = "enforce_rebalance was called") -> None:
        """Have the group divided anew; happens in the following polls."""
        with self._using():
            self._require_group("enforce_rebalance")
            with self._changed:
                self._member.request_rejoin(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Group, generation and member id as they are now."""
        generation = self._member.generation
        return ConsumerGroupMetadata(
            self._member.config.group_id,
            generation.id,
            generation.member_id,
            self.config["group_instance_id"],
        )

    def partitions_for_topic(self, topic: str, timeout_ms: int | None = None) -> set[int] | None:
        """The partition numbers of a topic; None if there is no such topic."""
        with self._using():
            info = self._describe_topics([topic], timeout_ms).get(topic)
            return set(info.partitions) if info is not None and info.partitions else None

    def topics(self, timeout_ms: int | None = None) -> set[str]:
        """All topics this consumer may see, internal ones left out."""
        with self._using():
            found = self._describe_topics(None, timeout_ms)
            return {name for name, info in found.items() if not info.is_internal}

    def bootstrap_connected(self) -> bool:
        return bool(self._network.cluster.brokers)

    def metrics(self) -> dict[str, Any]:
        """Counters of this consumer's life, and where it stands in its group."""
        return self._metrics()

    def close(self, autocommit: bool = True, timeout_ms: int | None = None) -> None:
        """Commit (if auto-commit is on), call the listener, leave the group, close the connections.

        A static member does not leave. Gives up waiting after `timeout_ms` (30 s), but always closes.
        """
        self._close(autocommit, 30_000 if timeout_ms is None else timeout_ms)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            # What iteration gave last may be what failed: it does not count as consumed.
            self._iterated = None
        self.close()
