"""LeaveGroup: from Kafka's message to the coordinator and back. Below version 3 one member leaves, later a batch."""

from __future__ import annotations

from actors.coordinator.classic import messages as core
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import LeaveGroupRequest, LeaveGroupResponse

API = LeaveGroupRequest
VERSIONS = (0, 5)


def parse(header: RequestHeader, m: LeaveGroupRequest, host: str, topics: Topics) -> core.LeaveGroupRequest:
    if header.api_version < 3:
        members: tuple[core.LeavingMember, ...] = (core.LeavingMember(m.member_id),)
    else:
        members = tuple(core.LeavingMember(x.member_id, x.group_instance_id, x.reason) for x in m.members)
    return core.LeaveGroupRequest(m.group_id, members, header.api_version)


def answer(m: LeaveGroupRequest, r: core.LeaveGroupResponse, version: int, topics: Topics) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=r.error_code,
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=x.member_id, group_instance_id=x.group_instance_id, error_code=x.error_code
            )
            for x in r.members
        ],
    )
