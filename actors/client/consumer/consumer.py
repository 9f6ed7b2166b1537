"""`Consumer`: reads topics, alone or as a member of a group. Names and defaults are kafka-python's and Kafka's.

The user's thread runs the rebalance callbacks and takes records. Heartbeats and sockets have a thread of their own,
with the event loop. This module has the public methods; `assembly` says what parts there are, and puts them together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from actors.client.config import consumer_config
from actors.client.consumer.assembly import assemble
from actors.client.consumer.closing import CLOSE_MS
from actors.client.consumer.commits import CommitCallback, Offsets, whole
from actors.client.consumer.figures import figures
from actors.client.consumer.hindrance import GRACE_MS
from actors.client.consumer.listener import ConsumerRebalanceListener
from actors.client.consumer.positions import EARLIEST, LATEST
from actors.client.errors import InvalidGroupIdError
from actors.client.group.member import MakeMember, Subscriber
from actors.client.group.protocols import PROTOCOLS
from actors.client.records import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    GroupMembershipOperation,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)
from actors.runtime.environment import REAL, Environment

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer:
    """`Consumer("orders", group_id="billing", bootstrap_servers="localhost:9092")`.

    For the settings see `config.CONSUMER_SETTINGS`; an unknown one is an error. It is a context manager and an endless
    iterator of records. It is not thread-safe, except for `wakeup`. `environment` is its clock. `protocols` are the
    group protocols that it knows.

    It has many methods, because Kafka's consumer has them, and many fields, because it is put together of many parts.
    """

    def __init__(
        self,
        *topics: str,
        environment: Environment = REAL,
        protocols: Mapping[str, MakeMember] = PROTOCOLS,
        **settings: Any,
    ) -> None:
        self.config = config = consumer_config(settings, protocols)
        parts = assemble(config, environment, protocols)
        self._network = parts.network
        self._changes = parts.changes
        self._positions = parts.positions
        self.member: Subscriber = parts.member
        """Its part in a group: of a type that its protocol has."""
        self._thread = parts.thread
        self._commits = parts.commits
        self._drain = parts.drain
        self._participation = parts.participation
        self._hindrance = parts.hindrance
        self._polling = parts.polling
        self._iteration = parts.iteration
        self._lookups = parts.lookups
        self._seeking = parts.seeking
        self._closing = parts.closing
        self._network.start(parts.watch)
        if topics:
            self.subscribe(list(topics))

    def _require_group(self, what: str) -> None:
        if not self.config.group_id:
            raise InvalidGroupIdError(f"{what} needs the setting group_id; without a group, use assign()")

    def _timeout(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def _to_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> Offsets:
        if offsets is None:
            self._iteration.finish()
            return self._commits.consumed()
        return whole(offsets)

    # --- what to read -----------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to these topics, or to all whose whole name matches `pattern`, instead of the ones before.

        Raises IllegalStateError if partitions were assigned by hand, or for a SubscriptionPattern in a group whose
        protocol has none.
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names, not one string")
        topics = list(topics)
        if bool(topics) == bool(pattern):
            raise ValueError("subscribe needs either topics or a pattern")
        with self._thread.using():
            self._require_group("subscribe")
            self._participation.subscribe(topics, pattern, listener or ConsumerRebalanceListener())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without joining a group. An empty list means `unsubscribe`."""
        wanted = [TopicPartition(*tp) for tp in partitions]
        if not wanted:
            self.unsubscribe()
            return
        with self._thread.using():
            self._participation.assign_by_hand(wanted)
            self._network.soon(self._network.refresh)

    def unsubscribe(self) -> None:
        """Leave the group, or stop reading the partitions that were assigned by hand."""
        with self._thread.using():
            self._iteration.stop()
            self._participation.leave("unsubscribe")

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now."""
        return set(self._positions.states)

    def subscription(self) -> set[str] | None:
        """The topics subscribed to; None without a subscription."""
        return set(self.member.topics) if self.member.subscribed else None

    # --- reading --------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition as soon as there are any, or {} after `timeout_ms`.

        A poll takes part in rebalances and calls the listener. It raises errors of the group, the topics and the
        listener, and WakeupError after `wakeup`.
        """
        limit = max_records or self.config.max_poll_records
        with self._thread.using():
            self._iteration.stop()
            return self._polling.poll(timeout_ms, lambda: self._drain.take(limit)) or {}

    def poll_arrow(self, timeout_ms: int = 0, max_records: int = 131_072, headers: bool = False) -> pa.RecordBatch:
        """As `poll`, but the records are one Arrow batch, which may have no rows. Deserializers are not used.

        Its columns are topic, partition (int32), offset (int64), timestamp (ms, UTC), key, value (binary) and, with
        `headers`, a list of (key, value), where keys are text: what is not UTF-8 is U+FFFD. Record batches are taken
        whole, until there are `max_records` or more, or until 128 MiB were decompressed.
        """
        from actors.client.consumer.arrow_batches import Columns

        with self._thread.using():
            self._iteration.stop()
            found = self._polling.poll(timeout_ms, lambda: self._drain.take_batches(max_records, Columns(headers)))
            return (found or Columns(headers)).batch()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """Wait for the next record, without a timeout. A record is consumed when the next one is asked for."""
        with self._thread.using():
            return self._iteration.next()

    def rebalance_due(self) -> bool:
        """True if the group waits for this consumer's next poll.

        Until that poll it keeps its partitions. A program that works long on the records of one poll may ask between
        two records, `seek` back to the first one that it has not handled, and poll.
        """
        with self._changes.lock:
            return self.member.awaits_poll(self._network.now_ms())

    def session_lapsed(self) -> bool:
        """True if no heartbeat has been answered for session_timeout_ms, so that others may have the partitions."""
        return not self.member.may_deliver(self._network.now_ms())

    def wakeup(self) -> None:
        """Have the poll that runs now, or the next one, raise WakeupError. Called from another thread."""
        self._thread.wake()

    # --- offsets --------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit these offsets, or all positions, and wait. Retriable errors are retried until the timeout.

        Raises CommitFailedError if the partitions may have other owners now, RebalanceInProgressError if a poll must
        come first, KafkaTimeoutError, and other errors of the coordinator.
        """
        with self._thread.using():
            self._require_group("commit")
            self._commits.commit(self._to_commit(offsets), self._timeout(timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit once without waiting. `callback(offsets, error)` is called in a later poll, commit or close."""
        with self._thread.using():
            self._require_group("commit")
            self._commits.commit_async(self._to_commit(offsets), callback)

    def committed(self, partition: TopicPartition, timeout_ms: int | None = None) -> OffsetAndMetadata | None:
        """The group's committed offset of a partition; None if there is none."""
        return self.committed_offsets([partition], timeout_ms)[TopicPartition(*partition)]

    def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets of these partitions, asked for in one request; None where there is none."""
        with self._thread.using():
            self._require_group("committed")
            wanted = [TopicPartition(*tp) for tp in partitions]
            timeout_ms = self._timeout(timeout_ms)
            found = self._lookups.committed(wanted, timeout_ms)
            return {tp: found.get(tp) for tp in wanted}

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record of an assigned partition. Waits until it is known."""
        with self._thread.using():
            return self._polling.position(self._positions.of(partition), self._timeout(timeout_ms))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Have the next poll go on at this offset."""
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        with self._thread.using():
            self._seeking.to_offset(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on with the oldest records of these partitions, or of all that are assigned."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on at the end of these partitions, or of all that are assigned."""
        self._seek_to(partitions, LATEST)

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        with self._thread.using():
            self._seeking.to_time(partitions, timestamp)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. They stay assigned."""
        with self._thread.using():
            self._seeking.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        with self._thread.using():
            self._seeking.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        return self._seeking.paused()

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
        """The offset that the next record of each partition will have; with read_committed the last stable offset.

        `isolation_level` is 0 (uncommitted) or 1 (committed); the consumer's own if it is not given.
        """
        return self._ends(partitions, LATEST, timeout_ms, isolation_level)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix ms); None where there is none."""
        if any(at < 0 for at in timestamps.values()):
            raise ValueError("a time must not be negative")
        with self._thread.using():
            wanted = {TopicPartition(*tp): at for tp, at in timestamps.items()}
            return self._lookups.offsets(wanted, self._timeout(timeout_ms))

    def _ends(
        self,
        partitions: Iterable[TopicPartition],
        at: int,
        timeout_ms: int | None,
        isolation_level: int | None = None,
    ) -> dict[TopicPartition, int]:
        with self._thread.using():
            wanted = [TopicPartition(*tp) for tp in partitions]
            return self._lookups.ends(wanted, at, self._timeout(timeout_ms), isolation_level)

    def position_topic_id(self, partition: TopicPartition) -> bytes:
        """The id of the topic that the position in a partition belongs to, and so the records before it.

        b"" without a position, or where the brokers know no ids.
        """
        return self._positions.topic_id(TopicPartition(*partition))

    # --- the group and the cluster ----------------------------------------------------------------------------------

    def enforce_rebalance(self, reason: str = "enforce_rebalance was called") -> None:
        """Have the group rebalance in the next polls."""
        with self._thread.using():
            self._require_group("enforce_rebalance")
            with self._changes.lock:
                self.member.request_rejoin(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group id, generation and member id at present."""
        generation = self.member.generation
        return ConsumerGroupMetadata(
            self.member.group_id,
            generation.id,
            generation.member_id,
            self.config.group_instance_id,
        )

    def partitions_for_topic(self, topic: str, timeout_ms: int | None = None) -> set[int] | None:
        """The partition numbers of a topic; None if there is no such topic."""
        with self._thread.using():
            return self._lookups.partitions(topic, self._timeout(timeout_ms))

    def topic_ids(self, topics: Iterable[str], timeout_ms: int | None = None) -> dict[str, bytes]:
        """The present ids of these topics, asked of a broker. One that does not exist, or has no id, is left out.

        A topic that was deleted and created again has another id. The consumer then heeds it from its next poll on.
        """
        with self._thread.using():
            return self._lookups.ids(list(topics), self._timeout(timeout_ms))

    def topics(self, timeout_ms: int | None = None) -> set[str]:
        """All topics that this consumer may see, without internal ones."""
        with self._thread.using():
            return self._lookups.names(self._timeout(timeout_ms))

    def hindrance(self, *, grace_ms: int = GRACE_MS) -> str | None:
        """The reason why no records have come for `grace_ms`, in a sentence: brokers are silent, or a topic is missing.

        None while all is well. A poll warns of it once. May be called from another thread.
        """
        return self._hindrance.text(grace_ms=grace_ms)

    def metrics(self) -> dict[str, Any]:
        """Counters since the consumer was made, and its state in its group."""
        return figures(self.member, self._positions, self._changes)

    def close(
        self,
        autocommit: bool = True,
        timeout_ms: int | None = None,
        group_membership_operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit (with enable_auto_commit), call the listener, leave the group and close the connections.

        A static member does not leave, unless `group_membership_operation` says so. After `timeout_ms` (30 s) it waits
        no more, and closes all the same.
        """
        if self._thread.closed:
            return
        operation = GroupMembershipOperation(group_membership_operation)
        deadline = self._network.now_ms() + (CLOSE_MS if timeout_ms is None else timeout_ms)
        errors: list[Exception] = []
        with self._thread.using():
            self._thread.forget_wakeup()
            commit = autocommit and self.config.enable_auto_commit and bool(self._positions.states)
            try:
                errors = self._closing.finish(deadline, commit=commit, operation=operation)
            finally:
                self._thread.close()
                self._network.close()
        if errors:
            raise errors[0]

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._iteration.disown()  # the last record may be what failed: it does not count as consumed
        self.close()
