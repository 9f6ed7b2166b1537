"""SyncGroup, versions 0 to 5: the leader brings the assignments, and each member gets its own."""

from __future__ import annotations

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.member import Member, ParkedSync
from actors.coordinator.classic.messages import SyncGroupRequest, SyncGroupResponse
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.records import GroupPut
from actors.coordinator.classic.states import GroupState
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.turn import Now, Token
from actors.coordinator.writer import Write


class Sync:
    def __init__(self, runtime: GroupRuntime, rebalancer: Rebalancer) -> None:
        self._runtime = runtime
        self._rebalancer = rebalancer

    def entry_error(self, request: SyncGroupRequest) -> Error:
        """The error of a request that no group would take; NONE if there is none."""
        if request.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        return Error.NONE if request.group_id else Error.INVALID_GROUP_ID

    def handle(self, token: Token, request: SyncGroupRequest, now: Now) -> None:
        self._runtime.park(token, request)
        error = self.entry_error(request)
        if not error and self._runtime.visit(self._runtime.groups.get(request.group_id or ""), token, request, now):
            return
        group = self._runtime.find(ClassicGroup, request.group_id or "", Error.UNKNOWN_MEMBER_ID)
        if not error and isinstance(group, ClassicGroup):
            error = self._check(group, request)
        if error or not isinstance(group, ClassicGroup):
            self._runtime.answer(token, SyncGroupResponse(error or Error.UNKNOWN_MEMBER_ID))
        else:
            self._sync(group, group.members[request.member_id], ParkedSync(token, request), now)

    @staticmethod
    def _check(group: ClassicGroup, request: SyncGroupRequest) -> Error:
        member = group.identify(request.member_id, request.group_instance_id, request.generation_id)
        if isinstance(member, Error):
            return member
        given = (request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)
        if any(theirs is not None and ours is not None and theirs != ours for theirs, ours in given):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return Error.REBALANCE_IN_PROGRESS
        return Error.NONE

    def _sync(self, group: ClassicGroup, member: Member, parked: ParkedSync, now: Now) -> None:
        if group.state is GroupState.STABLE:
            group.synced(member)
            self._rebalancer.arm_session(member, now)
            self._runtime.answer(parked.token, _assignment(group, member))
            return
        self._rebalancer.park_sync(group, member, parked, now)
        if member.member_id == group.leader_id and not group.assignment_in_flight:
            self._write_assignment(group, parked.request, now)

    def _write_assignment(self, group: ClassicGroup, request: SyncGroupRequest, now: Now) -> None:
        """Write the leader's assignment. If the leader sends another one meanwhile, that waits for this one."""
        given = dict(request.assignments)
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        record = group.to_record(lambda m: assignments[m.member_id])
        group.begin_assignment()
        changes = [GroupPut(group.group_id, record)]
        self._runtime.write(AssignmentWrite(self, group, assignments, changes), now)

    def assignment_committed(self, group: ClassicGroup, assignments: dict[str, bytes], now: Now) -> None:
        group.complete_assignment(assignments, now.wall_ms)
        self._runtime.rebalances.complete(group.group_id, now)
        for member in group.members.values():
            if self._rebalancer.answer_sync(member, _assignment(group, member)):
                self._rebalancer.arm_session(member, now)

    def assignment_failed(self, group: ClassicGroup, error: int, now: Now) -> None:
        leader_id = group.leader_id or ""
        self._rebalancer.prepare(group, "assignment could not be written", leader_id, now, error)


def _assignment(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(Error.NONE, group.protocol_type, group.protocol_name, member.assignment)


class AssignmentWrite(Write):
    """The record of a generation's assignment. Its outcome counts only while that generation waits for it."""

    __slots__ = ("_assignments", "_generation", "_group", "_sync")

    def __init__(self, sync: Sync, group: ClassicGroup, assignments: dict[str, bytes], changes: list[GroupPut]) -> None:
        super().__init__([*changes])
        self._sync = sync
        self._group = group
        self._generation = group.generation_id
        self._assignments = assignments

    @property
    def _is_awaited(self) -> bool:
        group = self._group
        return group.state is GroupState.COMPLETING_REBALANCE and group.generation_id == self._generation

    def committed(self, now: Now) -> None:
        if self._is_awaited:
            self._sync.assignment_committed(self._group, self._assignments, now)

    def failed(self, error: int, now: Now) -> None:
        if self._is_awaited:
            self._sync.assignment_failed(self._group, error, now)
