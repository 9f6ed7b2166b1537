"""What a shard says of one group when its broker asks: whom it waits for, and why it has rebalanced lately.

Kafka's protocol has no place for this. It goes over the relay (`Kind.DESCRIBE`), and from a broker by Ray.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgpack


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Why a rebalance began, and which member caused it."""

    wall_ms: int
    generation_id: int
    """The generation that ended."""
    reason: str
    member_id: str


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What tells an operator why a group makes no progress."""

    generation_id: int
    awaited_members: Sequence[str]
    """Whom the running phase of a rebalance waits for: members, and ids that were given out and not used yet."""
    phase_ends_in_ms: int | None
    """When that phase ends at the latest; None if none is running."""
    rebalances: Sequence[Rebalance]
    """The last rebalances that this shard has seen, oldest first."""

    def encode(self) -> bytes:
        """The payload of a DESCRIBED message."""
        rebalances = [[each.wall_ms, each.generation_id, each.reason, each.member_id] for each in self.rebalances]
        payload: bytes = msgpack.packb(
            [self.generation_id, list(self.awaited_members), self.phase_ends_in_ms, rebalances]
        )
        return payload

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """The status whose payload `encode` made."""
        generation_id, awaited, ends_in_ms, rebalances = msgpack.unpackb(payload)
        return cls(generation_id, tuple(awaited), ends_in_ms, tuple(Rebalance(*each) for each in rebalances))
