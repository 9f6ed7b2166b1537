"""Heartbeat: from Kafka's message to the coordinator and back."""

from __future__ import annotations

from functools import cache

from actors.coordinator.classic import messages as core
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import HeartbeatRequest, HeartbeatResponse

API = HeartbeatRequest
VERSIONS = (0, 4)


def parse(header: RequestHeader, m: HeartbeatRequest, host: str, topics: Topics) -> core.HeartbeatRequest:
    return core.HeartbeatRequest(m.group_id, m.generation_id, m.member_id, m.group_instance_id)


def answer(m: HeartbeatRequest, r: core.HeartbeatResponse, version: int, topics: Topics) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=r.error_code)


@cache
def body(error_code: int, version: int) -> bytes:
    """The encoded answer, kept: there are few different ones, and nothing is answered as often."""
    return HeartbeatResponse(error_code=error_code).encode(version)
