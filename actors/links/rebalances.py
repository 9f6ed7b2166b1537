"""A group's rebalance as shards tell it and consoles show it. Times are wall times in ms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

WAITED_MAX: Final = 5
"""How many of those that were waited for are named."""
NAMED_MAX: Final = 50
"""How many are named of those that came, and of those that went in each way. Of more, the last name says how many."""
_MORE: Final = re.compile(r"and (\d+) more")


def named(names: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The members that are named of those that came or went, and how many there were in all."""
    last = _MORE.fullmatch(names[-1]) if len(names) > NAMED_MAX else None
    return (tuple(names[:-1]), len(names) - 1 + int(last[1])) if last is not None else (tuple(names), len(names))


@dataclass(frozen=True, slots=True)
class Waited:
    """Whom a phase of a rebalance waited for, and how long it was waited for this member."""

    member_id: str
    phase: str
    """`join` or `sync`."""
    ms: int
    client_id: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceView:
    """A rebalance, from what caused it until all members had their assignments."""

    group_id: str
    began_ms: int
    generation_id: int
    """The generation that ended."""
    reason: str
    member_id: str
    """Who caused it."""
    client_id: str = ""
    host: str = ""
    joined_ms: int | None = None
    """When the join phase was over; None while it runs, or if another rebalance broke it off."""
    ended_ms: int | None = None
    """When the assignment was safe and members could have it."""
    members: int = 0
    """After it."""
    came: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    expelled: tuple[str, ...] = ()
    """Members whose sessions ended, or who did not come in time."""
    waited: tuple[Waited, ...] = ()
    """The longest first, at most five."""
    processes: Mapping[str, str] = field(default_factory=dict)
    """What members that came have said of their processes, by member id (`member_process.kind_and_process`)."""
    replaced: tuple[str, ...] = ()
    """Static members whose next incarnations came, under other ids: they did not leave, and most were killed."""


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """A rebalance that was under way when its shard last said so."""

    rebalance: RebalanceView
    awaited: tuple[str, ...]
    """Whom the present phase waits for, at most ten."""
    awaited_count: int
    phase_ends_ms: int | None
    """When the phase ends at the latest."""


@dataclass(frozen=True, slots=True)
class Rebalances:
    """What a shard tells its broker of rebalances, each time that it is pinged and there is something to tell."""

    over: tuple[RebalanceView, ...]
    """Those that are over and were not told yet, in the order in which they ended."""
    dropped: int
    """How many more there were since the last time, before these. They are not known any more."""
    running: tuple[Rebalancing, ...]
    """All that run, at most RUNNING_MAX."""


RUNNING_MAX: Final = 200
AWAITED_MAX: Final = 10
