"""Heartbeat, versions 0 to 4, and LeaveGroup, versions 0 to 5."""

from __future__ import annotations

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    leave_response,
)
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.states import GroupState
from actors.coordinator.errors import Error
from actors.coordinator.groups.group import Group
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.turn import Now, Token

HEARTBEAT_OK = HeartbeatResponse(Error.NONE)
_STABLE = GroupState.STABLE  # to look up an enum's member costs more


class Membership:
    def __init__(self, runtime: GroupRuntime, rebalancer: Rebalancer) -> None:
        self._runtime = runtime
        self._rebalancer = rebalancer

    # -- Heartbeat

    def heartbeat(self, token: Token, request: HeartbeatRequest, now: Now) -> None:
        """Answered at once, for a heartbeat makes no record."""
        group_id, generation_id, member_id, group_instance_id = request
        runtime = self._runtime
        group = runtime.groups.get(group_id or "")
        if type(group) is ClassicGroup and group.state is _STABLE and group_instance_id is None:
            member = group.members.get(member_id)
            if member is not None and generation_id == group.generation_id:
                runtime.timers.arm(member.session, now.monotonic_ms + member.session_timeout_ms)
                runtime.replies.append((token, HEARTBEAT_OK))
                return
        if runtime.visit(group, token, request, now):
            return
        error = self._heartbeat(group, request, now) if group_id else Error.INVALID_GROUP_ID
        runtime.replies.append((token, HeartbeatResponse(error)))

    def _heartbeat(self, group: Group | None, request: HeartbeatRequest, now: Now) -> Error:
        if not isinstance(group, ClassicGroup):
            return Error.UNKNOWN_MEMBER_ID
        member = group.identify(request.member_id, request.group_instance_id, request.generation_id)
        if isinstance(member, Error):
            return member
        self._rebalancer.arm_session(member, now)
        preparing = group.state is GroupState.PREPARING_REBALANCE
        return Error.REBALANCE_IN_PROGRESS if preparing else Error.NONE

    # -- LeaveGroup

    def leave(self, token: Token, request: LeaveGroupRequest, now: Now) -> None:
        if not self._runtime.visit(self._runtime.groups.get(request.group_id or ""), token, request, now):
            self._runtime.replies.append((token, self._leave(request, now)))

    def _leave(self, request: LeaveGroupRequest, now: Now) -> LeaveGroupResponse:
        if not request.group_id:
            return LeaveGroupResponse(Error.INVALID_GROUP_ID)
        group = self._runtime.find(ClassicGroup, request.group_id, Error.UNKNOWN_MEMBER_ID)
        if not isinstance(group, ClassicGroup):
            return leave_response(request, (_left(m, Error.UNKNOWN_MEMBER_ID) for m in request.members))
        if group.state is GroupState.DEAD:
            return LeaveGroupResponse(Error.COORDINATOR_NOT_AVAILABLE)
        left = [_left(entry, self._leave_one(group, entry)) for entry in request.members]
        gone = [entry for entry, result in zip(request.members, left, strict=True) if not result.error_code]
        if gone:
            self._look_again(group, gone, now)
        return leave_response(request, left)

    def _look_again(self, group: ClassicGroup, gone: list[LeavingMember], now: Now) -> None:
        """Begin one rebalance for the whole batch."""
        reason = next((entry.reason for entry in gone if entry.reason), "member left")
        who = ",".join(entry.member_id or entry.group_instance_id or "" for entry in gone)
        self._rebalancer.membership_changed(group, reason, who, now)
        self._runtime.reap(group.group_id)

    def _leave_one(self, group: ClassicGroup, entry: LeavingMember) -> Error:
        if not entry.member_id:
            owner = group.roster.by_instance.get(entry.group_instance_id or "")
            if owner is None:
                return Error.UNKNOWN_MEMBER_ID
            self._rebalancer.remove(group, group.members[owner], expelled=False)
            return Error.NONE
        if group.forget_pending(entry.member_id):
            return Error.NONE
        member = group.roster.identify(entry.member_id, entry.group_instance_id)
        if isinstance(member, Error):
            return member
        self._rebalancer.remove(group, member, expelled=False)
        return Error.NONE


def _left(entry: LeavingMember, error: Error) -> LeftMember:
    return LeftMember(entry.member_id, entry.group_instance_id, error)
