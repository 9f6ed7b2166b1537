"""A member's place in its group, which fences what it says. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generation:
    """A member's place in its group; the default is no place at all.

    `id` is the generation of a classic group, or the member epoch (KIP-848): Kafka has one name for both, too
    (`ConsumerGroupMetadata`, OffsetCommit). A coordinator refuses what carries an older one.
    """

    id: int = -1
    member_id: str = ""
