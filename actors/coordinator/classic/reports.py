"""A shard's reports on classic groups, beside those on all types. Times are wall times in ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from actors.coordinator.classic.records import CLASSIC
from actors.coordinator.groups.reports import (
    GENERATION,
    GroupStatus,
    Phase,
    RebalanceEvent,
    RebalanceView,
    Waited,
)

JOIN: Final = "join"
SYNC: Final = "sync"
_LATER: Final = {"since": 1}
"""Of fields that builds before version 1 of our own protocols do not know (`actors.links.codec`)."""


@dataclass(frozen=True, slots=True)
class ClassicStatus(GroupStatus):
    """The state of a classic group."""

    generation_id: int
    awaited_members: tuple[str, ...]
    """The members that the running phase of a rebalance waits for, and ids that were given out and not used yet."""
    phase_ends_in_ms: int | None
    """The time at which that phase ends at the latest; None if none is running."""
    rebalances: tuple[RebalanceEvent, ...]
    state: str = field(default="", metadata=_LATER)
    members: int | None = field(default=None, metadata=_LATER)

    @property
    def group_type(self) -> str:
        return CLASSIC

    @property
    def epoch(self) -> int:
        return self.generation_id

    @property
    def epoch_name(self) -> str:
        return GENERATION


@dataclass(frozen=True, slots=True)
class ClassicRebalanceView(RebalanceView):
    """A rebalance of a classic group: all join, then all sync."""

    group_id: str
    began_ms: int
    generation_id: int
    """The generation that ended."""
    reason: str
    member_id: str
    client_id: str = ""
    host: str = ""
    joined_ms: int | None = None
    """The end of the join phase; None while it runs, or if another rebalance broke it off."""
    ended_ms: int | None = None
    members: int = 0
    came: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    expelled: tuple[str, ...] = ()
    waited: tuple[Waited, ...] = ()
    processes: Mapping[str, str] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()

    @property
    def group_type(self) -> str:
        return CLASSIC

    @property
    def epoch(self) -> int:
        return self.generation_id

    @property
    def epoch_name(self) -> str:
        return GENERATION

    @property
    def state(self) -> str:
        return "PreparingRebalance" if self.joined_ms is None else "CompletingRebalance"

    @property
    def phase_names(self) -> tuple[str, ...]:
        return JOIN, SYNC

    @property
    def phases(self) -> tuple[Phase, ...]:
        join = Phase(JOIN, self.began_ms, self.joined_ms)
        return (join,) if self.joined_ms is None else (join, Phase(SYNC, self.joined_ms, self.ended_ms))
