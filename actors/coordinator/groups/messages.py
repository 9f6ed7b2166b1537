"""The requests and responses that groups of all types share. `actors.group_api` makes them from Kafka's messages.

OffsetCommit, the request of a group at work, is a named tuple because building one costs a quarter of building a frozen
dataclass; the others are dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import unpack
from typing import NamedTuple

from actors.coordinator.errors import Error

TopicPartition = tuple[str, int]


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
    """The numbers in the four bytes of each."""
    return unpack(f">{len(indexes)}i", b"".join(indexes))


class TopicOffsets(NamedTuple):
    """One topic of an OffsetCommit, as columns: an entry for each partition."""

    topic: str
    partitions: Partitions
    offsets: Sequence[bytes]
    """Twelve bytes each, offset and leader epoch: the same in the request and in the record's value."""
    metadata: Sequence[bytes] | None = None
    """In UTF-8, of 32,767 bytes or more if a client sends so much. None if no partition has any."""
    topic_id: bytes = b""
    """Empty if it is not known."""


class OffsetCommitRequest(NamedTuple):
    group_id: str | None
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[TopicOffsets]
    api_version: int = 9
    retention_time_ms: int = -1

    def refused(self, error: int) -> OffsetCommitResponse:
        return OffsetCommitResponse([error] * sum(len(topic.partitions) for topic in self.topics))


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
    member_id: str | None = None
    """The member that asks; None, with an epoch below 0: anybody."""
    member_epoch: int = -1
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    """Of topics that are asked for by id: an offset that was committed for another topic of the name is none."""

    def refused(self, error: int) -> OffsetFetchResponse:
        return OffsetFetchResponse(error)


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

    def refused(self, error: int) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error)


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse:
    error_code: int
    partitions: tuple[tuple[str, int, int], ...] = ()
    """(topic, partition, error code)"""


@dataclass(frozen=True, slots=True)
class DeleteTopicOffsetsRequest:
    """Delete the offsets of all groups for topics that were deleted from the cluster."""

    topics: frozenset[str]

    def refused(self, error: int) -> DeleteTopicOffsetsResponse:
        return DeleteTopicOffsetsResponse(error)


@dataclass(frozen=True, slots=True)
class DeleteTopicOffsetsResponse:
    error_code: int


# -- ListGroups, DeleteGroups


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()

    def refused(self, error: int) -> ListGroupsResponse:
        return ListGroupsResponse(error)


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
class DeleteGroupsRequest:
    group_ids: tuple[str | None, ...]

    def refused(self, error: int) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(tuple((g or "", error) for g in self.group_ids))


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse:
    results: tuple[tuple[str, int], ...]
    """(group id, error code)"""


# -- whether the shard's process may be given back


@dataclass(frozen=True, slots=True)
class MaySleepRequest:
    """Delete what has expired, then say whether the groups need a process now."""

    def refused(self, error: int) -> MaySleepResponse:
        return MaySleepResponse("it does not serve")


@dataclass(frozen=True, slots=True)
class MaySleepResponse:
    """The reason why the shard is busy; or, if nothing keeps it so, the facts that others need without its process."""

    busy: str = ""
    """The reason why it may not sleep, for people; empty if it may."""
    due_ms: int | None = None
    """The time at which the next offset or group expires (wall clock); None if none ever does."""
    topics: tuple[str, ...] = ()
    """The topics that offsets are stored for."""
    groups: tuple[ListedGroup, ...] = ()
