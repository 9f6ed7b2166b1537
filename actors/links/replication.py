"""What leader and follower say to each other, once both have proved the cluster's secret (`control` has how).

A partition is named by its topic's id and its index. What a push and an acknowledgement mean stands in
`actors.log.replication`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from actors.links.codec import Codec
from actors.log.replication import Ack, Push

PartitionPush: TypeAlias = tuple[bytes, int, Push]
"""The topic's id, the partition's index, and a push to it."""
PartitionAck: TypeAlias = tuple[bytes, int, Ack]
"""The same, and what became of the push."""


@dataclass(frozen=True, slots=True)
class LeaderHello:
    """Leader -> follower: which broker comes."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class FollowerHello:
    """Follower -> leader: which broker this is, and the epoch it is registered at."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Pushes:
    """Leader -> follower: all that leaves in one turn."""

    pushes: tuple[PartitionPush, ...]


@dataclass(frozen=True, slots=True)
class Acks:
    """Follower -> leader: an acknowledgement for each push of one message, in their order."""

    acks: tuple[PartitionAck, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """Leader -> follower: a sign of life is asked for. `sent` is the leader's clock (seconds)."""

    sent: float


@dataclass(frozen=True, slots=True)
class Pong:
    """Follower -> leader: the ping of `sent` was read."""

    sent: float
    view: tuple[int, int]
    """The controller's epoch and the version of the metadata that the follower knows."""
    controller: bool
    """Whether the follower has a controller, or had one within a lease."""


ReplicationMessage: TypeAlias = LeaderHello | FollowerHello | Pushes | Acks | Ping | Pong

CODEC: Codec[ReplicationMessage] = Codec(
    "replication", {1: LeaderHello, 2: FollowerHello, 3: Pushes, 4: Acks, 5: Ping, 6: Pong}
)
