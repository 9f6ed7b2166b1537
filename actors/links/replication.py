"""The messages between a leader's and a follower's broker; `connection` carries them.

A partition is named by its topic's id and its index. `actors.log.replication` explains pushes and acknowledgements.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeAlias

from actors.links.codec import Codec
from actors.log.replication import Ack, Outcome, Push

PartitionPush: TypeAlias = tuple[bytes, int, Push]
"""The topic's id, the partition's index, and a push to it."""
PartitionAck: TypeAlias = tuple[bytes, int, Ack]
"""The topic's id, the partition's index, and what became of a push to it."""


@dataclass(frozen=True, slots=True)
class LeaderHello:
    """Leader -> follower: the first message, which broker connects."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class FollowerHello:
    """Follower -> leader: which broker this is, and the epoch it is registered at."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Pushes:
    """Leader -> follower: all pushes of one turn of the loop."""

    pushes: tuple[PartitionPush, ...]


@dataclass(frozen=True, slots=True)
class Acks:
    """Follower -> leader: an acknowledgement for each push of one message, in their order."""

    acks: tuple[PartitionAck, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """Leader -> follower: asks for a sign of life. `sent` is the leader's clock (seconds)."""

    sent: float


@dataclass(frozen=True, slots=True)
class Pong:
    """Follower -> leader: the ping sent at `sent` was read."""

    sent: float
    view: tuple[int, int]
    """The controller's epoch and the version of the metadata that the follower knows."""
    controller: bool
    """True if the follower is connected to a controller, or was within the last lease."""


@dataclass(frozen=True, slots=True)
class WantBatches:
    """Either way: the sender's batches with these offsets, both inclusive, are damaged, and it asks for sound ones."""

    topic_id: bytes
    index: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FoundBatches:
    """The answer: batches from `first` on, none past `last`, perhaps not all. b"" if there are none that are sound."""

    topic_id: bytes
    index: int
    first: int
    last: int
    records: bytes


ReplicationMessage: TypeAlias = LeaderHello | FollowerHello | Pushes | Acks | Ping | Pong | WantBatches | FoundBatches

_OUTCOMES = {int(outcome): outcome for outcome in Outcome}
_push_row = attrgetter(*[field.name for field in fields(Push)])
_ack_row = attrgetter(*[field.name for field in fields(Ack)])


def _push_rows(message: Pushes) -> tuple[Any, ...]:
    return ([(topic_id, index, _push_row(push)) for topic_id, index, push in message.pushes],)


def _pushes(values: list[Any]) -> Pushes:
    (rows,) = values
    return Pushes(tuple([(topic_id, index, _push(row)) for topic_id, index, row in rows]))


def _push(row: list[Any]) -> Push:
    *values, epochs, records = row
    values += (tuple([(epoch, start) for epoch, start in epochs]), records)
    return Push(*values)


def _ack_rows(message: Acks) -> tuple[Any, ...]:
    return ([(topic_id, index, _ack_row(ack)) for topic_id, index, ack in message.acks],)


def _acks(values: list[Any]) -> Acks:
    (rows,) = values
    return Acks(tuple([(topic_id, index, _ack(row)) for topic_id, index, row in rows]))


def _ack(row: list[Any]) -> Ack:
    epoch, number, outcome, end, watermark, epochs, start = row
    pairs = tuple([(each, its_end) for each, its_end in epochs])
    return Ack(epoch, number, _OUTCOMES[outcome], end, watermark, pairs, start)


# Each record that is produced crosses this link: its rows are not checked value by value.
CODEC: Codec[ReplicationMessage] = Codec(
    "replication",
    {1: LeaderHello, 2: FollowerHello, 3: Pushes, 4: Acks, 5: Ping, 6: Pong, 7: WantBatches, 8: FoundBatches},
    quick={Pushes: (_push_rows, _pushes), Acks: (_ack_rows, _acks)},
    since={WantBatches: 2, FoundBatches: 2},
)
