"""The other controllers of a cluster, as far as the one that leads asks something of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from actors.links.secret import Marks
from actors.quorum.log import VoterId


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node of a quorum as its leader knows it: one that votes, or one that only follows.

    `offset` is the number of records that its log has, 0 where that is not known. Ages are in seconds: since it was
    last heard, and since it last had all; None means never.
    """

    node: VoterId
    votes: bool
    leads: bool
    offset: int
    heard_ago_s: float | None
    caught_up_ago_s: float | None


class Others(Protocol):
    """The other controllers."""

    async def learn(self, marks: Marks, timeout_s: float) -> None:
        """Have each of them take over the secrets with these marks. Raises ConnectionError if one has not."""

    def nodes(self) -> Sequence[NodeState]:
        """All controllers, this one, too, while it leads several or is followed. Else nothing."""


class _Nobody:
    async def learn(self, marks: Marks, timeout_s: float) -> None:
        """There is none to learn it."""

    def nodes(self) -> Sequence[NodeState]:
        return ()


NOBODY: Final[Others] = _Nobody()
"""Of a controller that is the only one."""
