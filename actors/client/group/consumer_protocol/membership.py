"""A member of a consumer group (KIP-848): the whole state machine, without a socket, a clock, a thread or randomness.

Inputs are method calls that carry `now_ms` (monotonic): answers and failures of requests, metadata, time, and what
the user does. Outputs are effects (`take_effects`) and actions (`next_action`), as `group.member` describes them.

Here the parts are put together, and it is decided whose turn it is; what each part does stands in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.client.errors import KafkaError
from actors.client.group.consumer_protocol.assignments import Assignments
from actors.client.group.consumer_protocol.beats import BEATS, ROUTES, Beats, Kind
from actors.client.group.consumer_protocol.config import MemberConfig, member_config
from actors.client.group.consumer_protocol.endings import Endings
from actors.client.group.consumer_protocol.fencing import COMMITS_FROM, Fencing
from actors.client.group.consumer_protocol.handover import Handover
from actors.client.group.consumer_protocol.heartbeats import Heartbeats
from actors.client.group.consumer_protocol.reconciling import Reconciling
from actors.client.group.consumer_protocol.rhythm import Rhythm
from actors.client.group.consumer_protocol.standing import Happening, MemberState, Standing
from actors.client.group.consumer_protocol.takeover import Takeover
from actors.client.group.consumer_protocol.wishes import Wishes
from actors.client.group.effects import Action, CommitOutcome, Effect, Event, Fail, RunListener
from actors.client.group.generation import Generation
from actors.client.group.holdings import Holdings
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.outbox import Lookup, Outbox, Pending
from actors.client.group.stats import Stats
from actors.client.net.backoff import Backoff, Jitter
from actors.client.net.metadata import MetadataView
from actors.client.records import GroupMembershipOperation as Parting
from actors.client.records import Node, TopicPartition
from actors.client.settings import ConsumerConfig
from actors.wire.messages import (
    ApiMessage,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    FindCoordinatorResponse,
)


class Membership:
    """See the module's first lines. `stats` counts what happened, `lookup` has the coordinator.

    Its methods are many because users, shells and the network each have some.
    """

    def __init__(self, config: MemberConfig, member_id: str, jitter: Jitter = lambda: 1.0) -> None:
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, jitter)
        self.config = config
        self.stats = Stats()
        self.standing = Standing(member_id)
        self.lookup = CoordinatorLookup(config.group_id, backoff)
        self.rhythm = Rhythm(config.max_poll_interval_ms, backoff, config.heartbeat_max_ms)
        self.assignments = Assignments()
        self._outbox = Outbox(self.lookup, lambda: self.standing.generation, ROUTES, config.request_timeout_ms)
        self._holdings = Holdings(exclude_internal=config.exclude_internal_topics)
        self._wishes = Wishes(self._holdings)
        self._handover = Handover(
            self._holdings, auto_commit=config.auto_commit, patience_ms=config.max_poll_interval_ms
        )
        self._fencing = Fencing(self.standing, self._holdings, joins_anew=config.joins_anew)
        self._reconciling = Reconciling(
            self.standing, self.assignments, self._handover, self._outbox, self.stats, backoff
        )
        beats = Beats(config)
        self._endings = Endings(
            config,
            self.standing,
            self.lookup,
            self._outbox,
            self._holdings,
            self.assignments,
            beats,
            self._handover,
            self.rhythm,
            self.stats,
        )
        self._heartbeats = Heartbeats(
            config,
            self.standing,
            self.lookup,
            self._outbox,
            self.assignments,
            beats,
            self._reconciling,
            self._endings,
            self._wishes,
            self.rhythm,
            Takeover(config, self._outbox, beats),
            self.stats,
        )

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
    def coordinator(self) -> Node | None:
        return self.lookup.coordinator

    @property
    def subscribed(self) -> bool:
        return self._holdings.subscribed

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to; with an expression of the coordinator's, those that it has led to."""
        return self._wishes.topics

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that the group has given this member."""
        return self._holdings.owned

    @property
    def wants_all_topics(self) -> bool:
        return self._wishes.wants_all_topics

    @property
    def watched_topics(self) -> frozenset[str]:
        return self._wishes.topics

    def may_deliver(self, now_ms: int) -> bool:
        """True if records may be handed out: always without a subscription, else while no other can own them."""
        if not self._holdings.subscribed:
            return True
        return self.standing.holding and now_ms < self.rhythm.deliver_until_ms

    def awaits_poll(self, now_ms: int) -> bool:
        """True if the next poll would take the group a step further: by a join, the listener, or an assignment."""
        if not self._holdings.subscribed:
            return False
        outside = self.state in (MemberState.UNSUBSCRIBED, MemberState.STALE)
        return outside or self._handover.waiting or self._reconciling.due

    def user_deadline(self) -> int | None:
        """The time (monotonic ms) at which `next_action` may change though nothing arrives; None: never."""
        if not self._holdings.subscribed or self._handover.waiting:
            return None
        if self.coordinator is None:
            return self.lookup.next_ms
        return self._reconciling.look_again_ms if self.state is MemberState.RECONCILING else None

    def pending(self) -> dict[int, Pending]:
        """The requests in flight, by id."""
        return self._outbox.pending()

    @property
    def asks_coordinator(self) -> bool:
        return self._outbox.asks_coordinator

    @property
    def awaits_others(self) -> bool:
        """Never: the coordinator answers heartbeats at once."""
        return False

    # --- the user's intents ---------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """From the next poll on, this member wants these topics. A member says so in its next heartbeat."""
        self._wishes.names(topics)
        self._outbox.want_metadata()

    def subscribe_pattern(self, matches: Callable[[str], bool]) -> None:
        """From the next poll on, this member wants every topic `matches` says yes to."""
        self._wishes.pattern(matches)
        self._outbox.want_metadata()

    def subscribe_expression(self, expression: str) -> None:
        """From the next poll on, this member wants the topics that the coordinator finds by this expression (RE2)."""
        self._wishes.expression(expression)
        self._outbox.want_metadata()

    def request_rejoin(self, reason: str) -> None:
        """Do nothing: a member of this protocol cannot ask for a rebalance."""

    def poll(self, now_ms: int) -> None:
        """The user polls. It counts even when nothing else can be done, so that a broker's outage expels nobody."""
        self.rhythm.last_poll_ms = now_ms

    def farewell(self) -> list[Action]:
        """The last actions of the user's thread before `unsubscribe`: its listener hears of everything it gives up."""
        owned, held = self._holdings.owned, self.standing.holding
        self._endings.prepare()
        self._handover.clear()
        if not self._holdings.subscribed or not owned:
            return []
        return [RunListener(Event.REVOKED if held else Event.LOST, tuple(sorted(owned)))]

    def unsubscribe(self, now_ms: int, reason: str, parting: Parting = Parting.DEFAULT) -> None:
        """Leave the group, and want nothing any more. One attempt: the answer does not matter."""
        self._endings.leave(now_ms, parting)
        self._wishes.nothing()
        self._handover.clear()

    # --- what happens to it ---------------------------------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        """The effects that the shell has to carry out since the last call, in order."""
        return self._outbox.take_effects()

    def on_response(self, request_id: int, response: ApiMessage, now_ms: int) -> None:
        """The answer to the `Send` with this id. Answers to what was given up meanwhile change nothing."""
        match self._outbox.ended(request_id), response:
            case Pending(kind=Lookup.COORDINATOR), FindCoordinatorResponse():
                if not self.lookup.answered(response, now_ms):
                    self._outbox.want_metadata()
            case Pending() as pending, ConsumerGroupHeartbeatResponse() if pending.kind in BEATS:
                self._heartbeats.answered(pending, response, now_ms)
            case Pending(kind=Kind.LOOK), ConsumerGroupDescribeResponse():
                self._heartbeats.looked(response, now_ms)
        self._heartbeats.beat_if_due(now_ms)

    def on_failure(self, request_id: int, error: KafkaError, now_ms: int) -> None:
        """No answer came: the connection was lost, time ran out, or the broker serves no version that will do."""
        pending = self._outbox.ended(request_id)
        if pending is None:
            return
        if pending.kind is Lookup.COORDINATOR:
            self.lookup.failed(error, now_ms)
            self._outbox.want_metadata()
            return
        if error.retriable:
            self._outbox.coordinator_lost(pending.node, now_ms, drop=True)
        if pending.kind in BEATS:
            self._heartbeats.unanswered(error, now_ms)
        elif pending.kind is Kind.LOOK:
            self._heartbeats.look_failed(error, now_ms)
        else:
            self._heartbeats.goodbye_lost()
        self._heartbeats.beat_if_due(now_ms)

    def on_metadata(self, view: MetadataView, now_ms: int) -> None:
        """Metadata was refreshed."""
        self._reconciling.view = view
        self._wishes.match(view)
        self._heartbeats.beat_if_due(now_ms)

    def find_coordinator(self, now_ms: int) -> None:
        """Look for the coordinator unless it is known, being looked for, or not to be looked for yet."""
        self._outbox.find_coordinator(now_ms)

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        """Forget the coordinator if it is `node`; if another has replaced it already, nothing changes."""
        self._outbox.coordinator_lost(node, now_ms, drop=drop)

    def fail(self, error: BaseException, now_ms: int) -> None:
        """The background thread failed: the next action is to raise this."""
        self._heartbeats.lost(error, now_ms)

    def on_time(self, now_ms: int) -> None:
        """Do what is due: look for the coordinator, leave after too long without a poll, heartbeat."""
        self._heartbeats.on_time(now_ms)

    def next_deadline(self) -> int | None:
        """The time to call `on_time` next; None while heartbeats are off."""
        return self._heartbeats.next_deadline()

    # --- commits --------------------------------------------------------------------------------------------------

    @property
    def commits_from(self) -> int:
        return COMMITS_FROM

    def commits_as(self, now_ms: int) -> Generation:
        """The place that a commit is made in. Raises CommitFailedError if the membership has ended."""
        return self._fencing.commits_as()

    def sends_as(self, made: Generation) -> Generation:
        """The place that a commit made in `made` is sent in: the newest of the same membership."""
        return self._fencing.sends_as(made)

    def fetches_as(self) -> Generation:
        """The place that committed offsets are asked for in."""
        return self._fencing.fetches_as()

    def commit_refused(self, code: int, made: Generation, where: str) -> KafkaError | None:
        """The error to raise for a refused commit; None if it is not about membership, of which a heartbeat tells."""
        error = self._fencing.refused(code, where)
        if error is not None:
            self.rhythm.hurry()
        return error

    # --- the user's thread ----------------------------------------------------------------------------------------

    def next_action(self, now_ms: int) -> Action | None:
        """The next action of the user's thread; None when it can only wait or read records."""
        if (error := self._take_error()) is not None:
            return Fail(error)
        if not self._holdings.subscribed:
            return None
        if not self._handover.waiting:
            self._advance(now_ms)
        if self._handover.waiting:
            return self._handover.first()
        # At each poll: nothing will ever come. Each begins a traceback of its own.
        fatal = self._endings.fatal
        return Fail(fatal.with_traceback(None)) if fatal is not None else None

    def _take_error(self) -> BaseException | None:
        error, self._heartbeats.error = self._heartbeats.error, None
        return error or self._handover.take_error() or self.lookup.take_error()

    def _advance(self, now_ms: int) -> None:
        """A step of the member's own: join, reconcile, beat."""
        if self.state in (MemberState.UNSUBSCRIBED, MemberState.STALE):
            self.standing.happened(Happening.JOIN)
        if self.standing.beating and self.coordinator is None:
            self.find_coordinator(now_ms)
        self._reconciling.step(now_ms)
        self._heartbeats.beat_if_due(now_ms)

    def action_done(
        self,
        action: Action,
        now_ms: int,
        error: BaseException | None = None,
        outcome: CommitOutcome = CommitOutcome.DONE,
    ) -> None:
        """The action that `next_action` gave was carried out, or raised `error`.

        A callback that raises is called again by the next poll, and nothing is acknowledged until it returns.
        """
        received = self._handover.done(action, now_ms, error, outcome)
        if received is not None:
            self._reconciling.taken_over(received, now_ms)
        self._endings.rejoin()
        self._heartbeats.beat_if_due(now_ms)


def consumer_member(config: ConsumerConfig, pid: int, jitter: Jitter, new_member_id: Callable[[], str]) -> Membership:
    """A member of a consumer group, by its consumer's settings."""
    return Membership(member_config(config, pid), new_member_id(), jitter)
