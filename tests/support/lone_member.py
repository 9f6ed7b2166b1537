"""A member that gives itself its partitions: the smallest group protocol there can be beside the classic one.

It has the shape of KIP-848: no leader, no rounds; a heartbeat says what it owns, and the answer to one may come with
another assignment. Here it is the member itself that thinks of the assignment, `target`. Its epoch grows with each.
Holds no tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from actors.client.errors import CommitFailedError, IllegalStateError, KafkaError, StaleMemberEpochError
from actors.client.group.actions import ActionQueue
from actors.client.group.effects import Action, CommitFirst, CommitOutcome, Effect, Event, Fail, RunListener
from actors.client.group.generation import Generation
from actors.client.group.holdings import Holdings
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.member import MakeMember
from actors.client.group.outbox import Outbox, Pending, Route
from actors.client.group.protocols import PROTOCOLS
from actors.client.group.stats import Stats
from actors.client.net.backoff import Backoff
from actors.client.net.metadata import MetadataView
from actors.client.records import GroupMembershipOperation as Parting
from actors.client.records import Node, TopicPartition
from actors.client.settings import ConsumerConfig
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import ApiMessage, HeartbeatRequest

Partitions = frozenset[TopicPartition]


class State(Enum):
    UNSUBSCRIBED = "UNSUBSCRIBED"
    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    STABLE = "STABLE"


class Kind(Enum):
    BEAT = "Heartbeat"
    LEAVE = "Heartbeat that leaves"


class LoneMember:
    """`target` is what it shall own; None: all partitions of its topics."""

    def __init__(self, config: ConsumerConfig, jitter: Callable[[], float]) -> None:
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, jitter)
        self.group_id: str = config.group_id or ""
        self.instance_id: str | None = config.group_instance_id
        self.target: Partitions | None = None
        self.stats = Stats()
        self.generation = Generation()
        self.lookup = CoordinatorLookup(self.group_id, backoff)
        routes = dict.fromkeys(Kind, Route())
        self._outbox = Outbox(self.lookup, lambda: self.generation, routes, config.request_timeout_ms)
        self._holdings = Holdings(exclude_internal=config.exclude_internal_topics)
        self._actions = ActionQueue(self._holdings)
        self._interval_ms: int = config.heartbeat_interval_ms
        self._commits: bool = config.enable_auto_commit
        self._view = MetadataView()
        self._received: Partitions | None = None
        self._beat_due_ms = 0
        self._error: BaseException | None = None

    # --- where it stands

    @property
    def state(self) -> State:
        if not self.subscribed:
            return State.UNSUBSCRIBED
        if self.generation.id <= 0:
            return State.JOINING
        return State.RECONCILING if self._received is not None or self._actions else State.STABLE

    @property
    def coordinator(self) -> Node | None:
        return self.lookup.coordinator

    @property
    def subscribed(self) -> bool:
        return self._holdings.subscribed

    @property
    def topics(self) -> frozenset[str]:
        return self._holdings.topics

    @property
    def owned(self) -> Partitions:
        return self._holdings.owned

    @property
    def wants_all_topics(self) -> bool:
        return self._holdings.by_pattern

    @property
    def watched_topics(self) -> frozenset[str]:
        return self._holdings.topics

    @property
    def asks_coordinator(self) -> bool:
        return self._outbox.asks_coordinator

    def may_deliver(self, now_ms: int) -> bool:
        return not self.subscribed or self.generation.id > 0

    def awaits_poll(self, now_ms: int) -> bool:
        return self._received is not None

    def user_deadline(self) -> int | None:
        return self.lookup.next_ms if self.subscribed else None

    # --- the user's thread

    def subscribe(self, topics: Iterable[str]) -> None:
        self._holdings.subscribe(topics)
        self._outbox.want_metadata()

    def subscribe_pattern(self, matches: Callable[[str], bool]) -> None:
        self._holdings.subscribe_pattern(matches, self._view)
        self._outbox.want_metadata()

    def subscribe_expression(self, expression: str) -> None:
        raise IllegalStateError("nobody else reads it")

    def request_rejoin(self, reason: str) -> None:
        """Nobody can ask this group to rebalance."""

    def poll(self, now_ms: int) -> None:
        """However seldom it is called, nobody else is waiting."""

    def next_action(self, now_ms: int) -> Action | None:
        if (error := self._error or self.lookup.take_error()) is not None:
            self._error = None
            return Fail(error)
        if not self._actions and (error := self._actions.take_error()) is not None:
            return Fail(error)
        if not self.subscribed:
            return None
        self._advance(now_ms)
        return self._actions.first if self._actions else None

    def _advance(self, now_ms: int) -> None:
        if self.coordinator is None:
            self._outbox.find_coordinator(now_ms)
        elif self.generation.id < 0 and self._holdings.topics <= self._view.partitions.keys():
            self.generation = Generation(0, "lone")
            self._beat(now_ms)
        elif self._received is not None and not self._actions:
            self._reconcile(self._received)

    def _reconcile(self, assigned: Partitions) -> None:
        self._received = None
        moves = self.owned - assigned
        if moves and self._commits:
            self._actions.add(CommitFirst(moves))
        self._actions.take_over(assigned)

    def action_done(
        self,
        action: Action,
        now_ms: int,
        error: BaseException | None = None,
        outcome: CommitOutcome = CommitOutcome.DONE,
    ) -> None:
        if isinstance(action, CommitFirst) and outcome is CommitOutcome.LATER:
            return
        if self._actions.done(action, error) and not self._actions:
            self.stats.rebalances += 1
            self._beat(now_ms)  # says what is owned now

    def farewell(self) -> list[Action]:
        return [RunListener(Event.REVOKED, tuple(sorted(self.owned)))] if self.owned else []

    def unsubscribe(self, now_ms: int, reason: str, parting: Parting = Parting.DEFAULT) -> None:
        if self.coordinator is not None and self.generation.id >= 0:
            self.generation = Generation(-1, self.generation.member_id)
            self._outbox.send(Kind.LEAVE, self._heartbeat(), now_ms)
        self.generation = Generation()
        self._received = None
        self._holdings.unsubscribe()
        self._actions.clear()

    def lose(self) -> None:
        """It is expelled: what it owns is lost, and it joins again."""
        self._actions.clear()
        self._received = None
        self.generation = Generation()
        self._actions.release(Event.LOST, self.owned)

    # --- the event loop

    def take_effects(self) -> list[Effect]:
        return self._outbox.take_effects()

    def on_response(self, request_id: int, response: ApiMessage, now_ms: int) -> None:
        match self._outbox.ended(request_id):
            case Pending(kind=Kind.BEAT):
                self.lookup.alive()
                self._take_target()
            case Pending(kind=Kind.LEAVE) | None:
                pass
            case _:
                self.lookup.answered(response, now_ms)  # type: ignore[arg-type]

    def _take_target(self) -> None:
        all_of_them = (TopicPartition(t, n) for t in self.topics for n in range(self._view.partitions.get(t, 0)))
        target = frozenset(all_of_them) if self.target is None else self.target
        first = self.generation.id == 0
        if self.subscribed and not self._actions and (first or target != self.owned):
            self._received = target
            self.generation = Generation(self.generation.id + 1, self.generation.member_id)

    def on_failure(self, request_id: int, error: KafkaError, now_ms: int) -> None:
        pending = self._outbox.ended(request_id)
        if pending is None or pending.node is None:
            self.lookup.failed(error, now_ms)
        else:
            self._outbox.coordinator_lost(pending.node, now_ms, drop=True)

    def on_metadata(self, view: MetadataView, now_ms: int) -> None:
        self._view = view
        self._holdings.match(view)

    def on_time(self, now_ms: int) -> None:
        if self.coordinator is None:
            self._outbox.find_coordinator(now_ms)
        elif self.generation.id > 0 and now_ms >= self._beat_due_ms:
            self._beat(now_ms)

    def next_deadline(self) -> int | None:
        if self.generation.id <= 0:
            return None
        return self.lookup.next_ms if self.coordinator is None else self._beat_due_ms

    def _beat(self, now_ms: int) -> None:
        self.stats.heartbeats += 1
        self._beat_due_ms = now_ms + self._interval_ms
        self._outbox.send(Kind.BEAT, self._heartbeat(), now_ms)

    def _heartbeat(self) -> HeartbeatRequest:
        here = self.generation
        return HeartbeatRequest(group_id=self.group_id, generation_id=here.id, member_id=here.member_id)

    def find_coordinator(self, now_ms: int) -> None:
        self._outbox.find_coordinator(now_ms)

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        self._outbox.coordinator_lost(node, now_ms, drop=drop)

    def fail(self, error: BaseException, now_ms: int) -> None:
        self._error = self._error or error

    # --- commits

    @property
    def commits_from(self) -> int:
        return 9

    @property
    def awaits_others(self) -> bool:
        return False

    def commits_as(self, now_ms: int) -> Generation:
        return self.generation

    def sends_as(self, made: Generation) -> Generation:
        return self.generation

    def fetches_as(self) -> Generation:
        return Generation()

    def commit_refused(self, code: int, made: Generation, where: str) -> KafkaError | None:
        if code == Code.STALE_MEMBER_EPOCH:
            return StaleMemberEpochError(f"{where}: {StaleMemberEpochError.hint}")
        if code == Code.UNKNOWN_MEMBER_ID:
            return CommitFailedError(f"{where}: {CommitFailedError.hint}")
        return None


def protocols(made: list[LoneMember]) -> Mapping[str, MakeMember]:
    """The table of protocols with `lone` in it. Members that are made of it are put into the list."""

    def lone_member(
        config: ConsumerConfig, pid: int, jitter: Callable[[], float], new_member_id: Callable[[], str]
    ) -> LoneMember:
        made.append(LoneMember(config, jitter))
        return made[-1]

    return {**PROTOCOLS, "lone": lone_member}
