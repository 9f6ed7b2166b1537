"""The requests and responses of a shard. `actors.group_api` makes them from Kafka's messages, and the other way.

Heartbeat and OffsetCommit, the two requests of a group at rest, are named tuples because building one costs
a quarter of building a frozen dataclass; the others are dataclasses.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from struct import unpack
from typing import NamedTuple

from actors.coordinator.errors import Error

Token = Hashable
"""Stands for one request of one client. The driver chooses it, and gets it back with the answer."""

TopicPartition = tuple[str, int]


class Now(NamedTuple):
    """The time of a turn. Deadlines count in monotonic time, timestamps in records and retention in wall time."""

    monotonic_ms: int
    wall_ms: int


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
    """How many members the group is about to have; 0 if the client does not know."""
    process: str = ""
    """What the client says of its process, for people. It may be anything."""

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """The rebalance timeout; in version 0, which has none, the session timeout."""
        if self.api_version == 0 or self.rebalance_timeout_ms < 0:
            return self.session_timeout_ms
        return self.rebalance_timeout_ms


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


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error_code: int


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse:
    error_code: int
    members: tuple[LeftMember, ...] = ()
    """Empty below version 3, where `error_code` is that of the one member."""


# -- OffsetCommit


class Partitions:
    """Partitions of one topic. A member commits the same ones again and again, so what is made of them is kept."""

    __slots__ = ("_kept", "indexes")

    def __init__(self, indexes: Sequence[bytes]) -> None:
        self.indexes = indexes
        """Four bytes each: a request has the index so, and so does a record's key."""
        self._kept: tuple[bytes, list[bytes], tuple[int, ...]] | None = None

    def __len__(self) -> int:
        return len(self.indexes)

    def keys_and_numbers(self, prefix: bytes) -> tuple[list[bytes], tuple[int, ...]]:
        """Each index after `prefix`, and as a number. The list is not to be changed."""
        kept = self._kept
        if kept is None or kept[0] is not prefix:
            indexes = self.indexes
            kept = self._kept = prefix, [prefix + index for index in indexes], partition_numbers(indexes)
        return kept[1], kept[2]


def partition_numbers(indexes: Sequence[bytes]) -> tuple[int, ...]:
    """What the four bytes of each say."""
    return unpack(f">{len(indexes)}i", b"".join(indexes))


class TopicOffsets(NamedTuple):
    """One topic of an OffsetCommit, as columns: an entry for each partition."""

    topic: str
    partitions: Partitions
    offsets: Sequence[bytes]
    """Twelve bytes each, offset and leader epoch: the same in the request and in the record's value."""
    metadata: Sequence[bytes] | None = None
    """In UTF-8, of 32,767 bytes or more if a client sends so much. None if no partition has any."""


class OffsetCommitRequest(NamedTuple):
    group_id: str | None
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[TopicOffsets]
    api_version: int = 9
    retention_time_ms: int = -1


class OffsetCommitResponse(NamedTuple):
    error_codes: list[int]
    """One for each of the request's partitions, in their order."""


# -- OffsetFetch


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest:
    """One group of an OffsetFetch."""

    group_id: str | None
    partitions: tuple[TopicPartition, ...] | None
    """None asks for all that are stored."""
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error_code: int = Error.NONE


@dataclass(frozen=True, slots=True)
class OffsetFetchResponse:
    error_code: int
    offsets: tuple[FetchedOffset, ...] = ()


# -- OffsetDelete, and the deletion of topics


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest:
    group_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse:
    error_code: int
    partitions: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, error code)"""


@dataclass(frozen=True, slots=True)
class DeleteTopicOffsetsRequest:
    """Delete the offsets of all groups for topics that were deleted from the cluster."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class DeleteTopicOffsetsResponse:
    error_code: int


# -- ListGroups, DescribeGroups, DeleteGroups


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str = "classic"


@dataclass(frozen=True, slots=True)
class ListGroupsResponse:
    error_code: int
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    group_ids: tuple[str | None, ...]


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


@dataclass(frozen=True, slots=True)
class DescribeGroupsResponse:
    groups: tuple[DescribedGroup, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest:
    group_ids: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse:
    results: tuple[tuple[str, int], ...]
    """(group id, error code)"""


# -- whether the shard's process may be given back


@dataclass(frozen=True, slots=True)
class MaySleepRequest:
    """Delete what has expired, then say whether the groups need a process now."""


@dataclass(frozen=True, slots=True)
class MaySleepResponse:
    """What keeps the shard busy; or, if nothing does, what has to be known of it without a process."""

    busy: str = ""
    """Why it may not sleep, for people; empty if it may."""
    due_ms: int | None = None
    """When the next offset or group expires (wall clock); None if none ever does."""
    topics: tuple[str, ...] = ()
    """The topics that offsets are stored for."""
    groups: tuple[ListedGroup, ...] = ()


Request = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DeleteTopicOffsetsRequest
    | MaySleepRequest
    | ListGroupsRequest
    | DescribeGroupsRequest
    | DeleteGroupsRequest
)
Response = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | DeleteTopicOffsetsResponse
    | MaySleepResponse
    | ListGroupsResponse
    | DescribeGroupsResponse
    | DeleteGroupsResponse
)


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


def error_response(request: Request, error: int) -> Response:
    """The response that answers the whole of `request` with `error`, in the form its type has for that."""
    match request:
        case HeartbeatRequest():
            return HeartbeatResponse(error)
        case OffsetCommitRequest():
            return OffsetCommitResponse([error] * sum(len(topic.partitions) for topic in request.topics))
        case JoinGroupRequest():
            return join_error(request, error)
        case SyncGroupRequest():
            return SyncGroupResponse(error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error)
        case OffsetFetchRequest():
            return OffsetFetchResponse(error)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error)
        case DeleteTopicOffsetsRequest():
            return DeleteTopicOffsetsResponse(error)
        case MaySleepRequest():
            return MaySleepResponse("it does not serve")
        case ListGroupsRequest():
            return ListGroupsResponse(error)
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(tuple(DescribedGroup(error, g or "") for g in request.group_ids))
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(tuple((g or "", error) for g in request.group_ids))
