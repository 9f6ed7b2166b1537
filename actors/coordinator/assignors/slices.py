"""An assignment in slices, so that a large one need not be made in one go.

The generator of an assignor yields after each slice of work, and returns the target. The caller may do anything else
between two slices, or drop the generator; the group that was given must not change meanwhile.
"""

from collections.abc import Generator
from typing import Protocol

from actors.coordinator.assignors.assignor import Assignor, GroupSpec, Target

SLICE = 1_000
"""The work of one slice: about as many partitions or members are looked at."""

Slices = Generator[None, None, Target]


class SlicedAssignor(Assignor, Protocol):
    """An assignor that can be interrupted."""

    def steps(self, group: GroupSpec) -> Slices:
        """The target that `assign` gives, in slices."""


class Pace:
    """Counts work, and says when a slice is full."""

    __slots__ = ("_done", "_limit")

    def __init__(self, limit: int = SLICE) -> None:
        self._done = 0
        self._limit = limit

    def full(self, work: int = 1) -> bool:
        self._done += work
        if self._done < self._limit:
            return False
        self._done = 0
        return True


def finish(slices: Slices) -> Target:
    """The target, without a pause."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            target: Target = end.value
            return target
