"""A pool's members and the changes of its size, as users see them. Supervisors send both to programs, as pickles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The state of one slot of a pool.

    `handled` and `dead_letters` count the records of all actors that the slot has had, each once: if an actor dies, the
    records that it had not committed do not count any more, because they come again.
    """

    slot: int
    pid: int
    node_id: str
    state: str
    error: str | None
    member_id: str
    generation_id: int
    assignment: tuple[tuple[str, int], ...]
    handled: int
    dead_letters: int
    restarts: int
    version: int = 0
    """Of a deployed pool, 1, 2, ...; 0 if it is none."""


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A change of a pool's size, with its time (Unix milliseconds) and its reason."""

    wall_ms: int
    before: int
    after: int
    reason: str
