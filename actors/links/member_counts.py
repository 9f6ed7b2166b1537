"""Counts of the records that a member is done with, and of those that it commits: messages of the link in `member`.

A record that was handled and not committed comes again when its member's process dies, and then counts there. So a
member says before each commit how many records it covers. If the process dies between the two, a few records count
twice, but whoever waits for a number of records never waits for some that do not come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class Done:
    """Records that were handled, and records that were set aside."""

    handled: int = 0
    dead_letters: int = 0

    @property
    def records(self) -> int:
        """All of them."""
        return self.handled + self.dead_letters

    def __add__(self, other: Done) -> Self:
        return type(self)(self.handled + other.handled, self.dead_letters + other.dead_letters)

    def __sub__(self, other: Done) -> Self:
        return type(self)(self.handled - other.handled, self.dead_letters - other.dead_letters)


@dataclass(frozen=True, slots=True)
class Committing:
    """Member -> starter, before it commits: the records of all its commits, those of this one included."""

    done: Done = field(default_factory=Done)
