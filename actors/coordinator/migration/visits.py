"""Classic requests for consumer groups: each becomes an operation on its group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.coordinator.classic.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from actors.coordinator.consumer.executor import Executor
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.operations import Operation
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.migration.downgrade import Downgrades
from actors.coordinator.migration.join import Join, Means
from actors.coordinator.migration.membership import Heartbeat, Leave, Sync, member_of, must_join
from actors.coordinator.migration.waits import Waits
from actors.coordinator.turn import Now, Token


class Visits:
    """Those of a shard's groups. A request that no group would take was refused before."""

    def __init__(self, runtime: GroupRuntime, executor: Executor, downgrades: Downgrades) -> None:
        self._runtime = runtime
        self._executor = executor
        self._waits = Waits(executor)
        self._means = Means(self._waits, runtime.new_id, downgrades)

    def join(self, token: Token, request: JoinGroupRequest, now: Now) -> None:
        self._submit(
            token,
            request,
            lambda group: Join(token, request, group, self._means),
            Error.COORDINATOR_LOAD_IN_PROGRESS,
            now,
        )

    def sync(self, token: Token, request: SyncGroupRequest, now: Now) -> None:
        self._submit(
            token, request, lambda group: Sync(token, request, group, self._waits), Error.REBALANCE_IN_PROGRESS, now
        )

    def leave(self, token: Token, request: LeaveGroupRequest, now: Now) -> None:
        self._submit(token, request, lambda _: Leave(token, request), Error.COORDINATOR_NOT_AVAILABLE, now)

    def heartbeat(self, token: Token, request: HeartbeatRequest, now: Now) -> None:
        """Most are answered at once: that nothing is new does not depend on what others are about to do."""
        group = self._group(request.group_id)
        state = group.state
        if group.is_stuck:
            self._note_sign_of_life(group, request, now)
        if not group.is_at_rest(now) or state.group_epoch > state.assignment_epoch:
            self._submit(token, request, lambda group: Heartbeat(token, request, group, self._waits), Error.NONE, now)
            return
        member = member_of(state, request)
        if isinstance(member, Error):
            self._runtime.replies.append((token, HeartbeatResponse(member)))
            return
        self._waits.heard(group, request.member_id, member, now)
        is_told = must_join(state, request.member_id)
        if is_told:
            self._waits.told(group, request.member_id, member, now)
        self._runtime.replies.append((token, HeartbeatResponse(Error.REBALANCE_IN_PROGRESS if is_told else Error.NONE)))

    def _note_sign_of_life(self, group: ConsumerGroup, request: HeartbeatRequest, now: Now) -> None:
        """A member is not expelled because nothing commits."""
        member = member_of(group.state, request)
        if not isinstance(member, Error):
            self._waits.heard(group, request.member_id, member, now)

    def _group(self, group_id: str | None) -> ConsumerGroup:
        group = self._runtime.groups[group_id or ""]
        assert isinstance(group, ConsumerGroup)
        return group

    def _submit(
        self,
        token: Token,
        request: Any,
        operation: Callable[[ConsumerGroup], Operation],
        while_loading: Error,
        now: Now,
    ) -> None:
        """Have the group do it. Until topics are known, it is answered as while the shard loads."""
        group = self._group(request.group_id)
        self._runtime.park(token, request)
        if self._executor.cluster.topics is None:
            self._runtime.answer(token, request.refused(while_loading))
        elif group.is_dead or group.is_stuck:
            self._runtime.answer(token, request.refused(Error.COORDINATOR_NOT_AVAILABLE))
        else:
            self._executor.submit(group, operation(group), now)
