"""A pool's report of its members' work, for operators to see: by Ray to the controller, from there to the Monitor.

A member has a connection to its pool alone, and to brokers it speaks Kafka's protocol, which has no place for such
figures. So the pool tells every cluster on its Ray, and each shows what belongs to a group of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """A member's place in a pool: its figures count all actors that it has had."""

    instance_id: str
    """The `group.instance.id`, which stays when an actor is replaced."""
    handled: int
    dead_letters: int
    restarts: int
    busy_ms: int
    """The time in which it has had records in hand."""
    handling_ms: int
    """The time that the handler, or a hook of it, has been running; of several calls the first. 0 if none runs."""


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool. `pool` is what its members' instance ids begin with."""

    pool: str
    group_id: str
    members: tuple[MemberFigures, ...]
