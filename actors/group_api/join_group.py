"""JoinGroup: from Kafka's message to the coordinator and back."""

from __future__ import annotations

from actors.coordinator.classic import messages as core
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import JoinGroupRequest, JoinGroupResponse

API = JoinGroupRequest
VERSIONS = (0, 9)


def parse(header: RequestHeader, m: JoinGroupRequest, host: str, topics: Topics) -> core.JoinGroupRequest:
    return core.JoinGroupRequest(
        m.group_id,
        m.member_id,
        m.protocol_type,
        tuple((p.name, p.metadata) for p in m.protocols),
        m.session_timeout_ms,
        m.rebalance_timeout_ms,
        m.group_instance_id,
        header.client_id or "",
        host,
        header.api_version,
        m.reason,
        m.expected_members,
        m.process,
    )


def answer(m: JoinGroupRequest, r: core.JoinGroupResponse, version: int, topics: Topics) -> JoinGroupResponse:
    name = r.protocol_name
    return JoinGroupResponse(
        error_code=r.error_code,
        generation_id=r.generation_id,
        protocol_type=r.protocol_type,
        protocol_name="" if name is None and version < 7 else name,
        leader=r.leader,
        skip_assignment=r.skip_assignment,
        member_id=r.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=x.member_id, group_instance_id=x.group_instance_id, metadata=x.metadata
            )
            for x in r.members
        ],
    )
