"""What a shard says of one group when its broker asks: whom it waits for, and why it has rebalanced lately.

Kafka's protocol has no place for this. It goes over the relay (`Kind.DESCRIBE`), and from a broker over the
control link.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    awaited_members: tuple[str, ...]
    """Whom the running phase of a rebalance waits for: members, and ids that were given out and not used yet."""
    phase_ends_in_ms: int | None
    """When that phase ends at the latest; None if none is running."""
    rebalances: tuple[Rebalance, ...]
    """The last rebalances that this shard has seen, oldest first."""
