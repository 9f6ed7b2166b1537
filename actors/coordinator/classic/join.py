"""JoinGroup, versions 0 to 9.

The group, its size, its state and the protocols are checked first. The further steps depend on the group's state and on
the sender: a client without an id, a pending id, a static member's next incarnation, or a member.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.member import Member, ParkedJoin
from actors.coordinator.classic.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse, join_error
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.records import GroupPut
from actors.coordinator.classic.states import GroupState
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.record_fields import fits
from actors.coordinator.turn import Now, Token
from actors.coordinator.writer import Write

_ID_SUFFIX = "-" + "0" * 36
"""As long as what makes a member id of a client's: a hyphen and a UUID."""


class Join:
    def __init__(self, runtime: GroupRuntime, rebalancer: Rebalancer) -> None:
        self._runtime = runtime
        self._rebalancer = rebalancer

    def entry_error(self, request: JoinGroupRequest) -> Error:
        """The error of a request that no group would take; NONE if there is none."""
        config = self._runtime.config
        if not request.group_id:
            return Error.INVALID_GROUP_ID
        if not (
            config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms
        ):
            return Error.INVALID_SESSION_TIMEOUT
        names = (name for name, _ in request.protocols)
        prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
        if not fits(request.group_id, request.client_id, prefix + _ID_SUFFIX, request.protocol_type, *names):
            return Error.INVALID_REQUEST
        return Error.NONE

    def handle(self, token: Token, request: JoinGroupRequest, now: Now) -> None:
        self._runtime.park(token, request)
        error = self.entry_error(request)
        if error:
            self._refuse(token, request, error)
            return
        group = self._runtime.groups.get(request.group_id or "")
        if group is None:
            self._join_new_group(token, request, now)
        elif isinstance(group, ClassicGroup):
            self._join(group, token, request, now)
        elif not self._runtime.visit(group, token, request, now):
            self._refuse(token, request, Error.INCONSISTENT_GROUP_PROTOCOL)

    def _refuse(self, token: Token, request: JoinGroupRequest, error: Error) -> None:
        self._runtime.answer(token, join_error(request, error))

    def _join_new_group(self, token: Token, request: JoinGroupRequest, now: Now) -> None:
        if request.member_id:
            self._refuse(token, request, Error.UNKNOWN_MEMBER_ID)
            return
        group = ClassicGroup(request.group_id or "", now.wall_ms)
        if not group.supports(request.protocol_type, request.protocols):
            self._refuse(token, request, Error.INCONSISTENT_GROUP_PROTOCOL)
            return
        self._runtime.groups[group.group_id] = group
        record = group.to_record(lambda _: b"")
        self._join(group, token, request, now)
        write = NewGroupWrite(self._runtime, group, [GroupPut(group.group_id, record)])
        self._runtime.write(write, now)

    def _join(self, group: ClassicGroup, token: Token, request: JoinGroupRequest, now: Now) -> None:
        if not group.accepts(request, self._runtime.config.group_max_size):
            self._turn_away(group, token, request, now)
        elif group.state is GroupState.DEAD:
            self._refuse(token, request, Error.COORDINATOR_NOT_AVAILABLE)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse(token, request, Error.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id:
            self._join_known(group, ParkedJoin(token, request), now)
        else:
            self._join_unknown(group, ParkedJoin(token, request), now)

    def _turn_away(self, group: ClassicGroup, token: Token, request: JoinGroupRequest, now: Now) -> None:
        """Refuse a join because the group is full. The join phase may have waited for this client only."""
        self._runtime.answer(token, join_error(request, Error.GROUP_MAX_SIZE_REACHED, member_id=""))
        group.forget_pending(request.member_id)
        member = group.members.get(request.member_id)
        if member is not None:
            self._rebalancer.remove(group, member, expelled=True)
        self._rebalancer.check_join_phase(group, now)

    # -- without a member id

    def _join_unknown(self, group: ClassicGroup, parked: ParkedJoin, now: Now) -> None:
        request = parked.request
        if request.group_instance_id is not None:
            if request.group_instance_id in group.roster.by_instance:
                self._replace(group, parked, now)
            else:
                self._add(group, self._new_id(request.group_instance_id), parked, now)
        elif request.api_version >= 4:
            self._require_member_id(group, parked, now)
        else:
            self._add(group, self._new_id(request.client_id), parked, now)

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}-{self._runtime.new_id()}"

    def _require_member_id(self, group: ClassicGroup, parked: ParkedJoin, now: Now) -> None:
        """Give the client an id to come back with: then it has received at least one answer (KIP-394)."""
        member_id = self._new_id(parked.request.client_id)
        self._rebalancer.expect_join(group, member_id, parked.request.session_timeout_ms, now)
        response = join_error(parked.request, Error.MEMBER_ID_REQUIRED, member_id=member_id)
        self._runtime.answer(parked.token, response)

    def _add(self, group: ClassicGroup, member_id: str, parked: ParkedJoin, now: Now) -> None:
        member = Member(member_id, parked.request)
        group.admit(member, parked.request.protocol_type)
        self._rebalancer.history.came(group.group_id, member)
        self._rebalancer.park_join(group, member, parked, now)
        self._rebalancer.watch(group, member)
        self._rebalancer.arm_new_member(member, now)
        reason = parked.request.reason or "member joined"
        self._rebalancer.membership_changed(group, reason, member_id, now)

    # -- with a member id

    def _join_known(self, group: ClassicGroup, parked: ParkedJoin, now: Now) -> None:
        token, request = parked
        if request.member_id in group.pending_joins:
            if request.group_instance_id is not None:  # only dynamic members are ever pending
                self._refuse(token, request, Error.UNKNOWN_SERVER_ERROR)
                return
            group.forget_pending(request.member_id)
            self._add(group, request.member_id, parked, now)
            return
        member = group.roster.identify(request.member_id, request.group_instance_id)
        if isinstance(member, Error):
            self._refuse(token, request, member)
        elif self._may_answer_at_once(group, member, request):
            self._runtime.answer(token, group.join_response(member, request.api_version))
        else:
            self._rejoin(group, member, parked, now)

    @staticmethod
    def _may_answer_at_once(group: ClassicGroup, member: Member, request: JoinGroupRequest) -> bool:
        """True if the join changes nothing, so that no rebalance is needed: a repeat, or a follower that asks again.

        A leader that joins again in Stable wants a rebalance, for instance because the topics have changed.
        """
        if member.protocols != request.protocols:
            return False
        match group.state:
            case GroupState.COMPLETING_REBALANCE:
                return True
            case GroupState.STABLE:
                return member.member_id != group.leader_id
            case _:
                return False

    def _rejoin(self, group: ClassicGroup, member: Member, parked: ParkedJoin, now: Now) -> None:
        changed = member.protocols != parked.request.protocols
        reason = parked.request.reason or ("metadata changed" if changed else "leader rejoined")
        unheard = not member.process
        group.roster.update(member, parked.request)
        self._rebalancer.park_join(group, member, parked, now)
        if unheard and member.process:
            self._rebalancer.history.told_process(group.group_id, member)
        self._rebalancer.membership_changed(group, reason, member.member_id, now)

    # -- a static member's next incarnation (KIP-345)

    def _replace(self, group: ClassicGroup, parked: ParkedJoin, now: Now) -> None:
        request = parked.request
        member = group.members[group.roster.by_instance[request.group_instance_id or ""]]
        if group.state is not GroupState.STABLE:
            self._replace_now(group, member, parked, now)
        elif group.replacement.in_flight:
            group.replacement.wait(parked)
        elif group.roster.vote(instead=(member, request.protocols)) == group.protocol_name:
            self._replace_quietly(group, member, parked, now)
        else:
            self._replace_now(group, member, parked, now)

    def _replace_now(self, group: ClassicGroup, member: Member, parked: ParkedJoin, now: Now) -> None:
        member_id = self._new_id(parked.request.group_instance_id or "")
        self._rebalancer.history.replaced(group.group_id, member.member_id, member_id)
        self._take_over(group, member, member_id, parked.request, now)
        self._rebalancer.park_join(group, member, parked, now)
        reason = parked.request.reason or "static member replaced"
        self._rebalancer.membership_changed(group, reason, member_id, now)

    def _take_over(
        self, group: ClassicGroup, member: Member, member_id: str, request: JoinGroupRequest, now: Now
    ) -> None:
        """Let the member go on under a new id. Requests that its old incarnation has parked get FENCED_INSTANCE_ID."""
        self._fence(group, member)
        group.replace(member, member_id)
        self._rebalancer.arm_session(member, now)
        group.roster.update(member, request)

    def _fence(self, group: ClassicGroup, member: Member) -> None:
        parked = group.roster.take_join(member)
        if parked is not None:
            response = join_error(parked.request, Error.FENCED_INSTANCE_ID, member_id=member.member_id)
            self._runtime.answer(parked.token, response)
        self._rebalancer.answer_sync(member, SyncGroupResponse(Error.FENCED_INSTANCE_ID))

    def _replace_quietly(self, group: ClassicGroup, member: Member, parked: ParkedJoin, now: Now) -> None:
        """Replace the member without a rebalance, which is possible because the selected protocol stays.

        Until the record has committed the old id is the valid one, so a write that fails leaves nothing to undo.
        """
        member_id = self._new_id(parked.request.group_instance_id or "")
        heir = Member(member_id, parked.request)
        members = (heir if m is member else m for m in group.members.values())

        def assignment(m: Member) -> bytes:
            return member.assignment if m is heir else m.assignment

        leader_id = member_id if group.leader_id == member.member_id else group.leader_id
        record = replace(group.to_record(assignment, members), leader_id=leader_id)
        group.replacement.begin()
        write = ReplacementWrite(self, group, member, member_id, parked, [GroupPut(group.group_id, record)])
        self._runtime.write(write, now)

    def replacement_committed(
        self, group: ClassicGroup, old_id: str, new_id: str, generation: int, parked: ParkedJoin, now: Now
    ) -> None:
        request = parked.request
        owner = group.roster.by_instance.get(request.group_instance_id or "")
        if group.state is GroupState.STABLE and group.generation_id == generation and owner == old_id:
            leader_before = group.leader_id or ""
            member = group.members[old_id]
            silent_ms = member.silent_ms(now)
            self._take_over(group, member, new_id, request, now)
            self._rebalancer.history.replaced_quietly(
                group.group_id, generation, old_id, member, len(group.members), silent_ms, now
            )
            response = self._replaced(group, member, leader_before, request.api_version)
            self._runtime.answer(parked.token, response)
        elif parked.token in self._runtime.unanswered:
            self._again(parked, now)  # the group has moved on meanwhile: an ordinary join
        self.replacement_settled(group, now)

    def replacement_settled(self, group: ClassicGroup, now: Now) -> None:
        for parked in group.replacement.end():
            if parked.token in self._runtime.unanswered:
                self._again(parked, now)

    def _again(self, parked: ParkedJoin, now: Now) -> None:
        self.handle(parked.token, parked.request, now)

    def refuse_replacement(self, parked: ParkedJoin, error: int) -> None:
        self._runtime.answer(parked.token, join_error(parked.request, error, member_id=""))

    @staticmethod
    def _replaced(group: ClassicGroup, member: Member, leader_before: str, api_version: int) -> JoinGroupResponse:
        """The answer to the new incarnation. Version 9 can tell a leader to skip the assignment (KIP-814).

        In older versions the answer names the leader's old id as the leader, so that the new one behaves as a follower.
        """
        response = group.join_response(member, api_version)
        leads = member.member_id == group.leader_id
        skips = api_version >= 9
        return JoinGroupResponse(
            error_code=response.error_code,
            generation_id=response.generation_id,
            protocol_type=response.protocol_type,
            protocol_name=response.protocol_name,
            leader=response.leader if skips else leader_before,
            member_id=member.member_id,
            members=response.members if skips else (),
            skip_assignment=skips and leads,
        )


class NewGroupWrite(Write):
    """The record that makes a group exist before it has a generation."""

    __slots__ = ("_group", "_runtime")

    def __init__(self, runtime: GroupRuntime, group: ClassicGroup, changes: list[GroupPut]) -> None:
        super().__init__([*changes])
        self._runtime = runtime
        self._group = group

    def committed(self, now: Now) -> None: ...

    def timed_out(self, now: Now) -> None:
        """Nothing happens: a parked join has no such deadline, and the record may still commit."""

    def failed(self, error: int, now: Now) -> None:
        """Drop the group, unless something else has made it exist meanwhile, or it is in a later state."""
        group, runtime = self._group, self._runtime
        if runtime.groups.get(group.group_id) is not group or group.state not in _YOUNG:
            return
        if runtime.durable.get(group.group_id) or runtime.writer.pending_changes(group.group_id):
            return
        runtime.drop_group(group)
        for parked in _parked_joins(group):
            runtime.answer(parked.token, join_error(parked.request, error))


_YOUNG = (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)


def _parked_joins(group: ClassicGroup) -> Iterator[ParkedJoin]:
    return (m.parked_join for m in group.members.values() if m.parked_join is not None)


class ReplacementWrite(Write):
    __slots__ = ("_generation", "_group", "_join", "_new_id", "_old_id", "parked")

    def __init__(
        self,
        join: Join,
        group: ClassicGroup,
        member: Member,
        new_id: str,
        parked: ParkedJoin,
        changes: list[GroupPut],
    ) -> None:
        super().__init__([*changes])
        self._join = join
        self._group = group
        self._generation = group.generation_id
        self._old_id = member.member_id
        self._new_id = new_id
        self.parked = parked
        """The join that the record answers."""

    def committed(self, now: Now) -> None:
        self._join.replacement_committed(self._group, self._old_id, self._new_id, self._generation, self.parked, now)

    def failed(self, error: int, now: Now) -> None:
        self._join.refuse_replacement(self.parked, error)
        self._join.replacement_settled(self._group, now)

    def timed_out(self, now: Now) -> None:
        self._join.refuse_replacement(self.parked, Error.COORDINATOR_NOT_AVAILABLE)
