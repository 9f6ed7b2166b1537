"""JoinGroup to a consumer group."""

from __future__ import annotations

from collections.abc import Generator

from actors.coordinator.classic.messages import JoinGroupRequest, JoinGroupResponse, join_error
from actors.coordinator.classic.records import GroupMetadata, GroupPut
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import AGAIN, Answer, Draft, Operation
from actors.coordinator.consumer.records import tombstones
from actors.coordinator.errors import Error
from actors.coordinator.turn import Token


class Join(Operation):
    """A member of the classic protocol joins. If the group has no members, it becomes a classic group first."""

    _request: JoinGroupRequest

    def __init__(self, token: Token, request: JoinGroupRequest) -> None:
        self.token = token
        self._request = request

    def answer_of(self, refusal: Refusal) -> JoinGroupResponse:
        return join_error(self._request, refusal.error)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        return Refusal(Error.INCONSISTENT_GROUP_PROTOCOL) if draft.state.metadata else self._begin_classic_group(draft)

    def _begin_classic_group(self, draft: Draft) -> Answer:
        request = self._request
        if request.member_id:
            return Refusal(Error.UNKNOWN_MEMBER_ID)
        if not request.protocol_type or not request.protocols:
            return Refusal(Error.INCONSISTENT_GROUP_PROTOCOL)
        for tombstone in tombstones(draft.group_id, draft.state):
            draft.write(tombstone)
        draft.write(GroupPut(draft.group_id, GroupMetadata("", 0, None, None, draft.now.wall_ms)))
        return AGAIN
