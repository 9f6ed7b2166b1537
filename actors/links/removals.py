"""The outlook of a broker's removal, and how far one is, as commands show it. It goes through Ray, pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class RemovalStatus:
    """A removal that is under way."""

    partitions: int
    """The number of partitions that the broker held when it began."""
    left: int
    """The number of those that it still holds."""
    under_way: int
    """The number of these that are being moved."""
    begun_ms: int
    throttle: int = 0
    """The bytes a second that each broker sends to followers out of sync meanwhile; 0: as many as else."""
    seconds_left: float | None = None
    """The time that it will take at the pace so far; None before a partition has moved."""
    waits_for: str | None = None
    """The reason for people why it cannot go on yet; None if it goes on by itself."""

    def __str__(self) -> str:
        text = f"{self.left:,} of {self.partitions:,} partitions left, {self.under_way:,} under way"
        if self.waits_for is not None:
            return f"{text}; {self.waits_for}"
        return text if self.seconds_left is None else f"{text}, about {self.seconds_left:,.0f} s"


class PlannedMove(NamedTuple):
    """A partition, its replicas, and those that it is to have."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    new_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemovalOutlook:
    """A broker's removal: before it is decided, while it is under way, or done."""

    broker_id: int
    refused: str | None = None
    """The reason why it cannot begin; None if it can, or has."""
    moves: tuple[PlannedMove, ...] = ()
    """The moves that it would make if it began now; none once it has begun."""
    status: RemovalStatus | None = None
    """Its progress; None if it has not begun."""
    removed: bool = False
    """True if the broker is gone."""
