"""SyncGroup, Heartbeat and LeaveGroup of members of consumer groups.

A classic member's generation is its epoch. It is told to join again when that brings it something: when a target is
there that it has not gone towards yet (the group's epoch may be ahead of that), when it has to give something back, or
when all that it waits for is free.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.coordinator.classic.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
    leave_response,
)
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.membership import identify, look_at_topics, remove
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import Answer, Cause, Draft, Operation
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.steps import compute
from actors.coordinator.consumer.values import MemberMetadata, MemberState
from actors.coordinator.errors import Error
from actors.coordinator.migration.embedded import CONSUMERS, assignment, by_name, read_version
from actors.coordinator.migration.waits import Waits
from actors.coordinator.records import CorruptRecordError
from actors.coordinator.turn import Now, Token


def member_of(state: ConsumerState, request: HeartbeatRequest | SyncGroupRequest) -> MemberMetadata | Error:
    """The classic member that has sent a request in its generation, or the error that it is answered."""
    refusal = identify(state, request.member_id, request.group_instance_id)
    if refusal is not None:
        return Error(refusal.error)
    member = state.metadata[request.member_id]
    if member.classic is None:
        return Error.UNKNOWN_MEMBER_ID
    is_current = request.generation_id == state.current_of(request.member_id).epoch
    return member if is_current else Error.ILLEGAL_GENERATION


# -- Heartbeat


def must_join(state: ConsumerState, member_id: str) -> bool:
    """True if a classic member gains by joining again."""
    current = state.current_of(member_id)
    if current.epoch < state.assignment_epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return all(
        state.is_free((topic_id, partition), member_id)
        for topic_id, partitions in state.targets.get(member_id, {}).items()
        for partition in partitions
    )


class Heartbeat(Operation):
    """A classic member lives. Where there are no others, it is for it to notice that a target has to be computed."""

    _request: HeartbeatRequest

    def __init__(self, token: Token, request: HeartbeatRequest, group: ConsumerGroup, waits: Waits) -> None:
        self.token = token
        self._request = request
        self._group = group
        self._waits = waits

    def answer_of(self, refusal: Refusal) -> HeartbeatResponse:
        return HeartbeatResponse(refusal.error)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        state, member_id = draft.state, self._request.member_id
        member = member_of(state, self._request)
        if isinstance(member, Error):
            return Refusal(member)
        if state.classic_members == len(state.metadata):
            look_at_topics(draft, Cause("topics changed", member_id, None), must_raise=False)
            if state.group_epoch > state.assignment_epoch and (yield from compute(draft)) is not None:
                # The next heartbeat tries again. Members cannot do anything about it.
                self.note(state, member, draft.now)
                return Refusal(Error.NONE)
        is_told = must_join(state, member_id)
        draft.noted = lambda: self.note(state, member, draft.now, is_told=is_told)
        return HeartbeatResponse(Error.REBALANCE_IN_PROGRESS if is_told else Error.NONE)

    def note(self, state: ConsumerState, member: MemberMetadata, now: Now, *, is_told: bool = False) -> None:
        """The member was heard, and perhaps told to join again."""
        self._waits.heard(self._group, self._request.member_id, member, now)
        if is_told:
            self._waits.told(self._group, self._request.member_id, member, now)


# -- SyncGroup


class Sync(Operation):
    """A classic member asks for its assignment. Its own word on assignments is not looked at."""

    _request: SyncGroupRequest

    def __init__(self, token: Token, request: SyncGroupRequest, group: ConsumerGroup, waits: Waits) -> None:
        self.token = token
        self._request = request
        self._group = group
        self._waits = waits

    def answer_of(self, refusal: Refusal) -> SyncGroupResponse:
        return SyncGroupResponse(refusal.error)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        request, state = self._request, draft.state
        member = member_of(state, request)
        if isinstance(member, Error):
            return Refusal(member)
        assert member.classic is not None
        given = (request.protocol_type, CONSUMERS), (request.protocol_name, member.classic.protocols[0][0])
        if any(theirs is not None and theirs != ours for theirs, ours in given):
            return Refusal(Error.INCONSISTENT_GROUP_PROTOCOL)
        current = state.current_of(request.member_id)
        if current.epoch < state.assignment_epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            draft.noted = lambda: self._waits.told(self._group, request.member_id, member, draft.now)
            return SyncGroupResponse(Error.REBALANCE_IN_PROGRESS)
        draft.noted = lambda: self._waits.synced(self._group, request.member_id, member, draft.now)
        data = assignment(_version(member), by_name(current.assigned, draft.topics))
        return SyncGroupResponse(Error.NONE, request.protocol_type, request.protocol_name, data)


def _version(member: MemberMetadata) -> int:
    """The version of the embedded protocol that a member speaks."""
    assert member.classic is not None
    try:
        return read_version(member.classic.protocols[0][1])
    except CorruptRecordError:
        return 0


# -- LeaveGroup


class Leave(Operation):
    """Members leave, of whichever protocol; all of one request together."""

    _request: LeaveGroupRequest

    def __init__(self, token: Token, request: LeaveGroupRequest) -> None:
        self.token = token
        self._request = request

    def answer_of(self, refusal: Refusal) -> LeaveGroupResponse:
        return LeaveGroupResponse(refusal.error)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        found = [(entry, _who(draft.state, entry)) for entry in self._request.members]
        gone = {who: entry for entry, who in found if not isinstance(who, Error)}
        if gone:
            reason = next((entry.reason for entry in gone.values() if entry.reason), "member left")
            refusal = remove(draft, gone, reason)
            if refusal is not None:
                return refusal
        left = (
            LeftMember(entry.member_id, entry.group_instance_id, who if isinstance(who, Error) else Error.NONE)
            for entry, who in found
        )
        return leave_response(self._request, left)


def _who(state: ConsumerState, entry: LeavingMember) -> str | Error:
    """The id of a member that leaves. Tools need not know the ids of static members."""
    if not entry.member_id and entry.group_instance_id is not None:
        return state.instances.get(entry.group_instance_id, Error.UNKNOWN_MEMBER_ID)
    refusal = identify(state, entry.member_id, entry.group_instance_id)
    return entry.member_id if refusal is None else Error(refusal.error)
