"""The other controllers of a cluster, as far as the one that leads asks something of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from actors.controller.metadata.quorum_log import NodeState
from actors.links.secret import Marks


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
