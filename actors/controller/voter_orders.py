"""A person's orders about the controllers that vote, by their ids: one is added, or removed for good.

`voter_changes` knows a controller by its directory, too. Here that is found: of one who is to be added it is that of
the process which follows, and of one who is to be removed that of its vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from actors.controller.metadata.commits import Commit
from actors.controller.metadata.quorum_log import QuorumLog
from actors.controller.voter_changes import VoterChangeError, VoterChanges
from actors.runtime.ray_connection import ClusterError
from placement.records import Record

_LOOK_SECONDS: Final = 0.1


class VoterOrders(Protocol):
    """Takes orders while this controller leads. Each raises ClusterError, OSError, NotControllerError."""

    async def add(self, controller_id: int, timeout_s: float) -> None:
        """Give a controller that runs a vote; if another directory has its id and a vote, it takes that one's place."""

    async def remove(self, controller_id: int, timeout_s: float) -> None:
        """Take a controller's vote. It gets it back only if it is added."""


class _OfOneAlone:
    async def add(self, controller_id: int, timeout_s: float) -> None:
        raise ClusterError("the cluster has one controller: stop it, and start it with --controllers 3, to have more")

    async def remove(self, controller_id: int, timeout_s: float) -> None:
        raise ClusterError("the cluster has one controller, which stays")


NO_ORDERS: Final[VoterOrders] = _OfOneAlone()
"""Those for a controller that is the only one."""


class OrdersOfQuorum:
    """Those for one of several. `commit` decides records while it leads, `clock` gives seconds."""

    def __init__(self, log: QuorumLog, commit: Callable[[list[Record]], Commit], clock: Callable[[], float]) -> None:
        self._log = log
        self._changes = VoterChanges(log, commit, clock)
        self._clock = clock

    async def add(self, controller_id: int, timeout_s: float) -> None:
        """Give one that follows a vote."""
        deadline = self._clock() + timeout_s
        while (directory := self._following(controller_id)) is None:
            if controller_id in self._live_voters():
                return
            if self._clock() > deadline:
                raise ClusterError(f"controller {controller_id} does not follow within {timeout_s:.0f} s: see its log")
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            for former in [each for each in self._log.voters if each.id == controller_id]:
                await self._changes.remove(former.id, former.directory, timeout_s)
            if controller_id not in {each.id for each in self._log.voters}:  # the wanted ones get a vote by themselves
                await self._changes.add(controller_id, directory, timeout_s)
        except VoterChangeError as error:
            raise ClusterError(str(error)) from None

    def _following(self, controller_id: int) -> str | None:
        """The directory with which a controller follows: the one that it has told, if several are known."""
        found = [each.directory for each in self._log.observers if each.id == controller_id]
        told = self._log.decided.controllers.get(controller_id)
        return told.directory if told is not None and told.directory in found else next(reversed(found), None)

    def _live_voters(self) -> set[int]:
        """The voters that have said where they are with the directory that votes."""
        known = self._log.decided.controllers
        return {each.id for each in self._log.voters if each.id in known and known[each.id].directory == each.directory}

    async def remove(self, controller_id: int, timeout_s: float) -> None:
        """Take one's vote. One that has none and still follows is told to be removed once more."""
        directories = [each.directory for each in self._log.voters if each.id == controller_id]
        if not directories and self._following(controller_id) is not None:
            return  # its vote is taken already: the answer may have been lost
        if not directories:
            voters = ", ".join(str(each.id) for each in self._log.voters)
            raise ClusterError(f"controller {controller_id} has no vote; these have one: {voters}")
        try:
            await self._changes.remove(controller_id, directories[0], timeout_s)
        except VoterChangeError as error:
            raise ClusterError(str(error)) from None
