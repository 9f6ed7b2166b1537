"""The requests and responses of classic groups. `actors.group_api` makes them from Kafka's messages.

Heartbeat, the request of a group at rest, is a named tuple because building one costs a quarter of building a frozen
dataclass; the others are dataclasses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from actors.coordinator.errors import Error

# -- JoinGroup


@dataclass(frozen=True, slots=True)
class JoinGroupRequest:
    group_id: str | None
    member_id: str
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), most wanted first."""
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """In the form in which Java prints an address: /10.0.0.1"""
    api_version: int = 9
    reason: str | None = None
    expected_members: int = 0
    """The number of members that the group is about to have; 0 if the client does not know."""
    process: str = ""
    """The client's description of its process, for people. It may be anything."""

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """The rebalance timeout; in version 0, which has none, the session timeout."""
        if self.api_version == 0 or self.rebalance_timeout_ms < 0:
            return self.session_timeout_ms
        return self.rebalance_timeout_ms

    def refused(self, error: int) -> JoinGroupResponse:
        return join_error(self, error)


class JoinGroupMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    error_code: int
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = ""
    members: tuple[JoinGroupMember, ...] = ()
    skip_assignment: bool = False


# -- SyncGroup


@dataclass(frozen=True, slots=True)
class SyncGroupRequest:
    group_id: str | None
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """(member id, assignment); empty from followers."""
    api_version: int = 5

    def refused(self, error: int) -> SyncGroupResponse:
        return SyncGroupResponse(error)


@dataclass(frozen=True, slots=True)
class SyncGroupResponse:
    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


# -- Heartbeat


class HeartbeatRequest(NamedTuple):
    group_id: str | None
    generation_id: int
    member_id: str
    group_instance_id: str | None = None

    def refused(self, error: int) -> HeartbeatResponse:
        return HeartbeatResponse(error)


class HeartbeatResponse(NamedTuple):
    error_code: int


# -- LeaveGroup


class LeavingMember(NamedTuple):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest:
    group_id: str | None
    members: tuple[LeavingMember, ...]
    """Exactly one below version 3."""
    api_version: int = 5

    def refused(self, error: int) -> LeaveGroupResponse:
        return LeaveGroupResponse(error)


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error_code: int


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse:
    error_code: int
    members: tuple[LeftMember, ...] = ()
    """Empty below version 3, where `error_code` is that of the one member."""


# -- DescribeGroups


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    group_ids: tuple[str | None, ...]

    def refused(self, error: int) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(tuple(DescribedGroup(error, g or "") for g in self.group_ids))


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    error_code: int
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    other_type: str = ""
    """The type of a group that is no classic one; empty of those that are, or do not exist."""


@dataclass(frozen=True, slots=True)
class DescribeGroupsResponse:
    groups: tuple[DescribedGroup, ...]


def join_error(request: JoinGroupRequest, error: int, member_id: str | None = None) -> JoinGroupResponse:
    """The answer to a join that failed, with the request's member id unless another is given.

    Before version 7 the protocol name cannot be null.
    """
    return JoinGroupResponse(
        error_code=error,
        protocol_name=None if request.api_version >= 7 else "",
        member_id=request.member_id if member_id is None else member_id,
    )


def leave_response(request: LeaveGroupRequest, members: Iterable[LeftMember]) -> LeaveGroupResponse:
    """The answer to a LeaveGroup. Below version 3 its error is that of the only member."""
    left = tuple(members)
    if request.api_version < 3:
        return LeaveGroupResponse(left[0].error_code if left else Error.NONE)
    return LeaveGroupResponse(Error.NONE, left)
