"""Carries out what the group wants the user's thread to do between two polls.

The member says what comes next (`Subscriber.next_action`): commit, call the listener, take over an assignment. It is
done here, and the member is told the outcome.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from actors.client.consumer.commits import Commits, Running
from actors.client.consumer.fetcher import Fetcher
from actors.client.consumer.listener import ConsumerRebalanceListener
from actors.client.consumer.positions import Positions
from actors.client.consumer.user_thread import UserThread
from actors.client.errors import IllegalStateError, KafkaError, StaleMemberEpochError, WakeupError
from actors.client.group.callbacks import named, wrapped
from actors.client.group.driver import Driver
from actors.client.group.effects import Action, Apply, CommitFirst, CommitOutcome, Event, Fail, RunListener
from actors.client.group.member import Subscriber
from actors.client.net.changes import Changes
from actors.client.records import GroupMembershipOperation, SubscriptionPattern, TopicPartition
from actors.client.settings import ConsumerConfig

log = logging.getLogger(__name__)

_LOOK_AGAIN_MS = 100


class Participation:
    """Does what the membership asks for. `listener` is the program's, or one that does nothing."""

    def __init__(
        self,
        config: ConsumerConfig,
        member: Subscriber,
        driver: Driver,
        positions: Positions,
        fetcher: Fetcher,
        commits: Commits,
        thread: UserThread,
        changes: Changes,
    ) -> None:
        self._config = config
        self._member = member
        self._driver = driver
        self._positions = positions
        self._fetcher = fetcher
        self._commits = commits
        self._thread = thread
        self._changes = changes
        self._last_commit: tuple[CommitFirst, Running] | None = None
        self._last_commit_after_ms = 0
        self.listener = ConsumerRebalanceListener()

    @property
    def by_hand(self) -> bool:
        """True if the partitions were assigned by the program and not by a group."""
        return bool(self._positions.states) and not self._member.subscribed

    @property
    def idle(self) -> bool:
        """True if there is nothing to read: neither a subscription nor partitions assigned by hand."""
        return not (self._positions.states or self._member.subscribed)

    @property
    def next_ms(self) -> int | None:
        """The time (monotonic ms) at which `take_part` may have something to do, even if nothing arrives until then."""
        with self._changes.lock:
            due = self._member.user_deadline()
        again = self._last_commit_after_ms
        return min((t for t in (due, again if again > self._changes.now_ms() else None) if t is not None), default=None)

    def take_part(self, deadline_ms: int) -> None:
        """Do all that the group waits for and that can be done in time. Raises errors of the group and the listener."""
        while True:
            with self._changes.lock:
                action = self._member.next_action(self._changes.now_ms())
                self._driver.pump()
            if action is None:
                return
            if isinstance(action, Fail):
                raise action.error
            if not self._carry_out(action, deadline_ms):
                return

    def _carry_out(self, action: Action, deadline_ms: int) -> bool:
        """Carry out an action. Returns False if the rest has to wait for a later poll."""
        error: BaseException | None = None
        outcome = CommitOutcome.DONE
        if isinstance(action, CommitFirst):
            outcome = self._commit_first(action, deadline_ms)
        elif isinstance(action, Apply):
            self.assign(action.partitions)
        elif isinstance(action, RunListener):
            error = self._run_listener(action)
        with self._changes.lock:
            self._member.action_done(action, self._changes.now_ms(), error, outcome)
        if isinstance(error, WakeupError) and isinstance(action, RunListener) and action.event is Event.ASSIGNED:
            raise error
        return outcome is not CommitOutcome.LATER

    def _run_listener(self, action: RunListener) -> BaseException | None:
        try:
            getattr(self.listener, action.event.value, self.listener.on_partitions_revoked)(list(action.partitions))
        except Exception as error:  # it is the user's, and may raise anything
            log.warning("the rebalance listener failed in %s: %r", action.event.value, error)
            return wrapped(error, f"{action.event.value} of {named(action.partitions)}")
        return None

    def recreated(self, partitions: list[TopicPartition]) -> None:
        """Tell the listener that these partitions belong to another topic now. Raises what it raises."""
        self._fetcher.soon()
        if not self._member.subscribed:
            return
        try:
            self._listener_of_recreated(partitions)
        except Exception as error:  # as above
            log.warning("the rebalance listener failed in on_partitions_recreated: %r", error)
            raise wrapped(error, f"on_partitions_recreated of {named(partitions)}") from error

    def _listener_of_recreated(self, partitions: list[TopicPartition]) -> None:
        listener: Any = self.listener
        if hasattr(listener, "on_partitions_recreated"):
            listener.on_partitions_recreated(partitions)
            return
        getattr(listener, Event.LOST.value, listener.on_partitions_revoked)(partitions)
        listener.on_partitions_assigned(partitions)

    # --- what to read ---------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str],
        pattern: str | re.Pattern[str] | SubscriptionPattern | None,
        listener: ConsumerRebalanceListener,
    ) -> None:
        """Have the group give out partitions of these topics, or of those whose whole name matches the pattern."""
        if self.by_hand:
            raise IllegalStateError("partitions are assigned by hand: call unsubscribe() first")
        with self._changes.lock:
            if isinstance(pattern, SubscriptionPattern):
                self._member.subscribe_expression(pattern.pattern)
            elif pattern:
                matches = re.compile(pattern).fullmatch
                self._member.subscribe_pattern(lambda topic: matches(topic) is not None)
            else:
                self._member.subscribe(topics)
            self._driver.pump()
        self.listener = listener

    def assign_by_hand(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group."""
        if self._member.subscribed:
            raise IllegalStateError("this consumer subscribes to topics: call unsubscribe() first")
        self.assign(partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """From now on read exactly these partitions, new ones from their committed offsets."""
        with self._changes.lock:
            added = self._positions.assign(partitions)
            for state in added:
                state.load()
            self._positions.go_on()
        self._commits.start_interval()
        self._fetcher.soon()

    def _commit_first(self, action: CommitFirst, deadline_ms: int) -> CommitOutcome:
        self._positions.stop(action.stop)
        if self._changes.now_ms() < self._last_commit_after_ms:
            return CommitOutcome.LATER
        try:
            running = self._commit_of(action)
        except KafkaError as error:
            log.info("no commit before the rebalance: %s", error)
            return CommitOutcome.FAILED
        if not self._thread.wait_for(running.done, deadline_ms):
            return CommitOutcome.LATER
        self._last_commit = None
        failure = running.exception()
        if failure is None:
            return CommitOutcome.DONE
        log.info("the commit before the rebalance failed: %s", failure)
        # One under an older epoch is made anew, under the newest.
        retriable = isinstance(failure, KafkaError) and failure.retriable
        if not retriable and not isinstance(failure, StaleMemberEpochError):
            return CommitOutcome.FAILED
        self._last_commit_after_ms = self._changes.now_ms() + self._config.retry_backoff_ms
        return CommitOutcome.LATER

    def _commit_of(self, action: CommitFirst) -> Running:
        """The commit that this action has under way, or a new one. One for a rebalance that was given up is no use."""
        if self._last_commit is not None and self._last_commit[0] is action:
            return self._last_commit[1]
        self._last_commit = None
        limit = self._config.default_api_timeout_ms
        running = self._commits.start(self._commits.consumed(), retry=False, timeout_ms=limit)
        self._last_commit = (action, running)
        return running

    # --- leaving --------------------------------------------------------------------------------------------------

    def leave(self, reason: str, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """Leave the group, or stop reading what was assigned by hand. After that it raises what the listener raised."""
        failure: BaseException | None = None
        with self._changes.lock:
            farewell = self._member.farewell()
        for action in farewell:
            if isinstance(action, RunListener):
                failure = self._run_listener(action)
        with self._changes.lock:
            self._member.unsubscribe(self._changes.now_ms(), reason, operation)
            self._positions.assign(())
            self._driver.pump()
        self._last_commit = None
        if failure is not None:
            raise failure

    def await_goodbye(self, deadline_ms: int) -> None:
        """Wait until LeaveGroup and open commits are answered, or until the deadline."""
        while self._changes.now_ms() < deadline_ms:
            seen = self._changes.count
            with self._changes.lock:
                leaving = self._member.asks_coordinator
            if not leaving and not self._commits.under_way:
                return
            self._changes.wait(seen, min(deadline_ms, self._changes.now_ms() + _LOOK_AGAIN_MS))
