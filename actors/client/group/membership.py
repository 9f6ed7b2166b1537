"""A member of a consumer group: the whole state machine, without a socket, a clock, a thread or randomness.

Inputs are method calls that carry `now_ms` (monotonic): answers and failures of requests, metadata, time, and what
the user does. Outputs are effects (`take_effects`: requests to send) and actions (`next_action`: what the user's
thread must do next, such as calling its listener). A shell drives it in `consumer`; a simulator can do the same.

    poll(now)                            the user is alive; once per poll
    next_action(now) -> Action | None    until it gives None; each action but Fail is answered by action_done
    on_response / on_failure / on_metadata / on_time, next_deadline
    subscribe / subscribe_pattern / request_rejoin / leave

What the answers mean stands in `answers`, row by row; this module says when things are sent and what a round is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from actors.client.errors import IllegalStateError, KafkaError, WakeupError
from actors.client.group.answers import AnswerTables
from actors.client.group.assignors import RebalanceProtocol
from actors.client.group.assignors.protocol import Assignment
from actors.client.group.callbacks import wrapped
from actors.client.group.effects import (
    Action,
    Apply,
    CommitBeforeJoin,
    CommitOutcome,
    Event,
    Fail,
    MemberState,
    RunListener,
    WantMetadata,
)
from actors.client.group.leader_assignment import snapshot
from actors.client.group.member_requests import heartbeat
from actors.client.group.member_types import Join, Kind, MembershipConfig, Pending, Stats
from actors.client.net.backoff import Jitter
from actors.client.net.metadata import MetadataView
from actors.client.records import TopicPartition
from actors.wire.messages import ApiMessage

__all__ = ["Membership", "MembershipConfig", "Stats"]

_HEARTBEATING = (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)


@dataclass(slots=True)
class _Preparation:
    """What is done once before each round of joining."""

    deadline_ms: int
    committing: bool


class Membership(AnswerTables):
    """See the module's first lines. `stats` counts what happened; `owned` is what the group has given this member."""

    def __init__(self, config: MembershipConfig, jitter: Jitter = lambda: 1.0) -> None:
        super().__init__(config, jitter)
        self._subscribed = False
        self._pattern: Callable[[str], bool] | None = None
        self._actions: deque[Action] = deque()
        self._listener_error: BaseException | None = None
        self._preparation: _Preparation | None = None
        self._refresh_since: int | None = None
        self._accepted: frozenset[str] = frozenset()

    # --- the user's intents ---------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """From the next poll on, this member wants these topics."""
        self._subscribed = True
        self._pattern = None
        self.topics = frozenset(topics)
        self._outdated = self.view.version
        self._effects.append(WantMetadata())

    def subscribe_pattern(self, matches: Callable[[str], bool]) -> None:
        """From the next poll on, this member wants every topic `matches` says yes to."""
        self._subscribed = True
        self._pattern = matches
        self._accepted = frozenset()
        self._match()
        self._effects.append(WantMetadata())

    @property
    def wants_all_topics(self) -> bool:
        return self._pattern is not None

    @property
    def subscribed(self) -> bool:
        return self._subscribed

    def farewell(self) -> list[Action]:
        """What the user's thread does before `leave`: its listener hears of everything it gives up."""
        if not self._subscribed or not self.owned:
            return []
        lost = self.generation.id < 0 or self.rebalancing
        return [RunListener(Event.LOST if lost else Event.REVOKED, tuple(sorted(self.owned)))]

    def unsubscribe(self, now_ms: int, reason: str) -> None:
        """Leave, and want nothing any more."""
        self.leave(now_ms, reason)
        self._subscribed = False
        self._pattern = None
        self.topics = frozenset()
        self.owned = frozenset()
        self._actions.clear()
        self._listener_error = None

    def poll(self, now_ms: int) -> None:
        """The user polls. Counts even when nothing else gets done, so that an outage of ours expels nobody."""
        self.live.last_poll_ms = now_ms

    # --- what a shell asks ----------------------------------------------------------------------------------------

    def may_deliver(self, now_ms: int) -> bool:
        """Whether records may be handed out: always without a subscription, else only within the session."""
        if not self._subscribed:
            return True
        return self.generation.id >= 0 and now_ms < self.live.deliver_until_ms

    @property
    def settled(self) -> bool:
        """Nothing left to do for the user's thread but read records."""
        return not (self.rejoin_needed or self.join or self._actions)

    def awaits_poll(self, now_ms: int) -> bool:
        """Whether the next poll would take the group a step further: joining again, or taking over an assignment."""
        if not self._subscribed:
            return False
        if self.join is not None:
            return self.join.assignment is not None
        return self.rejoin_needed and self.coordinator is not None and now_ms >= self.join_not_before_ms

    def user_deadline(self) -> int | None:
        """When `next_action` may have something new although nothing arrived."""
        if not self._subscribed or self._actions:
            return None
        if self.coordinator is None:
            return self.lookup.next_ms
        return self.join_not_before_ms if self.rejoin_needed and self.join is None else None

    # --- time -----------------------------------------------------------------------------------------------------

    def on_time(self, now_ms: int) -> None:
        """Do what is due: look for the coordinator, leave after too long without a poll, heartbeat."""
        if self.state not in _HEARTBEATING:
            if self._waits_with_partitions and now_ms >= self.live.next_heartbeat_ms:
                self._send_aside(now_ms)
            return
        if self.coordinator is None:
            self.find_coordinator(now_ms)
        elif now_ms >= self.live.search_at_ms:
            self.coordinator_lost(self.coordinator, now_ms, drop=True)
            self.find_coordinator(now_ms)
        elif now_ms >= self.live.poll_deadline_ms:
            self.stats.poll_timeouts += 1
            self.leave(now_ms, "no poll within max.poll.interval.ms")
        elif now_ms >= self.live.next_heartbeat_ms and not self._heartbeat_in_flight:
            self._send_heartbeat(now_ms)

    def next_deadline(self) -> int | None:
        """When to call `on_time` next; None while heartbeats are off."""
        if self.state not in _HEARTBEATING:
            return self.live.next_heartbeat_ms if self._waits_with_partitions else None
        if self.coordinator is None:
            return self.lookup.next_ms
        due = min(self.live.search_at_ms, self.live.poll_deadline_ms)
        return due if self._heartbeat_in_flight else min(due, self.live.next_heartbeat_ms)

    @property
    def _waits_with_partitions(self) -> bool:
        """Whether a JoinGroup is out and partitions are kept meanwhile (KIP-429), which records are delivered of.

        The coordinator answers it when all have joined, which may take much longer than a session; and a Kafka
        broker looks at nothing else on its connection until then.
        """
        waits = self.state is MemberState.PREPARING_REBALANCE and self.join is not None
        counted = self.generation.id >= 0 and self.coordinator is not None
        return waits and counted and bool(self.owned) and not self._aside_in_flight

    # --- answers --------------------------------------------------------------------------------------------------

    def on_response(self, request_id: int, response: ApiMessage, now_ms: int) -> None:
        """The answer to the `Send` with this id. Answers to what was given up meanwhile change nothing."""
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self._tables[pending.kind](pending, response, now_ms)

    def on_failure(self, request_id: int, error: KafkaError, now_ms: int) -> None:
        """The request was not answered: connection lost, timed out, or the broker has no such version."""
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self._unanswered(pending, error, now_ms)

    def on_metadata(self, view: MetadataView, now_ms: int) -> None:
        """Metadata was refreshed."""
        self.view = view
        self._match()
        if self.join is not None and self.join.waiting is not None:
            self._lead(self.join.waiting, now_ms)

    def _match(self) -> None:
        if self._pattern is not None:
            hidden = self.view.internal if self.config.exclude_internal_topics else frozenset()
            matching = {t for t in self.view.partitions if t not in hidden and self._pattern(t)}
            self.topics = frozenset(matching) | self._accepted

    # --- the user's thread ----------------------------------------------------------------------------------------

    def next_action(self, now_ms: int) -> Action | None:
        """What the user's thread does next; None when it can only wait or read records."""
        while True:
            if (error := self._take_error()) is not None:
                return Fail(error)
            if self._actions:
                if isinstance(self._actions[0], Apply):
                    self._tell_assignor()
                return self._actions[0]
            if self._listener_error is not None:
                error, self._listener_error = self._listener_error, None
                return Fail(error)
            if not self._subscribed:
                return None
            if not self.config.assignors:
                return Fail(IllegalStateError("a subscription needs at least one partition_assignment_strategy"))
            if not self._advance(now_ms):
                return None

    def action_done(
        self,
        action: Action,
        now_ms: int,
        error: BaseException | None = None,
        outcome: CommitOutcome = CommitOutcome.DONE,
    ) -> None:
        """The action that `next_action` gave was carried out, or raised `error`.

        An assigned-callback that was woken up is run again by the next poll; any other error is raised once the
        step is complete.
        """
        if not self._actions or self._actions[0] is not action:
            return
        if isinstance(action, CommitBeforeJoin):
            self._commit_done(now_ms, outcome)
            return
        if isinstance(error, WakeupError) and isinstance(action, RunListener) and action.event is Event.ASSIGNED:
            return
        self._actions.popleft()
        if isinstance(action, Apply):
            self.owned = action.partitions
        if error is not None and self._listener_error is None:
            self._listener_error = error
        if not self._actions and self.join is not None and self.join.completing:
            self.join = None

    def _take_error(self) -> BaseException | None:
        error, self._error = self._error, None
        return error or self.lookup.take_error()

    def _advance(self, now_ms: int) -> bool:
        """One step of the join loop; False when there is nothing to do but wait."""
        self._notice_changes()
        if not self.rejoin_needed and self.join is None:
            self.find_coordinator(now_ms)
            return False
        if self.join is not None:
            if self.join.assignment is None:
                self.find_coordinator(now_ms)
                return False
            self._complete(self.join, self.join.assignment)
            return True
        if self._lost_membership() and self.needs_prepare:
            # Nothing is left to commit, and nobody should have to wait for a coordinator to hear of the loss.
            self._prepare(now_ms)
            return True
        if self.coordinator is None:
            self.find_coordinator(now_ms)
            return False
        if not self._metadata_is_fresh():
            return False
        if self.needs_prepare:
            self._prepare(now_ms)
            return True
        if now_ms >= self.join_not_before_ms:
            self._refresh_since = None
            self._send_join(now_ms)
        return False

    def _lost_membership(self) -> bool:
        return self.generation.id < 0 or not self.generation.member_id

    def _notice_changes(self) -> None:
        """Rejoin when the subscription is not what was joined with, or the leader's metadata moved on."""
        if self.join is not None or self.rejoin_needed:
            return
        if self.joined_topics is not None and self.joined_topics != self.topics:
            self.request_rejoin("the subscription changed")
        elif self.assigned_on is not None:
            now = snapshot(self.view, self.group_topics, self.config.client_rack)
            if self.view.covers(self.group_topics) and now != self.assigned_on:
                self.request_rejoin("the metadata of the group's topics changed")

    def _metadata_is_fresh(self) -> bool:
        """A pattern is matched against metadata younger than this round, so that no new topic is left out."""
        if self._pattern is None:
            return True
        if self._refresh_since is None:
            self._refresh_since = self.view.version
            self._effects.append(WantMetadata())
        return self.view.version > self._refresh_since

    # --- before joining -------------------------------------------------------------------------------------------

    def _prepare(self, now_ms: int) -> None:
        if self._preparation is None:
            commits = self.config.auto_commit and bool(self.owned) and not self._lost_membership()
            self._preparation = _Preparation(now_ms + self.config.max_poll_interval_ms, commits)
            if commits:
                self._actions.append(CommitBeforeJoin(self.config.protocol is RebalanceProtocol.EAGER))
        if not self._preparation.committing:
            self._give_up()

    def _commit_done(self, now_ms: int, outcome: CommitOutcome) -> None:
        preparation = self._preparation
        if outcome is CommitOutcome.LATER and preparation and now_ms < preparation.deadline_ms:
            return
        self._actions.popleft()
        if preparation is not None:
            preparation.committing = False

    def _give_up(self) -> None:
        """Tell the listener what is lost or revoked, and let go of it. Marked as done before the listener runs."""
        self.needs_prepare = False
        self._preparation = None
        self.assigned_on = None
        self.group_topics = frozenset()
        if self._lost_membership():
            if self.owned:
                self.stats.memberships_lost += 1
                self._queue_release(Event.LOST, self.owned)
        elif self.config.protocol is RebalanceProtocol.EAGER:
            self._queue_release(Event.REVOKED, self.owned)
        else:
            unwanted = frozenset(tp for tp in self.owned if tp.topic not in self.topics)
            if unwanted:
                self._queue_release(Event.REVOKED, unwanted)

    def _queue_release(self, event: Event, partitions: frozenset[TopicPartition]) -> None:
        self._actions.append(RunListener(event, tuple(sorted(partitions))))
        self._actions.append(Apply(self.owned - partitions))

    # --- after joining --------------------------------------------------------------------------------------------

    def _complete(self, join: Join, data: bytes) -> None:
        """Carry out what the leader assigned: revoke, apply, announce."""
        if self.state is not MemberState.STABLE or self.generation.id < 0:
            self.join = None
            self._reset(keep_member_id=bool(self.generation.member_id))
            return
        try:
            assigned = frozenset(self._read_assignment(data))
        except IllegalStateError as error:
            self.join = None
            self.needs_prepare = True
            self.request_rejoin("the assignment could not be read")
            self._error = error
            return
        unwanted = sorted({tp.topic for tp in assigned if not self._wanted(tp.topic)})
        self.needs_prepare = True
        if unwanted:
            self.join = None
            self.request_rejoin(f"assigned topics that are not subscribed to: {', '.join(unwanted)}")
            return
        self._accept(assigned)
        self._queue_assignment(assigned)
        assignor = self.config.assignor(self.generation.protocol)
        join.tell = partial(assignor.on_assignment, sorted(assigned), self.generation.id)
        join.completing = True

    def _tell_assignor(self) -> None:
        """After the revoked-callback and before the assignment is applied; what it raises is raised as a callback's."""
        if self.join is None or self.join.tell is None:
            return
        tell, self.join.tell = self.join.tell, None
        try:
            tell()
        except Exception as error:
            failure = wrapped(error, f"on_assignment of the assignor {self.generation.protocol!r}")
            self._listener_error = self._listener_error or failure

    def _read_assignment(self, data: bytes) -> tuple[TopicPartition, ...]:
        if len(data) < 2:
            raise IllegalStateError(f"the assignment has {len(data)} bytes; the group's leader sent none for us")
        try:
            return Assignment.decode(data).partitions
        except ValueError as error:
            raise IllegalStateError(f"the assignment is malformed: {error}") from error

    def _wanted(self, topic: str) -> bool:
        return topic in self.topics or (self._pattern is not None and self._pattern(topic))

    def _accept(self, assigned: frozenset[TopicPartition]) -> None:
        """The leader may know of a matching topic before we do."""
        if self._pattern is not None:
            self._accepted = frozenset(tp.topic for tp in assigned) - self.view.partitions.keys()
            self.topics |= frozenset(tp.topic for tp in assigned)
            self.joined_topics = self.topics

    def _queue_assignment(self, assigned: frozenset[TopicPartition]) -> None:
        gone = self.owned - assigned
        added = assigned - self.owned
        if gone:
            self._actions.append(RunListener(Event.REVOKED, tuple(sorted(gone))))
            self.request_rejoin("gave up partitions that move to other members")
        self._actions.append(Apply(assigned, added))
        self._actions.append(RunListener(Event.ASSIGNED, tuple(sorted(added))))

    # --- sending --------------------------------------------------------------------------------------------------

    def _send_heartbeat(self, now_ms: int) -> None:
        self._heartbeat_in_flight = True
        self.stats.heartbeats += 1
        self.live.next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms
        self._to_coordinator(Kind.HEARTBEAT, heartbeat(self.config, self.generation), now_ms)

    def _send_aside(self, now_ms: int) -> None:
        self._aside_in_flight = True
        self.live.next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms
        self._to_coordinator(Kind.ASIDE, heartbeat(self.config, self.generation), now_ms)

    def pending(self) -> dict[int, Pending]:
        """What is in flight, by id."""
        return dict(self._pending)

    def fail(self, error: BaseException, now_ms: int) -> None:
        """The background thread failed; the next `next_action` raises this, and joins again what nobody answers."""
        joining = any(pending.kind in (Kind.JOIN, Kind.SYNC) for pending in self._pending.values())
        if self.join is not None and self.join.assignment is None and not joining:
            self._join_failed(now_ms)
        self._error = self._error or error

    def describe(self) -> dict[str, Any]:
        """For people: where this member stands."""
        return {
            "state": self.state.value,
            "generation": self.generation.id,
            "member_id": self.generation.member_id,
            "coordinator": self.coordinator,
            "owned": sorted(self.owned),
        }
