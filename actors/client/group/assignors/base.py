"""The input and the result of every assignor, and the helpers that several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from actors.client.records import TopicPartition

Assignment = dict[str, list[TopicPartition]]


class RebalanceProtocol(IntEnum):
    """EAGER gives everything up before a join; COOPERATIVE only what moves (KIP-429). Ordered by preference."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The leader's metadata: partition count per topic, and per partition the racks that hold a replica."""

    partitions: Mapping[str, int]
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member and its subscription, as the coordinator handed them to the leader."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    user_data: bytes | None = None
    rack: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Static members first, by instance id, then the others by member id: stable across restarts."""
        return (self.instance_id is None, self.instance_id or self.member_id)


class Assignor(ABC):
    """A strategy. `assign` is pure; `user_data` and `on_assignment` carry what a member remembers of itself."""

    name: ClassVar[str]
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    # A custom cooperative assignor is checked for partitions handed over too early; ours withholds them itself.
    withholds_moving: ClassVar[bool] = False

    @abstractmethod
    def assign(self, cluster: ClusterView, members: Sequence[GroupMember]) -> Assignment:
        """Divide the partitions of all subscribed topics; every member is a key of the result."""

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """The data that this member adds to its subscription under this strategy; None: nothing."""
        return None

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027
        """Remember what this member was given, and in which generation."""


def in_order(members: Iterable[GroupMember]) -> list[GroupMember]:
    return sorted(members, key=lambda member: member.order)


def subscribers(cluster: ClusterView, members: Sequence[GroupMember]) -> dict[str, list[GroupMember]]:
    """The subscribers of each existing topic, in member order; topics sorted, unknown and empty ones left out."""
    ordered = in_order(members)
    wanted = sorted({topic for member in ordered for topic in member.topics})
    return {
        topic: [member for member in ordered if topic in member.topics]
        for topic in wanted
        if cluster.partitions.get(topic, 0) > 0
    }
