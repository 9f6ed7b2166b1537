"""SyncGroup: from Kafka's message to the coordinator and back."""

from __future__ import annotations

from actors.coordinator.classic import messages as core
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import SyncGroupRequest, SyncGroupResponse

API = SyncGroupRequest
VERSIONS = (0, 5)


_PROTOCOL_FROM = 5


def names_protocol(m: SyncGroupRequest, version: int) -> bool:
    """True if the request names the protocol, as it has to from version 5 on (KIP-559)."""
    return version < _PROTOCOL_FROM or (m.protocol_type is not None and m.protocol_name is not None)


def parse(header: RequestHeader, m: SyncGroupRequest, host: str, topics: Topics) -> core.SyncGroupRequest:
    return core.SyncGroupRequest(
        m.group_id,
        m.generation_id,
        m.member_id,
        m.group_instance_id,
        m.protocol_type,
        m.protocol_name,
        tuple((a.member_id, a.assignment) for a in m.assignments),
        header.api_version,
    )


def answer(m: SyncGroupRequest, r: core.SyncGroupResponse, version: int, topics: Topics) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=r.error_code, protocol_type=r.protocol_type, protocol_name=r.protocol_name, assignment=r.assignment
    )
