"""The inside of `Consumer`: its threads, its part in the group, its commits. The public methods stand in `consumer`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from actors.client.config import consumer_config, make_assignors, network_settings
from actors.client.consumer.decode import deserializer
from actors.client.consumer.drain import Drain, by_topic
from actors.client.consumer.fetcher import Fetcher, FetchSettings
from actors.client.consumer.listener import ConsumerRebalanceListener
from actors.client.consumer.positions import EARLIEST, LATEST, PartitionState, Positions
from actors.client.errors import (
    ClosedError,
    ConcurrentUseError,
    FencedInstanceIdError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    KafkaTimeoutError,
    WakeupError,
)
from actors.client.group.callbacks import named, wrapped
from actors.client.group.driver import Driver
from actors.client.group.effects import Action, Apply, CommitBeforeJoin, CommitOutcome, Event, Fail, RunListener
from actors.client.group.membership import Membership, MembershipConfig
from actors.client.net.leaders import list_offsets
from actors.client.net.metadata import ClusterMetadata, TopicInfo, metadata_request
from actors.client.net.network import Network, jitter, now_ms
from actors.client.records import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

log = logging.getLogger(__name__)
T = TypeVar("T")

_RESET = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_FOREVER_MS = 1 << 40


class ConsumerCore:
    """State of a consumer and what its public methods share."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.config = config = consumer_config(settings)
        self._user = threading.Lock()
        self._user_thread: int | None = None
        self._changed = threading.Condition()
        self._listener = ConsumerRebalanceListener()
        self._manual = False
        self._wakeup = False
        self._closed = False
        self._done_commits: deque[Callable[[], None]] = deque()
        self._open_commits: set[concurrent.futures.Future[None]] = set()
        self._fenced: KafkaError | None = None
        self._join_commit: concurrent.futures.Future[None] | None = None
        self._join_commit_after = 0
        self._auto_commit_due = now_ms() + config["auto_commit_interval_ms"]
        self._auto_commit_running: concurrent.futures.Future[None] | None = None
        self._iterating: deque[tuple[PartitionState, int, ConsumerRecord]] = deque()
        self._iterated: tuple[PartitionState, int, ConsumerRecord] | None = None
        self._positions = Positions()
        self._network = Network(network_settings(config), wanted=self._wanted_topics)
        self._member = Membership(self._membership_config(), jitter)
        self._driver = Driver(self._member, self._network, self._changed)
        self._fetcher = self._make_fetcher()
        self._drain = Drain(
            self._positions,
            lock=self._changed,
            reset_to=_RESET[config["auto_offset_reset"]],
            committed=config["isolation_level"] == "read_committed",
            check_crcs=config["check_crcs"],
            key_of=by_topic(config["key_deserializer"], deserializer),
            value_of=by_topic(config["value_deserializer"], deserializer),
        )
        self._network.on_metadata = self._on_metadata
        self._network.start()

    def _membership_config(self) -> MembershipConfig:
        config = self.config
        made = MembershipConfig(
            group_id=config["group_id"] or "",
            assignors=make_assignors(config["partition_assignment_strategy"]),
            group_instance_id=config["group_instance_id"],
            client_rack=config["client_rack"] or None,
            session_timeout_ms=config["session_timeout_ms"],
            heartbeat_interval_ms=config["heartbeat_interval_ms"],
            max_poll_interval_ms=config["max_poll_interval_ms"],
            request_timeout_ms=config["request_timeout_ms"],
            retry_backoff_ms=config["retry_backoff_ms"],
            retry_backoff_max_ms=config["retry_backoff_max_ms"],
            auto_commit=config["enable_auto_commit"],
            exclude_internal_topics=config["exclude_internal_topics"],
        )
        _ = made.protocol  # assignors without a common protocol fail here, not in the first poll
        return made

    def _make_fetcher(self) -> Fetcher:
        config = self.config
        settings = FetchSettings(
            min_bytes=config["fetch_min_bytes"],
            max_bytes=config["fetch_max_bytes"],
            max_wait_ms=config["fetch_max_wait_ms"],
            partition_bytes=config["max_partition_fetch_bytes"],
            isolation=int(config["isolation_level"] == "read_committed"),
            rack=config["client_rack"],
            reset_to=_RESET[config["auto_offset_reset"]],
            retry_ms=config["retry_backoff_ms"],
        )
        fetcher = Fetcher(
            self._network, self._positions, settings, self._changed, self._load_committed, self._driver.tell
        )
        fetcher.may_fetch = lambda: self._member.may_deliver(now_ms())
        return fetcher

    async def _load_committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        if not self._member.config.group_id:
            return dict.fromkeys(partitions)
        return await self._driver.committed(partitions, self.config["request_timeout_ms"])

    def _wanted_topics(self) -> frozenset[str] | None:
        """For the network's metadata: None = all topics."""
        if self._member.wants_all_topics:
            return None
        return self._member.watched_topics | {tp.topic for tp in list(self._positions.states)}

    def _on_metadata(self) -> None:
        self._driver.on_metadata()
        self._fetcher.step()

    # --- one thread at a time ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        """Only one thread at a time; the same thread may come again from a callback."""
        if self._closed:
            raise ClosedError
        me = threading.get_ident()
        if self._user_thread == me:
            yield
            return
        if not self._user.acquire(blocking=False):
            raise ConcurrentUseError
        self._user_thread = me
        try:
            yield
        finally:
            self._user_thread = None
            self._user.release()

    def _require_group(self, what: str) -> None:
        if not self.config["group_id"]:
            raise InvalidGroupIdError(f"{what} needs the setting group_id; without a group, use assign()")

    def _timeout(self, timeout_ms: int | None) -> int:
        return int(self.config["default_api_timeout_ms"]) if timeout_ms is None else timeout_ms

    def _await(self, work: Coroutine[Any, Any, T], timeout_ms: int) -> T:
        """The result of a coroutine on the loop. Raises WakeupError, KafkaTimeoutError and what the work raises."""
        future = self._network.run(work)
        future.add_done_callback(lambda _: self._driver.tell())
        deadline = now_ms() + timeout_ms + 1000
        while not future.done():
            before = self._driver.changes
            if self._wakeup:
                future.cancel()
                self._raise_wakeup()
            if now_ms() > deadline:
                future.cancel()
                raise KafkaTimeoutError(f"not finished within {timeout_ms} ms")
            if not future.done():
                self._wait(before, deadline)
        return future.result()

    def _wait(self, before: int, until_ms: int) -> None:
        """Wait for a change after `before`, at most until that time."""
        with self._changed:
            if self._driver.changes == before and not self._wakeup:
                self._changed.wait(min(max(until_ms - now_ms(), 0) / 1000, 3600))

    def _raise_wakeup(self) -> None:
        if self._wakeup:
            self._wakeup = False
            raise WakeupError

    # --- polling --------------------------------------------------------------------------------------------------

    def _poll(self, timeout_ms: int, take: Callable[[], T]) -> T | None:
        if not (self._manual or self._member.subscribed):
            raise IllegalStateError("subscribe to topics or assign partitions before polling")
        deadline = now_ms() + timeout_ms
        while True:
            before = self._driver.changes
            self._raise_wakeup()
            self._turn(deadline)
            self._raise_fetch_errors()
            if self._may_deliver():
                try:
                    taken = take()
                except BaseException:
                    self._drain.undo()
                    raise
                if self._drain.drained or not taken:
                    self._drain.drained = False
                    self._fetcher.soon()
                # Decoding takes time: what the session no longer covers is not handed out.
                if taken and self._may_deliver():
                    return taken
                if taken:
                    self._drain.undo()
            if now_ms() >= deadline:
                return None
            self._wait(before, min(deadline, self._next_turn()))

    def _may_deliver(self) -> bool:
        with self._changed:
            return self._member.may_deliver(now_ms())

    def _next_turn(self) -> int:
        """When there may be something to do although nothing arrived."""
        with self._changed:
            times = [self._member.user_deadline()]
        if self._join_commit_after > now_ms():
            times.append(self._join_commit_after)
        if self.config["enable_auto_commit"] and self._auto_commit_running is None:
            times.append(self._auto_commit_due)
        floor = now_ms() + 1
        return max(floor, min((t for t in times if t is not None), default=_FOREVER_MS))

    def _turn(self, deadline: int) -> None:
        """What comes before records: finished commits, the group, the auto-commit."""
        self._run_commit_callbacks()
        with self._changed:
            self._member.poll(now_ms())
        self._take_part(deadline)
        self._auto_commit()

    def _raise_fetch_errors(self) -> None:
        if self._fetcher.errors:
            raise self._fetcher.errors.popleft()

    # --- the group ------------------------------------------------------------------------------------------------

    def _take_part(self, deadline: int) -> None:
        while True:
            with self._changed:
                action = self._member.next_action(now_ms())
                self._driver.pump()
            if action is None:
                return
            if isinstance(action, Fail):
                raise action.error
            if not self._carry_out(action, deadline):
                return

    def _carry_out(self, action: Action, deadline: int) -> bool:
        """False when the rest has to wait for a later poll."""
        error: BaseException | None = None
        outcome = CommitOutcome.DONE
        if isinstance(action, CommitBeforeJoin):
            outcome = self._commit_before_join(action, deadline)
        elif isinstance(action, Apply):
            self._set_assignment(action.partitions)
        elif isinstance(action, RunListener):
            error = self._run_listener(action)
        with self._changed:
            self._member.action_done(action, now_ms(), error, outcome)
        if isinstance(error, WakeupError) and isinstance(action, RunListener) and action.event is Event.ASSIGNED:
            raise error
        return outcome is not CommitOutcome.LATER

    def _run_listener(self, action: RunListener) -> BaseException | None:
        try:
            getattr(self._listener, action.event.value, self._listener.on_partitions_revoked)(list(action.partitions))
        except Exception as error:
            log.warning("the rebalance listener failed in %s: %r", action.event.value, error)
            return wrapped(error, f"{action.event.value} of {named(action.partitions)}")
        return None

    def _set_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        with self._changed:
            added = self._positions.assign(partitions)
            for state in added:
                state.load()
            self._positions.stop_all(False)
        self._auto_commit_due = now_ms() + self.config["auto_commit_interval_ms"]
        self._fetcher.soon()

    def _commit_before_join(self, action: CommitBeforeJoin, deadline: int) -> CommitOutcome:
        if action.stop_all:
            self._positions.stop_all()
        if now_ms() < self._join_commit_after:
            return CommitOutcome.LATER
        if self._join_commit is None:
            try:
                self._join_commit = self._start_commit(self._positions.consumed(), retry=False)
            except KafkaError as error:
                log.info("no commit before the rebalance: %s", error)
                return CommitOutcome.FAILED
        while not self._join_commit.done():
            before = self._driver.changes
            if now_ms() >= deadline or self._wakeup:
                return CommitOutcome.LATER
            if not self._join_commit.done():
                self._wait(before, deadline)
        finished, self._join_commit = self._join_commit, None
        failure = finished.exception()
        if failure is None:
            return CommitOutcome.DONE
        log.info("the commit before the rebalance failed: %s", failure)
        retriable = isinstance(failure, KafkaError) and failure.retriable
        if not retriable:
            return CommitOutcome.FAILED
        self._join_commit_after = now_ms() + self.config["retry_backoff_ms"]
        return CommitOutcome.LATER

    def _leave(self, reason: str) -> None:
        self._stop_iterating()
        failure: BaseException | None = None
        with self._changed:
            farewell = self._member.farewell()
        for action in farewell:
            if isinstance(action, RunListener):
                failure = self._run_listener(action)
        with self._changed:
            self._member.unsubscribe(now_ms(), reason)
            self._positions.assign(())
            self._driver.pump()
        self._manual = False
        self._join_commit = None
        if failure is not None:
            raise failure

    # --- commits --------------------------------------------------------------------------------------------------

    def _offsets_of(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            self._finish_iterated()
            return self._positions.consumed()
        made = {}
        for tp, offset in offsets.items():
            value = OffsetAndMetadata(offset) if isinstance(offset, int) else OffsetAndMetadata(*offset)
            epoch = -1 if value.leader_epoch is None else value.leader_epoch
            made[TopicPartition(*tp)] = value._replace(leader_epoch=epoch)
        return made

    def _start_commit(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], *, retry: bool, timeout_ms: int | None = None
    ) -> concurrent.futures.Future[None]:
        timeout_ms = self._timeout(timeout_ms)
        with self._changed:
            commit = self._driver.make_commit(offsets)
        if not offsets:
            done: concurrent.futures.Future[None] = concurrent.futures.Future()
            done.set_result(None)
            return done
        future = self._network.run(self._driver.commit(commit, offsets, timeout_ms, retry=retry))
        future.add_done_callback(lambda _: self._driver.tell())
        return future

    def _commit_sync(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: int | None) -> None:
        self._run_commit_callbacks()
        timeout_ms = self._timeout(timeout_ms)
        future = self._start_commit(offsets, retry=True, timeout_ms=timeout_ms)
        deadline = now_ms() + timeout_ms
        while not future.done():
            before = self._driver.changes
            if self._wakeup:
                future.cancel()
            self._raise_wakeup()
            if now_ms() >= deadline:
                future.cancel()
                raise KafkaTimeoutError(f"the commit was not answered within {timeout_ms} ms; it may have happened")
            if not future.done():
                self._wait(before, deadline)
        future.result()
        self._run_commit_callbacks()

    def _commit_async(self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: Any) -> None:
        def done(future: concurrent.futures.Future[None]) -> None:
            error = future.exception() if not future.cancelled() else None
            if isinstance(error, FencedInstanceIdError):
                self._fenced = error
            if callback is not None:
                self._done_commits.append(lambda: callback(dict(offsets), error))
            self._open_commits.discard(future)
            self._network.soon(self._driver.tell)

        future = self._start_commit(offsets, retry=False)
        self._open_commits.add(future)
        future.add_done_callback(done)

    def _run_commit_callbacks(self) -> None:
        while self._done_commits:
            self._done_commits.popleft()()
        if self._fenced is not None:
            error, self._fenced = self._fenced, None
            raise error

    def _auto_commit(self) -> None:
        """Now and then, without waiting; a failure is tried again soon and never raised."""
        running = self._auto_commit_running
        if running is not None:
            if not running.done():
                return
            self._auto_commit_running = None
            error = running.exception()
            if error is not None:
                log.warning("auto-commit failed: %s", error)
                if isinstance(error, FencedInstanceIdError):
                    raise error
                if isinstance(error, KafkaError) and error.retriable:
                    self._auto_commit_due = now_ms() + self.config["retry_backoff_ms"]
        if not self.config["enable_auto_commit"] or now_ms() < self._auto_commit_due:
            return
        self._auto_commit_due = now_ms() + self.config["auto_commit_interval_ms"]
        offsets = self._positions.consumed()
        if not offsets:
            return
        with contextlib.suppress(KafkaError):
            self._auto_commit_running = self._start_commit(offsets, retry=False)

    # --- iteration ------------------------------------------------------------------------------------------------

    def _next_record(self) -> ConsumerRecord:
        self._finish_iterated()
        limit = self.config["max_poll_records"]
        while True:
            while self._iterating:
                state, token, record = self._iterating[0]
                if self._member.subscribed and not self._may_deliver():
                    self._iterating.clear()
                elif state.token != token or not state.deliverable:
                    self._iterating.popleft()
                else:
                    self._iterated = self._iterating.popleft()
                    return record
                continue
            taken = self._poll(_FOREVER_MS, lambda: self._drain.take(limit, advance=False))
            for tp, records in (taken or {}).items():
                state = self._positions.states[tp]
                self._iterating.extend((state, state.token, record) for record in records)

    def _finish_iterated(self) -> None:
        """The record given last counts as consumed once something else is asked for."""
        if self._iterated is not None:
            state, token, record = self._iterated
            self._iterated = None
            if state.token == token:
                self._drain.advance(state, record)

    def _stop_iterating(self) -> None:
        """What iteration took but did not give yet goes back: those partitions are read again from there."""
        self._finish_iterated()
        states = {id(state): state for state, token, _ in self._iterating if state.token == token}
        self._iterating.clear()
        with self._changed:
            for state in states.values():
                if state.position is not None:
                    state.seek(state.position, state.epoch)

    # --- lookups --------------------------------------------------------------------------------------------------

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._positions.states.get(TopicPartition(*partition))
        if state is None:
            raise IllegalStateError(f"{partition} is not assigned to this consumer")
        return state

    def _offsets_at(
        self,
        wanted: dict[TopicPartition, int],
        timeout_ms: int | None,
        isolation_level: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        timeout_ms = self._timeout(timeout_ms)

        async def ask() -> dict[TopicPartition, OffsetAndTimestamp | None]:
            isolation = isolation_level
            if isolation is None:
                isolation = int(self.config["isolation_level"] == "read_committed")
            with self._network.holding(tp.topic for tp in wanted):
                if any(self._network.cluster.partition(tp) is None for tp in wanted):
                    await self._network.refreshed()
                return await list_offsets(self._network, wanted, isolation=isolation, timeout_ms=timeout_ms)

        return self._await(ask(), timeout_ms)

    def _describe_topics(self, topics: list[str] | None, timeout_ms: int | None) -> dict[str, TopicInfo]:
        timeout_ms = self._timeout(timeout_ms)

        async def ask() -> dict[str, TopicInfo]:
            names = None if topics is None else frozenset(topics)
            found = ClusterMetadata()
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        request = metadata_request(names, create=False)
                        found.update(await self._network.ask(None, request), names)
                        return found.topics
                    except KafkaError as error:
                        if not error.retriable:
                            raise
                    await asyncio.sleep(self.config["retry_backoff_ms"] / 1000)

        try:
            return self._await(ask(), timeout_ms)
        except TimeoutError as error:
            raise KafkaTimeoutError(f"no metadata within {timeout_ms} ms") from error

    def _metrics(self) -> dict[str, Any]:
        stats = self._member.stats
        with self._changed:  # the loop's thread records
            times = stats.times.describe(now_ms())
        states = list(self._positions.states.values())
        lags = [s.high_watermark - s.position for s in states if s.position is not None and s.high_watermark >= 0]
        return {
            **self._member.describe(),
            "joins": stats.joins_sent,
            "rebalances": stats.rebalances,
            "failed_rebalances": stats.rebalances_failed,
            "last_rebalance_ms": stats.last_rebalance_ms,
            **times,
            "heartbeats": stats.heartbeats,
            "failed_heartbeats": stats.heartbeats_failed,
            "poll_timeouts": stats.poll_timeouts,
            "memberships_lost": stats.memberships_lost,
            "records_lag_max": max(lags, default=None),
            "buffered_bytes": sum(s.buffered for s in states),
        }

    # --- the end --------------------------------------------------------------------------------------------------

    def _close(self, autocommit: bool, timeout_ms: int) -> None:
        if self._closed:
            return
        deadline = now_ms() + timeout_ms
        first: BaseException | None = None
        with self._using():
            self._wakeup = False
            steps: list[Callable[[], None]] = [
                self._finish_iterated,
                lambda: self._leave("the consumer was closed"),
                lambda: self._await_goodbye(deadline),
                self._run_commit_callbacks,
            ]
            if autocommit and self.config["enable_auto_commit"] and self._positions.states:
                steps.insert(1, lambda: self._last_commit(deadline))
            try:
                for step in steps:  # each is owed: what a listener raises must not keep us in the group
                    try:
                        step()
                    except Exception as error:
                        first = first or error
            finally:
                self._closed = True
                self._network.close()
        if first is not None:
            raise first

    def _last_commit(self, deadline: int) -> None:
        try:
            self._commit_sync(self._positions.consumed(), max(0, deadline - now_ms()))
        except KafkaError as error:
            if isinstance(error, WakeupError | FencedInstanceIdError):
                raise
            log.warning("the last commit failed: %s", error)

    def _await_goodbye(self, deadline: int) -> None:
        """LeaveGroup and open commits are answered, or time is up."""
        while now_ms() < deadline:
            before = self._driver.changes
            with self._changed:
                leaving = any(p.node is not None for p in self._member.pending().values())
            if not leaving and not self._open_commits:
                return
            self._wait(before, min(deadline, now_ms() + 100))
