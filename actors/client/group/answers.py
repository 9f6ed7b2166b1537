"""What each answer of the coordinator means to a member: the error tables, one method per request, one line per row.

The base of `membership.Membership`, which decides when to send what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.client.error_codes import error_for
from actors.client.errors import (
    FencedInstanceIdError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaError,
    UnsupportedVersionError,
)
from actors.client.group import member_requests as requests
from actors.client.group.callbacks import wrapped
from actors.client.group.effects import Drop, Effect, Generation, MemberState, Send, To, WantMetadata
from actors.client.group.leader_assignment import Snapshot, divide, group_topics, pack, read_members, snapshot
from actors.client.group.liveness import Liveness
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.member_requests import PROTOCOL_TYPE
from actors.client.group.member_types import Join, Kind, MembershipConfig, Pending, Stats
from actors.client.net.backoff import Backoff, Jitter
from actors.client.net.metadata import MetadataView
from actors.client.records import Node, TopicPartition
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import (
    ApiMessage,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

JOIN_GRACE_MS = 5000


class AnswerTables:
    """State of a member, the requests it makes, and what their answers do to it."""

    def __init__(self, config: MembershipConfig, jitter: Jitter) -> None:
        self.config = config
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.rejoin_needed = True
        self.needs_prepare = True
        self.rejoin_reason = ""
        self.join: Join | None = None
        self.join_not_before_ms = 0
        self.topics: frozenset[str] = frozenset()
        self.joined_topics: frozenset[str] | None = None
        self.owned: frozenset[TopicPartition] = frozenset()
        self.is_leader = False
        self.group_topics: frozenset[str] = frozenset()
        self.assigned_on: Snapshot | None = None
        self.view = MetadataView()
        self._outdated = -1  # a leader divides on metadata newer than this version
        self.stats = Stats()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, jitter)
        self.lookup = CoordinatorLookup(config.group_id, self._backoff)
        self.live = Liveness(
            config.session_timeout_ms, config.heartbeat_interval_ms, config.max_poll_interval_ms, self._backoff
        )
        self._effects: list[Effect] = []
        self._pending: dict[int, Pending] = {}
        self._last_id = 0
        self._join_failures = 0
        self._heartbeat_in_flight = False
        self._aside_in_flight = False
        self._error: BaseException | None = None
        self._tables: dict[Kind, Callable[[Pending, Any, int], None]] = {
            Kind.LOOKUP: self._on_lookup,
            Kind.JOIN: self._on_join,
            Kind.SYNC: self._on_sync,
            Kind.HEARTBEAT: self._on_heartbeat,
            Kind.ASIDE: self._on_aside,
            Kind.LEAVE: self._on_leave,
        }

    @property
    def coordinator(self) -> Node | None:
        return self.lookup.coordinator

    @property
    def rebalancing(self) -> bool:
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def watched_topics(self) -> frozenset[str]:
        """The topics whose metadata this member needs: its own, and as leader the whole group's."""
        waiting = self.join.waiting if self.join else None
        return self.topics | self.group_topics | (_topics_of(waiting) if waiting else frozenset())

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    # --- requests -------------------------------------------------------------------------------------------------

    def _send(self, kind: Kind, request: ApiMessage, now_ms: int, **options: Any) -> int:
        self._last_id += 1
        node = None if kind is Kind.LOOKUP else self.coordinator
        self._pending[self._last_id] = Pending(kind, self.generation, node, now_ms)
        to = {Kind.LOOKUP: To.ANY, Kind.ASIDE: To.ASIDE}.get(kind, To.COORDINATOR)
        options.setdefault("timeout_ms", self.config.request_timeout_ms)
        self._effects.append(Send(self._last_id, to, node, request, **options))
        return self._last_id

    def _to_coordinator(self, kind: Kind, request: ApiMessage, now_ms: int, **options: Any) -> None:
        if self.config.group_instance_id is not None:
            # A broker that cannot be told the instance id would take us for a dynamic member.
            options.setdefault("min_version", 5 if kind is Kind.JOIN else 3)
        self._send(kind, request, now_ms, **options)

    def find_coordinator(self, now_ms: int) -> None:
        """Look for the coordinator unless it is known, being looked for, or not to be looked for yet."""
        if self.lookup.due(now_ms):
            self.lookup.in_flight = self._send(Kind.LOOKUP, self.lookup.request(), now_ms)

    def _send_join(self, now_ms: int) -> None:
        config = self.config
        try:
            protocols = [
                requests.offer(config, assignor, self.generation, self.topics, self.owned)
                for assignor in config.assignors
            ]
        except Exception as error:
            self._join_failed(now_ms, error=wrapped(error, "the user data of an assignor"))
            return
        if self.stats.rebalance_started_ms is None:
            self.stats.rebalance_started_ms = now_ms
        self.stats.joins_sent += 1
        self.join = Join()
        self.state = MemberState.PREPARING_REBALANCE
        self.joined_topics = self.topics
        request = requests.join(config, self.generation, protocols, self.rejoin_reason)
        timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_GRACE_MS)
        self._to_coordinator(Kind.JOIN, request, now_ms, timeout_ms=timeout_ms)

    def _send_sync(self, assignments: list[SyncGroupRequest.SyncGroupRequestAssignment], now_ms: int) -> None:
        self._to_coordinator(Kind.SYNC, requests.sync(self.config, self.generation, assignments), now_ms)

    def leave(self, now_ms: int, reason: str) -> None:
        """Leave the group: dynamic members say so, static ones only stop. One attempt; the state is reset anyway."""
        member_id = self.generation.member_id
        dynamic = self.config.group_instance_id is None
        if dynamic and self.coordinator and self.state is not MemberState.UNJOINED and member_id:
            self._to_coordinator(Kind.LEAVE, requests.leave(self.config, self.generation, reason), now_ms)
        self._abandon_join()
        self._reset(keep_member_id=False)

    # --- changes several answers share ----------------------------------------------------------------------------

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll; the coordinator is told why (KIP-800)."""
        if not self.rejoin_needed:
            self.rejoin_reason = reason
        self.rejoin_needed = True

    def _abandon_join(self) -> None:
        """Whatever a join in flight is answered, it is no longer ours."""
        self.join = None
        joining = (Kind.JOIN, Kind.SYNC)
        self._pending = {n: pending for n, pending in self._pending.items() if pending.kind not in joining}

    def _reset(self, *, keep_member_id: bool) -> None:
        self.state = MemberState.UNJOINED
        self.generation = Generation(member_id=self.generation.member_id if keep_member_id else "")
        self.rejoin_needed = True
        self.needs_prepare = True
        self.live.ended()

    def expelled(self, *, keep_member_id: bool) -> None:
        """A commit was answered that this member is out."""
        self._reset(keep_member_id=keep_member_id)

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        """This coordinator is not it any more. News of one already replaced says nothing."""
        if node is None or node != self.coordinator:
            return
        self.lookup.lost(now_ms)
        if drop:
            self._effects.append(Drop(node))

    def _join_failed(self, now_ms: int, *, at_once: bool = False, error: BaseException | None = None) -> None:
        self.join = None
        self.stats.rebalances_failed += 1
        self.request_rejoin("the last join failed")
        if at_once:
            self.join_not_before_ms = now_ms
            return
        self._join_failures += 1
        self.join_not_before_ms = now_ms + self._backoff.delay_ms(self._join_failures)
        self._error = error

    # --- FindCoordinator ------------------------------------------------------------------------------------------

    def _on_lookup(self, pending: Pending, response: FindCoordinatorResponse, now_ms: int) -> None:
        if self.lookup.answered(response, now_ms):
            self.live.coordinator_found(now_ms)
        else:
            self._effects.append(WantMetadata())

    # --- JoinGroup ------------------------------------------------------------------------------------------------

    def _on_join(self, pending: Pending, response: JoinGroupResponse, now_ms: int) -> None:
        if self.join is None or self.state is not MemberState.PREPARING_REBALANCE:
            if self.join is not None:
                self._join_failed(now_ms, at_once=True)
            return
        unchanged = pending.generation == self.generation
        match response.error_code:
            case Code.NONE:
                self.stats.times.join.record(now_ms - pending.sent_ms, now_ms)
                self._joined(response, now_ms)
            case Code.COORDINATOR_LOAD_IN_PROGRESS:
                self._join_failed(now_ms)
            case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
                self.coordinator_lost(pending.node, now_ms, drop=True)
                self._join_failed(now_ms)
            case Code.UNKNOWN_MEMBER_ID:
                self._join_failed(now_ms, at_once=True)
                if unchanged:
                    self._reset(keep_member_id=False)
            case Code.MEMBER_ID_REQUIRED:
                self.generation = Generation(member_id=response.member_id)
                self.join = None
                # At once and not at the next poll: a coordinator holds a place for an id it gave out.
                if self.coordinator is not None:
                    self._send_join(now_ms)
            case Code.REBALANCE_IN_PROGRESS:
                self._join_failed(now_ms, at_once=True)
            case code:
                self._join_failed(now_ms, error=self._join_error(code))

    def _join_error(self, code: int, detail: str | None = None) -> KafkaError:
        config = self.config
        context = f"joining group {config.group_id}"
        if code == Code.UNSUPPORTED_VERSION and config.group_instance_id is not None:
            context += " (this broker has no static members: unset group_instance_id)"
        if code == Code.INVALID_SESSION_TIMEOUT:
            context += f" with session_timeout_ms={config.session_timeout_ms}"
        if code == Code.FENCED_INSTANCE_ID:
            context += f" with group_instance_id={config.group_instance_id!r}"
        return error_for(code, context, detail)

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        if response.protocol_type not in (None, "", PROTOCOL_TYPE):
            kind = response.protocol_type
            error = InconsistentGroupProtocolError(f"group {self.config.group_id} is of type {kind!r}, not consumer")
            self._join_failed(now_ms, error=error)
            return
        self.lookup.alive()
        self._join_failures = 0
        self.state = MemberState.COMPLETING_REBALANCE
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        self.live.joined(now_ms)
        self.is_leader = response.leader == response.member_id
        try:
            self.config.assignor(response.protocol_name)
        except IllegalStateError as error:
            self._join_failed(now_ms, error=error)
            return
        if self.is_leader:
            self._lead(response, now_ms)
        else:
            self.assigned_on = None
            self.group_topics = frozenset()
            self._send_sync([], now_ms)

    def _lead(self, response: JoinGroupResponse, now_ms: int) -> None:
        """Divide as soon as the metadata of all the group's topics is there."""
        assert self.join is not None
        first, self.join.waiting = self.join.waiting is None, response
        try:
            members = read_members(response.members)
            topics = group_topics(members) | self.topics
            if first and not topics <= self.topics:
                # Nobody has told us of changes to what only others want (Kafka asks anew each time, too).
                self._outdated = self.view.version
            if self.view.version <= self._outdated or not self.view.covers(topics):
                self._effects.append(WantMetadata())
                return
            assignor = self.config.assignor(response.protocol_name)
            given = {} if response.skip_assignment else divide(assignor, self.config.protocol, members, self.view)
        except Exception as error:
            # Whatever an assignor raises belongs to the user, not to the thread that ran it.
            doing = f"dividing partitions with the assignor {response.protocol_name!r}"
            self._join_failed(now_ms, error=wrapped(error, doing))
            return
        self.join.waiting = None
        self.group_topics = topics | {tp.topic for partitions in given.values() for tp in partitions}
        self.assigned_on = snapshot(self.view, self.group_topics, self.config.client_rack)
        self._send_sync(pack(given), now_ms)

    # --- SyncGroup ------------------------------------------------------------------------------------------------

    def _on_sync(self, pending: Pending, response: SyncGroupResponse, now_ms: int) -> None:
        if self.join is None:
            return
        unchanged = pending.generation == self.generation
        match response.error_code:
            case Code.NONE:
                self._synced(pending, response, now_ms)
            case Code.REBALANCE_IN_PROGRESS:
                self._join_failed(now_ms, at_once=True)
            case Code.COORDINATOR_LOAD_IN_PROGRESS:
                self._join_failed(now_ms)
            case Code.ILLEGAL_GENERATION | Code.UNKNOWN_MEMBER_ID as code:
                self._join_failed(now_ms, at_once=True)
                if unchanged:
                    self._reset(keep_member_id=code == Code.ILLEGAL_GENERATION)
            case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
                self.coordinator_lost(pending.node, now_ms, drop=True)
                self._join_failed(now_ms)
            case code:
                error = error_for(code, f"syncing with group {self.config.group_id}")
                self._join_failed(now_ms, error=error)

    def _synced(self, pending: Pending, response: SyncGroupResponse, now_ms: int) -> None:
        assert self.join is not None
        if response.protocol_type not in (None, "", PROTOCOL_TYPE) or response.protocol_name not in (
            None,
            "",
            self.generation.protocol,
        ):
            error = InconsistentGroupProtocolError(
                f"SyncGroup was answered for {response.protocol_type}/{response.protocol_name}, "
                f"not {PROTOCOL_TYPE}/{self.generation.protocol}"
            )
            self._join_failed(now_ms, error=error)
        elif self.state is not MemberState.COMPLETING_REBALANCE or self.generation.id < 0:
            self._join_failed(now_ms, at_once=True)
            self._reset(keep_member_id=True)
        else:
            self.state = MemberState.STABLE
            self.rejoin_needed = False
            self.rejoin_reason = ""
            self.join.assignment = response.assignment
            self.live.confirmed(pending.sent_ms, now_ms)
            self.stats.times.sync.record(now_ms - pending.sent_ms, now_ms)
            self.stats.rebalanced(now_ms)

    # --- Heartbeat ------------------------------------------------------------------------------------------------

    def _on_heartbeat(self, pending: Pending, response: HeartbeatResponse, now_ms: int) -> None:
        self._heartbeat_in_flight = False
        self.stats.times.heartbeat.record(now_ms - pending.sent_ms, now_ms)
        unchanged = pending.generation == self.generation
        match response.error_code:
            case Code.NONE:
                self._heartbeat_counts(pending, now_ms)
            case Code.REBALANCE_IN_PROGRESS:
                if self.state is MemberState.STABLE:
                    self._heartbeat_counts(pending, now_ms)
                    self.request_rejoin("the group is rebalancing")
            case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
                self._heartbeat_failed(now_ms)
                self.coordinator_lost(pending.node, now_ms, drop=True)
            case Code.ILLEGAL_GENERATION | Code.UNKNOWN_MEMBER_ID as code:
                if unchanged:
                    self._reset(keep_member_id=code == Code.ILLEGAL_GENERATION)
            case Code.FENCED_INSTANCE_ID:
                if unchanged:
                    self._reset(keep_member_id=False)
                    name = self.config.group_instance_id
                    self._error = FencedInstanceIdError(f"{FencedInstanceIdError.hint} (it is {name!r})")
            case _:
                self._heartbeat_failed(now_ms)

    def _heartbeat_counts(self, pending: Pending, now_ms: int) -> None:
        self.lookup.alive()
        if pending.generation == self.generation:
            self.live.confirmed(pending.sent_ms, now_ms)

    def _heartbeat_failed(self, now_ms: int) -> None:
        self.stats.heartbeats_failed += 1
        self.live.heartbeat_failed(now_ms)

    def _on_aside(self, pending: Pending, response: HeartbeatResponse, now_ms: int) -> None:
        """Whether the session of a member that waits for its JoinGroup goes on. All else that one's answer tells."""
        self._aside_in_flight = False
        counted = response.error_code in (Code.NONE, Code.REBALANCE_IN_PROGRESS)
        if counted and pending.generation == self.generation:
            self.live.counted_in(pending.sent_ms)

    # --- LeaveGroup, and no answer at all ---------------------------------------------------------------------------

    def _on_leave(self, pending: Pending, response: ApiMessage, now_ms: int) -> None:
        """Whatever it says: we are gone."""

    def _unanswered(self, pending: Pending, error: KafkaError, now_ms: int) -> None:
        if pending.kind is Kind.LOOKUP:
            self.lookup.failed(error, now_ms)
            self._effects.append(WantMetadata())
            return
        heartbeat = pending.kind in (Kind.HEARTBEAT, Kind.ASIDE)
        if heartbeat and not error.retriable and pending.generation == self.generation:
            # It could not be sent or its answer not be read, and the next one would fare no better.
            self._error = self._error or error
        if pending.kind is Kind.ASIDE:
            self._aside_in_flight = False
            return
        if error.retriable:
            self.coordinator_lost(pending.node, now_ms, drop=True)
        if pending.kind is Kind.HEARTBEAT:
            self._heartbeat_in_flight = False
            self._heartbeat_failed(now_ms)
        elif pending.kind in (Kind.JOIN, Kind.SYNC) and self.join is not None:
            if isinstance(error, UnsupportedVersionError):
                error = self._join_error(Code.UNSUPPORTED_VERSION, str(error))
            self._join_failed(now_ms, error=None if error.retriable else error)


def _topics_of(response: JoinGroupResponse) -> frozenset[str]:
    return group_topics(read_members(response.members))
