"""The requests and responses of consumer groups, apart from those that all groups share.

Partitions are told by topic ids. None in a heartbeat says that a field is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import TopicImage
from actors.coordinator.consumer.values import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Partitions
from actors.coordinator.errors import Error
from actors.coordinator.turn import Token


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a request is refused."""

    error: int
    message: str | None = None


# -- ConsumerGroupHeartbeat, versions 0 and 1


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Partitions | None = None
    """The partitions that the member owns; None: the same as it said last."""
    client_id: str = ""
    client_host: str = ""
    api_version: int = 1
    process: str = ""
    """The client's description of its process, for people. It may be anything."""

    @property
    def is_leave(self) -> bool:
        return self.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)

    @property
    def needs_member_id(self) -> bool:
        """True if it is for the coordinator to choose the member's id."""
        return self.api_version < 1 and self.member_epoch == JOIN_EPOCH and not self.member_id

    @property
    def is_full(self) -> bool:
        """True if it says everything, as after a failure. Then it is answered everything."""
        has_subscription = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.rebalance_timeout_ms != -1 and self.topic_partitions is not None and has_subscription

    def refused(self, error: int) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error)


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatResponse:
    error_code: int
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    """All that the member may use; None: as before."""


# -- ConsumerGroupDescribe, versions 0 and 1


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """Partitions of a topic that exists."""

    topic_id: bytes
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[DescribedTopic, ...]
    """Its partitions, with those that it was told to give back until it has."""
    target: tuple[DescribedTopic, ...]
    member_type: int = 1
    """1: a member of the new protocol; 0: a classic one."""


@dataclass(frozen=True, slots=True)
class DescribedConsumerGroup:
    group_id: str
    error_code: int = Error.NONE
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class MembersDescribed:
    """A piece of an answer that is long: members of groups, by the groups' places in the request. More follow.

    It is replied before the answer, whose groups have the members that were in no piece.
    """

    token: Token
    """The request whose answer it is part of."""
    members: tuple[tuple[int, tuple[DescribedMember, ...]], ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]

    def refused(self, error: int) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(tuple(DescribedConsumerGroup(each, error) for each in self.group_ids))


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeResponse:
    groups: tuple[DescribedConsumerGroup, ...]


# -- what the host tells of the cluster


@dataclass(frozen=True, slots=True)
class NoteTopicsRequest:
    """The topics there are from now on. Before the first of these no heartbeat of a member is taken."""

    topics: TopicImage

    def refused(self, error: int) -> Noted:
        return Noted(error)


@dataclass(frozen=True, slots=True)
class NoteSettingsRequest:
    """The settings from now on."""

    settings: ConsumerSettings

    def refused(self, error: int) -> Noted:
        return Noted(error)


# -- regular expressions, which the host resolves


@dataclass(frozen=True, slots=True)
class Resolution:
    """The expressions of a group, which are to be resolved to topics."""

    group_id: str
    regexes: frozenset[str]
    topics: TopicImage
    began_ms: int
    """Wall time."""
    token: Token
    """That of the heartbeat which it began with. Topics that this one's client may not see are not part of the result.
    """


@dataclass(frozen=True, slots=True)
class ResolutionsRequest:
    """Ask for what there is to resolve. Answered when there is something; then it is to be asked again."""

    keeps_awake: ClassVar = False
    """It waits for members, and without any the shard may sleep."""

    def refused(self, error: int) -> ResolutionsResponse:
        return ResolutionsResponse(error)


@dataclass(frozen=True, slots=True)
class ResolutionsResponse:
    error_code: int
    resolutions: tuple[Resolution, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """The topics that each expression of a group matches, in the image of this version."""

    group_id: str
    topics: Mapping[str, frozenset[str]] | None
    """None if it has failed."""
    version: int
    began_ms: int

    def refused(self, error: int) -> Noted:
        return Noted(error)


@dataclass(frozen=True, slots=True)
class Noted:
    error_code: int = Error.NONE
