"""Reports of rebalances, from a shard to its broker, and from a broker to the Monitor. Times are wall times in ms.

A rebalance is told as its type of group has it: `group_status` has the classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from actors.coordinator.groups.reports import RebalanceView

NAMED_MAX: Final = 50
"""The most names of members that came, or that went in one way. If there are more, another entry counts the rest."""
_MORE: Final = re.compile(r"and (\d+) more")


def named(names: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The members that are named of those that came or went, and how many there were in all."""
    last = _MORE.fullmatch(names[-1]) if len(names) > NAMED_MAX else None
    return (tuple(names[:-1]), len(names) - 1 + int(last[1])) if last is not None else (tuple(names), len(names))


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """A rebalance that was under way when its shard last said so."""

    rebalance: RebalanceView
    awaited: tuple[str, ...]
    """The members that the present phase waits for, at most ten."""
    awaited_count: int
    phase_ends_ms: int | None
    """The time at which the phase ends at the latest."""


@dataclass(frozen=True, slots=True)
class Rebalances:
    """A shard's report of rebalances to its broker, before a PONG, if there is something to tell."""

    over: tuple[RebalanceView, ...]
    """Those that are over and were not told yet, in the order in which they ended."""
    dropped: int
    """The number of those that were over before these, since the last report, and are not known any more."""
    running: tuple[Rebalancing, ...]
    """All that run, at most RUNNING_MAX."""


RUNNING_MAX: Final = 200
AWAITED_MAX: Final = 10
