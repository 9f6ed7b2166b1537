"""The meanings of the coordinator's answers to a member: a table of error codes in a method for each request.

The member's parts do what follows from an answer; `joining` has the rounds of joining.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from actors.client.error_codes import error_for
from actors.client.errors import FencedInstanceIdError, KafkaError, UnsupportedVersionError
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.joining import Joining
from actors.client.group.classic.round import Kind
from actors.client.group.classic.standing import MemberState, Standing
from actors.client.group.liveness import Liveness
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.outbox import Lookup, Outbox, Pending
from actors.client.group.stats import Stats
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import (
    ApiMessage,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupResponse,
)

_ELSEWHERE = (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


class Answers:
    """`tables` has, for each kind of request, the method that takes its answer: `(pending, response, now_ms)`."""

    def __init__(
        self,
        config: MembershipConfig,
        standing: Standing,
        lookup: CoordinatorLookup,
        outbox: Outbox,
        joining: Joining,
        live: Liveness,
        stats: Stats,
    ) -> None:
        self._config = config
        self._standing = standing
        self._lookup = lookup
        self._outbox = outbox
        self._joining = joining
        self._live = live
        self._stats = stats
        self.tables: dict[Enum, Callable[[Pending, Any, int], None]] = {
            Lookup.COORDINATOR: self._on_lookup,
            Kind.JOIN: self._on_join,
            Kind.SYNC: self._on_sync,
            Kind.HEARTBEAT: self._on_heartbeat,
            Kind.ASIDE: self._on_aside,
            Kind.LEAVE: self._on_leave,
            Kind.DESCRIBE: self._on_describe,
        }

    # --- FindCoordinator ------------------------------------------------------------------------------------------

    def _on_lookup(self, pending: Pending, response: FindCoordinatorResponse, now_ms: int) -> None:
        if self._lookup.answered(response, now_ms):
            self._live.coordinator_found(now_ms)
        else:
            self._outbox.want_metadata()

    # --- JoinGroup ------------------------------------------------------------------------------------------------

    def _on_join(self, pending: Pending, response: JoinGroupResponse, now_ms: int) -> None:
        joining = self._joining
        if joining.join is None or self._standing.state is not MemberState.PREPARING_REBALANCE:
            if joining.join is not None:
                joining.failed(now_ms, at_once=True)
            return
        unchanged = pending.generation == self._standing.generation
        match response.error_code:
            case Code.NONE:
                self._stats.times.join.record(now_ms - pending.sent_ms, now_ms)
                joining.joined(response, now_ms)
            case Code.COORDINATOR_LOAD_IN_PROGRESS:
                joining.failed(now_ms)
            case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
                self._outbox.coordinator_lost(pending.node, now_ms, drop=True)
                joining.failed(now_ms)
            case Code.UNKNOWN_MEMBER_ID:
                joining.failed(now_ms, at_once=True)
                if unchanged:
                    joining.out(keep_member_id=False)
            case Code.MEMBER_ID_REQUIRED:
                joining.id_given(response.member_id, now_ms)
            case Code.REBALANCE_IN_PROGRESS:
                joining.failed(now_ms, at_once=True)
            case code:
                joining.failed(now_ms, error=joining.error_for(code))

    # --- SyncGroup ------------------------------------------------------------------------------------------------

    def _on_sync(self, pending: Pending, response: SyncGroupResponse, now_ms: int) -> None:
        joining = self._joining
        if joining.join is None:
            return
        unchanged = pending.generation == self._standing.generation
        match response.error_code:
            case Code.NONE:
                joining.synced(pending, response, now_ms)
            case Code.REBALANCE_IN_PROGRESS:
                joining.failed(now_ms, at_once=True)
            case Code.COORDINATOR_LOAD_IN_PROGRESS:
                joining.failed(now_ms)
            case Code.ILLEGAL_GENERATION | Code.UNKNOWN_MEMBER_ID as code:
                joining.failed(now_ms, at_once=True)
                if unchanged:
                    joining.out(keep_member_id=code == Code.ILLEGAL_GENERATION)
            case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
                self._outbox.coordinator_lost(pending.node, now_ms, drop=True)
                joining.failed(now_ms)
            case code:
                joining.failed(now_ms, error=error_for(code, f"syncing with group {self._config.group_id}"))

    # --- Heartbeat ------------------------------------------------------------------------------------------------

    def _on_heartbeat(self, pending: Pending, response: HeartbeatResponse, now_ms: int) -> None:
        self._stats.times.heartbeat.record(now_ms - pending.sent_ms, now_ms)
        unchanged = pending.generation == self._standing.generation
        match response.error_code:
            case Code.NONE:
                self._heartbeat_counts(pending, now_ms)
            case Code.REBALANCE_IN_PROGRESS:
                if self._standing.state is MemberState.STABLE:
                    self._heartbeat_counts(pending, now_ms)
                    self._joining.request("the group is rebalancing")
            case Code.COORDINATOR_NOT_AVAILABLE | Code.NOT_COORDINATOR:
                self._heartbeat_failed(now_ms)
                self._outbox.coordinator_lost(pending.node, now_ms, drop=True)
            case Code.ILLEGAL_GENERATION | Code.UNKNOWN_MEMBER_ID as code:
                if unchanged:
                    self._joining.out(keep_member_id=code == Code.ILLEGAL_GENERATION)
            case Code.FENCED_INSTANCE_ID:
                if unchanged:
                    self._joining.out(keep_member_id=False)
                    name = self._config.group_instance_id
                    self._joining.error = FencedInstanceIdError(
                        f"{FencedInstanceIdError.hint} (group_instance_id={name!r})"
                    )
            case code:
                self._heartbeat_failed(now_ms)
                if code == Code.GROUP_AUTHORIZATION_FAILED:
                    what = f"heartbeat of group {self._config.group_id}"
                    self._joining.error = self._joining.error or error_for(code, what)

    def _heartbeat_counts(self, pending: Pending, now_ms: int) -> None:
        self._lookup.alive()
        if pending.generation == self._standing.generation:
            self._live.confirmed(pending.sent_ms, now_ms)
            self._joining.describe_again(now_ms)

    def _heartbeat_failed(self, now_ms: int) -> None:
        self._stats.heartbeats_failed += 1
        self._live.heartbeat_failed(now_ms)

    def _on_aside(self, pending: Pending, response: HeartbeatResponse, now_ms: int) -> None:
        """A heartbeat beside a JoinGroup is answered. It extends the session; JoinGroup's answer says the rest.

        Once JoinGroup has failed, the next one says it, if it finds the coordinator. But a member that was expelled may
        deliver nothing until then.
        """
        if self._joining.join is None and response.error_code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
            self._on_heartbeat(pending, response, now_ms)
            return
        counted = response.error_code in (Code.NONE, Code.REBALANCE_IN_PROGRESS)
        if counted and pending.generation == self._standing.generation:
            self._live.counted_in(pending.sent_ms)
        elif response.error_code in (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR):
            self._aside_failed(pending, now_ms)

    def _aside_failed(self, pending: Pending, now_ms: int) -> None:
        if self._joining.join is None:
            self._outbox.coordinator_lost(pending.node, now_ms, drop=True)

    # --- DescribeGroups -------------------------------------------------------------------------------------------

    def _on_describe(self, pending: Pending, response: DescribeGroupsResponse, now_ms: int) -> None:
        codes = {group.error_code for group in response.groups}
        if codes.intersection(_ELSEWHERE):
            self._outbox.coordinator_lost(pending.node, now_ms, drop=True)
        elif Code.COORDINATOR_LOAD_IN_PROGRESS not in codes and pending.generation == self._standing.generation:
            self._joining.described(response)

    # --- LeaveGroup, and no answer at all ---------------------------------------------------------------------------

    def _on_leave(self, pending: Pending, response: ApiMessage, now_ms: int) -> None:
        """Do nothing: whatever the answer, the member has left."""

    def unanswered(self, pending: Pending, error: KafkaError, now_ms: int) -> None:
        """No answer came: the connection was lost, time ran out, or the broker serves no version that will do."""
        joining = self._joining
        if pending.kind is Lookup.COORDINATOR:
            self._lookup.failed(error, now_ms)
            self._outbox.want_metadata()
            return
        heartbeat = pending.kind in (Kind.HEARTBEAT, Kind.ASIDE)
        if heartbeat and not error.retriable and pending.generation == self._standing.generation:
            # It could not be sent, or its answer could not be read: the next one would fare no better.
            joining.error = joining.error or error
        if pending.kind is Kind.ASIDE:
            if error.retriable:
                self._aside_failed(pending, now_ms)
            return
        if error.retriable:
            self._outbox.coordinator_lost(pending.node, now_ms, drop=True)
        if pending.kind is Kind.HEARTBEAT:
            self._heartbeat_failed(now_ms)
        elif pending.kind is Kind.DESCRIBE and pending.generation == self._standing.generation and not error.retriable:
            joining.described(None)
        elif pending.kind in (Kind.JOIN, Kind.SYNC) and joining.join is not None:
            if isinstance(error, UnsupportedVersionError):
                error = joining.error_for(Code.UNSUPPORTED_VERSION, str(error))
            joining.failed(now_ms, error=None if error.retriable else error)
