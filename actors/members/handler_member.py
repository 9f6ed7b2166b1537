"""The loop of a pool's member: it polls, hands records to the user's handler, and commits what was handled.

At least once: an offset is committed after the handler has returned, and before its partition is given up. Retries,
dead letters and the report of progress are here; Ray and supervision are pool.py's.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from actors import CoterieError
from actors.client import Consumer, ConsumerRebalanceListener, ConsumerRecord, Producer, TopicPartition
from actors.client.config import CONSUMER_SETTINGS, resolve, security_settings
from actors.client.consumer.decode import Deserializer, deserializer
from actors.client.consumer.drain import by_topic
from actors.client.errors import CommitFailedError, KafkaTimeoutError, RebalanceInProgressError, RetriableError
from actors.client.records import OffsetAndMetadata
from actors.links.member import MemberReport
from actors.members.whom import about_member
from actors.runtime.environment import REAL, Environment
from actors.runtime.process import error_text

log = logging.getLogger(__name__)

# The whole group waits for a member that gives partitions up. It must not wait for a commit that cannot succeed, such
# as that of a deleted topic.
_REVOKE_COMMIT_MS = 10_000
_BEGIN_MS = 5_000

BatchFormat = Literal["record", "records", "pyarrow"]
MAX_BATCH_RECORDS = 10_000  # a rebalance waits for the batch in hand
DESERIALIZERS = ("key_deserializer", "value_deserializer")


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """How a member consumes. `options` are those of actors.client.Consumer."""

    topics: tuple[str, ...]
    group_id: str
    bootstrap_servers: str
    batch_format: BatchFormat = "record"
    max_batch_records: int = MAX_BATCH_RECORDS
    max_retries: int = 3
    retry_backoff_ms: int = 100
    dead_letter_topic: str | None = None
    handler_args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


class HandlerFailedError(CoterieError):
    """The handler has raised for one record each time it was tried."""

    def __init__(self, topic: str, partition: int, offset: int, cause: BaseException) -> None:
        what = f"{type(cause).__name__}: {error_text(cause)}"
        super().__init__(f"the handler failed at {topic}-{partition} offset {offset}: {what}")
        self.topic, self.partition, self.offset = topic, partition, offset

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.topic, self.partition, self.offset, self.__cause__ or Exception(str(self))))


class Handler:
    """The user's handler: a function, or a class of which each member makes one instance; sync or async.

    A class may have `on_assigned(partitions)`, `on_revoked(partitions)` and `close()` beside `__call__`.
    """

    def __init__(self, given: Any, arguments: tuple[Any, ...] = ()) -> None:
        self.instance: Any = given(*arguments) if inspect.isclass(given) else given
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, argument: Any) -> None:
        self._finish(self.instance(argument))

    def hook(self, name: str, *arguments: Any) -> None:
        """Call an optional method of the handler, if it has it."""
        method = getattr(self.instance, name, None)
        if method is not None:
            self._finish(method(*arguments))

    def _finish(self, result: Any) -> None:
        if inspect.isawaitable(result):
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
            self._loop.run_until_complete(result)


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: MemberLoop) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._member.assigned(assigned)
        self._member.handler.hook("on_assigned", assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._member.commit_now(revoked)
        self._member.handler.hook("on_revoked", revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._member.forget(lost)
        self._member.handler.hook("on_revoked", lost)


class MemberLoop:
    """One member of a group, and its handler. `run` takes a thread; other threads call `report` and `stop`."""

    def __init__(
        self,
        spec: MemberSpec,
        handler: Any,
        *,
        make_consumer: Callable[..., Any] = Consumer,
        make_producer: Callable[..., Any] = Producer,
        sleep: Callable[[float], Any] | None = None,
        environment: Environment = REAL,
    ) -> None:
        self.spec = spec
        self.handler = Handler(handler, spec.handler_args)
        self._make_producer = partial(make_producer, environment=environment)
        self._stop = threading.Event()
        self._sleep = sleep or self._stop.wait
        self._monotonic = environment.clock.monotonic
        self._producer: Any = None
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._unbegun: set[TopicPartition] = set()
        self._handled = 0
        self._dead_letters = 0
        self._handling_since: float | None = None
        self._busy: tuple[float, float | None] = (0.0, None)  # seconds before, and since when again
        self._state = "Starting"
        self._error: BaseException | None = None
        self._seen = MemberReport()
        options = dict(spec.options)
        options.setdefault("auto_offset_reset", "earliest")
        self._begins_at_end = options["auto_offset_reset"] == "latest"
        options.setdefault("partition_assignment_strategy", ["cooperative-sticky"])
        # Deserialized here and not by the consumer: a dead letter needs the bytes, and errors have to be retried.
        given = {name: options.pop(name, None) for name in DESERIALIZERS}
        resolve(CONSUMER_SETTINGS, given)
        self._deserializes = any(value is not None for value in given.values())
        self._key_of, self._value_of = (by_topic(given[name], deserializer) for name in DESERIALIZERS)
        self.consumer = make_consumer(
            environment=environment,
            bootstrap_servers=spec.bootstrap_servers,
            group_id=spec.group_id,
            enable_auto_commit=False,
            **options,
        )

    # --- the loop ---

    def run(self) -> None:
        """Consume until `stop`, or until a record cannot be handled; then `report` has the error."""
        state = "Stopped"
        try:
            self.consumer.subscribe(list(self.spec.topics), listener=_Listener(self))
            self._state = "Running"
            while not self._stop.is_set():
                self._step()
        except BaseException as error:  # a handler may call sys.exit, which has to be reported, too
            self._error = error
            self._state, state = "Failing", "Failed"
            log.exception(
                "member of group %s stops", self.spec.group_id, extra=about_member(self.consumer.group_metadata())
            )
        finally:
            self._close()
            self._state = state  # only now: who sees a member that has failed takes its place in the group away

    def _step(self) -> None:
        if self.spec.batch_format == "pyarrow":
            batch = self.consumer.poll_arrow(timeout_ms=200, headers=self.spec.dead_letter_topic is not None)
            parts: list[Any] = _by_partition(batch) if len(batch) else []
        else:
            parts = list(self.consumer.poll(timeout_ms=200).items())
        self._begin()
        self._busy_from(self._monotonic() if parts else None)
        fresh = True
        for number, (partition, records) in enumerate(parts):
            if self._stop.is_set():
                break
            left = self._handle(partition, records, fresh=fresh)
            if left is not None:
                self._put_back([(partition, left), *((p, _span(some)[0]) for p, some in parts[number + 1 :])])
                break
            fresh = False
        self._commit_later()
        self._busy_from(None)
        self._look()

    def _busy_from(self, now: float | None) -> None:
        """From now on there are records in hand; None: there are none. One tuple, because `report` reads it."""
        self._busy = (self._busy_s(), now)

    def _busy_s(self) -> float:
        before, since = self._busy
        return before if since is None else before + self._monotonic() - since

    def _must_poll(self, *, fresh: bool) -> bool:
        """Whether the next record has to wait for a poll: the group waits for it, or others may own the records.

        The first record after a poll does not wait for a rebalance, so that a member gets on however many there are.
        """
        return self.consumer.session_lapsed() or (not fresh and self.consumer.rebalance_due())

    def _put_back(self, parts: list[tuple[TopicPartition, int]]) -> None:
        for partition, offset in parts:
            self.consumer.seek(partition, offset)

    def _look(self) -> None:
        """Note for `report` what the membership is, because other threads must not use the consumer."""
        group = self.consumer.group_metadata()
        self._seen = MemberReport(
            member_id=group.member_id,
            generation_id=group.generation_id,
            assignment=tuple(sorted((p.topic, p.partition) for p in self.consumer.assignment())),
        )

    def _handle(self, partition: TopicPartition, records: Any, *, fresh: bool) -> int | None:
        """Handle a batch. Returns the offset of the first record that has to wait for another poll, or None."""
        most = 1 if self.spec.batch_format == "record" else self.spec.max_batch_records
        for start in range(0, len(records), most):
            if self._stop.is_set():
                return None
            batch = self._slice(records, start, most)
            first, last = _span(batch)
            if self._must_poll(fresh=fresh):
                return first
            left = self._deliver(partition, batch, first, last + 1)
            if left is not None:
                return left
            fresh = False
        return None

    def _slice(self, records: Any, start: int, count: int) -> Any:
        return records.slice(start, count) if self.spec.batch_format == "pyarrow" else records[start : start + count]

    def _deliver(self, partition: TopicPartition, records: Any, first: int, next_offset: int) -> int | None:
        """Hand records to the handler. If a batch keeps failing, its records follow one by one, to find the bad one.

        Returns the offset of the first record that has to wait for another poll, as that may take long; or None.
        """
        error = self._try(partition, records, first)
        if error is not None and self._stop.is_set():
            return first
        if error is None:
            self._handled += len(records)
        elif len(records) > 1:
            for i in range(len(records)):
                one = self._slice(records, i, 1)
                offset = _span(one)[0]
                if self._must_poll(fresh=i == 0):
                    return offset
                left = self._deliver(partition, one, offset, offset + 1)
                if left is not None:
                    return left
        else:
            self._give_up(partition, records, first, error)
        self._done[partition] = next_offset
        return None

    def _try(self, partition: TopicPartition, records: Any, first: int) -> Exception | None:
        for attempt in range(self.spec.max_retries + 1):
            self._handling_since = self._monotonic()
            try:
                self.handler(self._argument(records))
                return None
            except Exception as error:
                failure = error
                log.exception(
                    "the handler failed at %s-%d offset %d (attempt %d of %d)",
                    partition.topic,
                    partition.partition,
                    first,
                    attempt + 1,
                    self.spec.max_retries + 1,
                )
            finally:
                self._handling_since = None
            if attempt < self.spec.max_retries:
                self._sleep(self.spec.retry_backoff_ms * 2**attempt / 1000)
            if self._stop.is_set():
                break
        return failure

    def _argument(self, records: Any) -> Any:
        """The argument of the handler. Raises SerializationError if a deserializer fails."""
        if self._deserializes and self.spec.batch_format != "pyarrow":
            records = [self._deserialized(record) for record in records]
        return records[0] if self.spec.batch_format == "record" else records

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        key_of, value_of = self._key_of(record.topic), self._value_of(record.topic)
        return record._replace(key=_applied(key_of, record.key), value=_applied(value_of, record.value))

    def _give_up(self, partition: TopicPartition, records: Any, offset: int, error: Exception) -> None:
        if self.spec.dead_letter_topic is None:
            raise HandlerFailedError(partition.topic, partition.partition, offset, error) from error
        key, value, headers = _content(records)
        headers += [
            ("coterie.topic", partition.topic.encode()),
            ("coterie.partition", str(partition.partition).encode()),
            ("coterie.offset", str(offset).encode()),
            ("coterie.error", f"{type(error).__name__}: {error_text(error)}".encode()),
        ]
        if self._producer is None:
            self._producer = self._make_producer(
                bootstrap_servers=self.spec.bootstrap_servers, acks="all", **security_settings(self.spec.options)
            )
        # The record is handled only when the dead-letter topic has it.
        self._producer.send(self.spec.dead_letter_topic, key=key, value=value, headers=headers).get(60)
        self._dead_letters += 1

    # --- where partitions begin ---

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """New partitions are assigned. With "latest", their records wait until their start is committed."""
        if self._begins_at_end:
            self.consumer.pause(*partitions)
            self._unbegun.update(partitions)

    def _begin(self) -> None:
        """Commit the start of new partitions without a committed offset, before their first record is handled.

        Otherwise "latest" would be a later offset for the next owner, and the records in between would be lost.
        """
        self._unbegun &= self.consumer.assignment()
        if not self._unbegun:
            return
        try:
            found = self.consumer.committed_offsets(sorted(self._unbegun), timeout_ms=_BEGIN_MS)
            starts = self._positions([p for p, at in found.items() if at is None])
            if starts:
                self.consumer.commit(starts, timeout_ms=_BEGIN_MS)
        except (CommitFailedError, RebalanceInProgressError, RetriableError) as error:
            log.info(
                "group %s: where its partitions begin is not committed yet: %s",
                self.spec.group_id,
                error,
                extra=about_member(self.consumer.group_metadata()),
            )
            return
        begun = [p for p, at in found.items() if at is not None or p in starts]
        self.consumer.resume(*begun)
        self._unbegun.difference_update(begun)

    def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions that are known by now. A partition without a leader must not hold up the others."""
        known = {}
        for partition in partitions:
            with contextlib.suppress(KafkaTimeoutError):
                known[partition] = OffsetAndMetadata(self.consumer.position(partition, timeout_ms=0))
        return known

    # --- commits ---

    def _due(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: OffsetAndMetadata(o) for p, o in self._done.items() if self._committed.get(p) != o}

    def _commit_later(self) -> None:
        due = self._due()
        if not due:
            return
        self._committed.update({p: o.offset for p, o in due.items()})
        try:
            self.consumer.commit_async(due, self._on_commit)
        except (CommitFailedError, RebalanceInProgressError) as error:
            self._on_commit(due, error)

    def _on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        """If a commit failed, make it due again for the partitions that are still held."""
        if error is not None:
            log.info("group %s: %s", self.spec.group_id, error, extra=about_member(self.consumer.group_metadata()))
            for partition, committed in offsets.items():
                if self._committed.get(partition) == committed.offset:
                    del self._committed[partition]

    def commit_now(self, giving_up: Sequence[TopicPartition] | None = None) -> None:
        """Commit all that was handled, before these partitions, or all, are given up."""
        due = {p: OffsetAndMetadata(o) for p, o in self._done.items()}
        if not due:
            return
        try:
            self.consumer.commit(due, timeout_ms=None if giving_up is None else _REVOKE_COMMIT_MS)
        except (CommitFailedError, RebalanceInProgressError, RetriableError) as error:
            log.warning(
                "group %s: %s; what was handled since the last commit comes again",
                self.spec.group_id,
                error,
                extra=about_member(self.consumer.group_metadata()),
            )
            self._committed.clear()  # due again, for what we keep
        else:
            self._committed.update(self._done)
        self.forget(list(due) if giving_up is None else giving_up)

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that have or get other owners: nothing may be committed for them any more."""
        for partition in partitions:
            self._done.pop(partition, None)
            self._committed.pop(partition, None)

    def _close(self) -> None:
        # Closing the consumer gives up the partitions. The handler is told of that, so it is closed after it.
        steps = [self.commit_now, self.consumer.close, partial(self.handler.hook, "close")]
        if self._producer is not None:
            steps.append(self._producer.close)
        for step in steps:  # each is owed, whatever becomes of the others
            try:
                step()
            except Exception:
                log.exception(
                    "closing a member of group %s",
                    self.spec.group_id,
                    extra=about_member(self.consumer.group_metadata()),
                )

    # --- for other threads ---

    def stop(self) -> None:
        """Have `run` end after the record that is being handled."""
        self._stop.set()

    def report(self) -> MemberReport:
        """How this member is doing."""
        since = self._handling_since
        return replace(
            self._seen,
            state=self._state,
            error=error_text(self._error) if self._error is not None else None,
            handled=self._handled,
            dead_letters=self._dead_letters,
            handling_ms=0 if since is None else int((self._monotonic() - since) * 1000),
            busy_ms=int(self._busy_s() * 1000),
        )


def _applied(function: Deserializer | None, data: bytes | None) -> Any:
    return data if function is None or data is None else function(data)


def _by_partition(batch: Any) -> list[tuple[TopicPartition, Any]]:
    """The batch in one piece for each partition; poll_arrow keeps the records of a partition together."""
    topics, partitions = batch.column("topic").to_pylist(), batch.column("partition").to_pylist()
    parts = []
    start = 0
    for i in range(1, len(partitions) + 1):
        if i == len(partitions) or partitions[i] != partitions[start] or topics[i] != topics[start]:
            parts.append((TopicPartition(topics[start], partitions[start]), batch.slice(start, i - start)))
            start = i
    return parts


def _span(records: Any) -> tuple[int, int]:
    """The first and the last offset of a batch that is not empty."""
    if isinstance(records, list):
        return records[0].offset, records[-1].offset
    offsets = records.column("offset")
    return offsets[0].as_py(), offsets[len(offsets) - 1].as_py()


def _content(records: Any) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """The key, value and headers of a batch of one record."""
    if isinstance(records, list):
        record: ConsumerRecord = records[0]
        return record.key, record.value, list(record.headers)
    row = records.to_pylist()[0]
    headers = [(h["key"], h["value"]) if isinstance(h, dict) else tuple(h) for h in row.get("headers") or ()]
    return row["key"], row["value"], headers
