"""A member of a classic group: the whole state machine, without a socket, a clock, a thread or randomness.

Inputs are method calls that carry `now_ms` (monotonic): answers and failures of requests, metadata, time, and what
the user does. Outputs are effects (`take_effects`: requests to send) and actions (`next_action`: what the user's
thread must do next, such as calling its listener). A shell drives it in `consumer`; a simulator can do the same.

    poll(now)                            the user is alive; once per poll
    next_action(now) -> Action | None    until it gives None; each action but Fail is answered by action_done
    on_response / on_failure / on_metadata / on_time, next_deadline
    subscribe / subscribe_pattern / request_rejoin / leave

Here the parts are put together, and it is decided whose turn it is; what each part does stands in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.client.errors import IllegalStateError, KafkaError
from actors.client.group.classic.answers import Answers
from actors.client.group.classic.config import MembershipConfig, membership_config
from actors.client.group.classic.fencing import Fencing
from actors.client.group.classic.handover import Handover
from actors.client.group.classic.heartbeats import Heartbeats
from actors.client.group.classic.joining import Joining
from actors.client.group.classic.leader import Leader
from actors.client.group.classic.leader_assignment import Snapshot
from actors.client.group.classic.round import STATIC_COMMIT, Join, Kind, routes
from actors.client.group.classic.standing import MemberState, Standing
from actors.client.group.effects import Action, CommitOutcome, Effect, Fail
from actors.client.group.generation import Generation
from actors.client.group.holdings import Holdings
from actors.client.group.liveness import Liveness
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.outbox import Outbox, Pending
from actors.client.group.stats import Stats
from actors.client.net.backoff import Backoff, Jitter
from actors.client.net.metadata import MetadataView
from actors.client.records import GroupMembershipOperation as Parting
from actors.client.records import Node, TopicPartition
from actors.client.settings import ConsumerConfig
from actors.wire.messages import ApiMessage


class Membership:
    """See the module's first lines. `stats` counts what happened, `live` has the clocks, `lookup` the coordinator.

    Its methods are many because users, shells and the network each have some.
    """

    def __init__(self, config: MembershipConfig, jitter: Jitter = lambda: 1.0) -> None:
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, jitter)
        self.config = config
        self.stats = Stats()
        self.standing = Standing()
        self.lookup = CoordinatorLookup(config.group_id, backoff)
        self.live = Liveness(
            config.session_timeout_ms, config.heartbeat_interval_ms, config.max_poll_interval_ms, backoff
        )
        self._outbox = Outbox(
            self.lookup,
            lambda: self.standing.generation,
            routes(static=config.group_instance_id is not None),
            config.request_timeout_ms,
        )
        self._holdings = Holdings(exclude_internal=config.exclude_internal_topics)
        self._leader = Leader(config, self._holdings)
        self.joining = Joining(
            config,
            self.standing,
            self.lookup,
            self._outbox,
            self._holdings,
            self._leader,
            self.live,
            self.stats,
            backoff,
        )
        self._handover = Handover(config, self.standing, self._holdings, self.joining, self._leader, self.stats)
        self._fencing = Fencing(config, self.standing, self._holdings, self.joining)
        self.answers = Answers(config, self.standing, self.lookup, self._outbox, self.joining, self.live, self.stats)
        self._heartbeats = Heartbeats(
            config,
            self.standing,
            self.lookup,
            self._outbox,
            self._holdings,
            self.joining,
            self.live,
            self.stats,
        )
        self._refresh_since: int | None = None

    # --- where it stands ------------------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        return self.config.group_id

    @property
    def instance_id(self) -> str | None:
        return self.config.group_instance_id

    @property
    def state(self) -> MemberState:
        return self.standing.state

    @property
    def generation(self) -> Generation:
        return self.standing.generation

    @property
    def rebalancing(self) -> bool:
        return self.standing.rebalancing

    @property
    def coordinator(self) -> Node | None:
        return self.lookup.coordinator

    @property
    def subscribed(self) -> bool:
        return self._holdings.subscribed

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to, by name, or by pattern as far as they are known."""
        return self._holdings.topics

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that the group has given this member."""
        return self._holdings.owned

    @property
    def join(self) -> Join | None:
        """The round of joining that is under way."""
        return self.joining.join

    @property
    def rejoin_needed(self) -> bool:
        return self.joining.needed

    @property
    def assigned_on(self) -> Snapshot | None:
        """As leader, the metadata that the last assignment was made on."""
        return self._leader.assigned_on

    @property
    def wants_all_topics(self) -> bool:
        return self._holdings.by_pattern

    @property
    def watched_topics(self) -> frozenset[str]:
        """The topics whose metadata this member needs: its own, and as leader the whole group's."""
        return self._holdings.topics | self._leader.watched_topics(self.joining.join)

    @property
    def settled(self) -> bool:
        """True if the user's thread has nothing left to do but read records."""
        joining = self.joining.needed or self.joining.join or self._holdings.changed or self._leader.outgrown
        return not (joining or self._handover.waiting)

    def may_deliver(self, now_ms: int) -> bool:
        """True if records may be handed out: always without a subscription, else only within the session."""
        if not self._holdings.subscribed:
            return True
        return self.standing.counted and now_ms < self.live.deliver_until_ms

    def awaits_poll(self, now_ms: int) -> bool:
        """True if the next poll would take the group a step further: joining again, or taking over an assignment."""
        if not self._holdings.subscribed:
            return False
        joining = self.joining
        if joining.join is not None:
            return joining.join.assignment is not None
        return joining.needed and self.coordinator is not None and now_ms >= joining.not_before_ms

    def user_deadline(self) -> int | None:
        """The time (monotonic ms) at which `next_action` may change though nothing arrives; None: never."""
        if not self._holdings.subscribed or self._handover.waiting:
            return None
        if self.coordinator is None:
            return self.lookup.next_ms
        return self.joining.not_before_ms if self.joining.needed and self.joining.join is None else None

    def pending(self) -> dict[int, Pending]:
        """The requests in flight, by id."""
        return self._outbox.pending()

    @property
    def asks_coordinator(self) -> bool:
        return self._outbox.asks_coordinator

    @property
    def awaits_others(self) -> bool:
        return self._outbox.in_flight(Kind.JOIN, Kind.SYNC)

    # --- the user's intents ---------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """From the next poll on, this member wants these topics."""
        self._holdings.subscribe(topics)
        self._leader.outdate()
        self._outbox.want_metadata()

    def subscribe_pattern(self, matches: Callable[[str], bool]) -> None:
        """From the next poll on, this member wants every topic `matches` says yes to."""
        self._holdings.subscribe_pattern(matches, self._leader.view)
        self._outbox.want_metadata()

    def subscribe_expression(self, expression: str) -> None:
        """Raise IllegalStateError: the coordinator of a classic group looks for no topics."""
        raise IllegalStateError("a SubscriptionPattern needs group_protocol='consumer'; a pattern may be a text, too")

    def farewell(self) -> list[Action]:
        """The last actions of the user's thread before `leave`: its listener hears of everything it gives up."""
        return self._handover.farewell()

    def leave(self, now_ms: int, reason: str, parting: Parting = Parting.DEFAULT) -> None:
        """Leave the group: dynamic members say so, static ones only stop. One attempt; the state is reset anyway."""
        self.joining.leave(now_ms, reason, parting)

    def unsubscribe(self, now_ms: int, reason: str, parting: Parting = Parting.DEFAULT) -> None:
        """Leave, and want nothing any more."""
        self.joining.leave(now_ms, reason, parting)
        self._holdings.unsubscribe()
        self._handover.clear()

    def poll(self, now_ms: int) -> None:
        """The user polls. It counts even when nothing else can be done, so that a broker's outage expels nobody."""
        self.live.last_poll_ms = now_ms

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll; the coordinator is told why (KIP-800)."""
        self.joining.request(reason)

    # --- what happens to it ---------------------------------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        """The effects that the shell has to carry out since the last call, in order."""
        return self._outbox.take_effects()

    def on_response(self, request_id: int, response: ApiMessage, now_ms: int) -> None:
        """The answer to the `Send` with this id. Answers to what was given up meanwhile change nothing."""
        pending = self._outbox.ended(request_id)
        if pending is not None:
            self.answers.tables[pending.kind](pending, response, now_ms)

    def on_failure(self, request_id: int, error: KafkaError, now_ms: int) -> None:
        """No answer came: the connection was lost, time ran out, or the broker serves no version that will do."""
        pending = self._outbox.ended(request_id)
        if pending is not None:
            self.answers.unanswered(pending, error, now_ms)

    def on_metadata(self, view: MetadataView, now_ms: int) -> None:
        """Metadata was refreshed."""
        self._leader.view = view
        self._holdings.match(view)
        join = self.joining.join
        if join is not None and join.waiting is not None:
            self.joining.lead(join.waiting, now_ms)

    def find_coordinator(self, now_ms: int) -> None:
        """Look for the coordinator unless it is known, being looked for, or not to be looked for yet."""
        self._outbox.find_coordinator(now_ms)

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        """Forget the coordinator if it is `node`; if another has replaced it already, nothing changes."""
        self._outbox.coordinator_lost(node, now_ms, drop=drop)

    def fail(self, error: BaseException, now_ms: int) -> None:
        """The background thread failed: the next action is to raise this. A round with nothing in flight ends."""
        joining = self.joining
        asked = self._outbox.in_flight(Kind.JOIN, Kind.SYNC)
        if joining.join is not None and joining.join.assignment is None and not asked:
            joining.failed(now_ms)
        joining.error = joining.error or error

    # --- commits ------------------------------------------------------------------------------------------------

    @property
    def commits_from(self) -> int:
        return STATIC_COMMIT if self.config.group_instance_id is not None else 0

    def commits_as(self, now_ms: int) -> Generation:
        """The place that a commit is made in: none, without a subscription. Raises as `Fencing.commits_as`."""
        if not self._holdings.subscribed:
            return Generation()
        return self._fencing.commits_as(within_session=self.may_deliver(now_ms))

    def sends_as(self, made: Generation) -> Generation:
        """The place that a commit made in `made` is sent in: the same."""
        return made

    def fetches_as(self) -> Generation:
        """No place: a classic coordinator does not check who asks for committed offsets."""
        return Generation()

    def commit_refused(self, code: int, made: Generation, where: str) -> KafkaError | None:
        """The error to raise for a refused commit; None if it is not about membership."""
        return self._fencing.refused(code, made, where)

    # --- time -----------------------------------------------------------------------------------------------------

    def on_time(self, now_ms: int) -> None:
        """Do what is due: look for the coordinator, leave after too long without a poll, heartbeat."""
        self._heartbeats.on_time(now_ms)

    def next_deadline(self) -> int | None:
        """The time to call `on_time` next; None while heartbeats are off."""
        return self._heartbeats.next_deadline()

    # --- the user's thread ----------------------------------------------------------------------------------------

    def next_action(self, now_ms: int) -> Action | None:
        """The next action of the user's thread; None when it can only wait or read records."""
        while True:
            if (error := self.joining.take_error()) is not None:
                return Fail(error)
            if self._handover.waiting:
                return self._handover.first()
            if (error := self._handover.take_error()) is not None:
                return Fail(error)
            if not self._holdings.subscribed:
                return None
            if not self.config.assignors:
                return Fail(IllegalStateError("partition_assignment_strategy is empty: subscribing needs an assignor"))
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
        self._handover.done(action, now_ms, error, outcome)

    def _advance(self, now_ms: int) -> bool:
        """One step of the join loop; False when there is nothing to do but wait."""
        self._notice_changes()
        joining = self.joining
        if not joining.needed and joining.join is None:
            self.find_coordinator(now_ms)
            return False
        if joining.join is not None:
            if joining.join.assignment is None:
                self.find_coordinator(now_ms)
                return False
            self._handover.complete(joining.join, joining.join.assignment)
            return True
        if self.standing.lost and joining.unprepared:
            # Nothing is left to commit, and nobody should have to wait for a coordinator to hear of the loss.
            self._handover.prepare(now_ms)
            return True
        if self.coordinator is None:
            self.find_coordinator(now_ms)
            return False
        if not self._metadata_is_fresh():
            return False
        if joining.unprepared:
            self._handover.prepare(now_ms)
            return True
        if now_ms >= joining.not_before_ms:
            self._refresh_since = None
            joining.send(now_ms)
        return False

    def _notice_changes(self) -> None:
        """Rejoin when the subscription is not what was joined with, or the leader's metadata moved on."""
        if self.joining.join is not None or self.joining.needed:
            return
        if self._holdings.changed:
            self.request_rejoin("the subscription changed")
        elif self._leader.outgrown:
            self.request_rejoin("the metadata of the group's topics changed")

    def _metadata_is_fresh(self) -> bool:
        """A pattern is matched against metadata younger than this round, so that no new topic is left out."""
        if not self._holdings.by_pattern:
            return True
        if self._refresh_since is None:
            self._refresh_since = self._leader.view.version
            self._outbox.want_metadata()
        return self._leader.view.version > self._refresh_since


def classic_member(config: ConsumerConfig, pid: int, jitter: Jitter, new_member_id: Callable[[], str]) -> Membership:
    """A member of a classic group, by its consumer's settings: the coordinator chooses its id.

    Raises IllegalStateError as `membership_config`.
    """
    return Membership(membership_config(config, pid), jitter)
