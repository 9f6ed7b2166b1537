"""Voters that are added to the quorum and removed from it by a person's word: AddRaftVoter, RemoveRaftVoter (KIP-853).

Only the controller that leads does it. A removed controller is unlisted, and barred: neither its registration nor the
number of controllers that are wanted brings it back, though its process may still run. To add it lifts that. Kafka's
UpdateRaftVoter needs nothing of this: each controller says where it is, and which levels it knows (`Voting`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from actors import CoterieError
from actors.controller.metadata.commits import Commit
from actors.controller.voting import VotersLog
from actors.quorum.errors import ChangeRefusedError, NotLeaderError
from actors.quorum.log import VoterId, Voters
from actors.wire.errors import ErrorCode
from placement.records import SHARED, Record, UnregisterControllerRecord

_POLL_SECONDS: Final = 0.1


class VoterChangeError(CoterieError):
    """The set of voters stays as it was; after REQUEST_TIMED_OUT it may still change. `code` is Kafka's."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Log(VotersLog, Protocol):
    @property
    def leads(self) -> bool: ...


class VoterChanges:
    """`log` is the log of this controller, `commit` decides records while it leads, and `clock` gives seconds."""

    def __init__(self, log: _Log, commit: Callable[[list[Record]], Commit], clock: Callable[[], float]) -> None:
        self._log = log
        self._commit = commit
        self._clock = clock

    async def add(self, controller_id: int, directory: str, timeout_s: float) -> None:
        """Give a controller that follows a vote, once it has the log. Returns when the change has committed.

        Raises VoterChangeError, OSError, NotControllerError.
        """
        self._check()
        voter = VoterId(controller_id, directory)
        if any(each.id == controller_id for each in self._log.voters):
            text = f"controller {controller_id} is a voter already: to exchange its directory, remove it first"
            raise VoterChangeError(ErrorCode.DUPLICATE_VOTER, text)
        if directory in self._log.decided.barred:
            await self._record(voter, barred=False)
        await self._change(lambda: self._with(voter), timeout_s)

    async def remove(self, controller_id: int, directory: str, timeout_s: float) -> None:
        """Take a controller's vote. Returns when the change has committed.

        Raises VoterChangeError, OSError, NotControllerError.
        """
        self._check()
        voter = VoterId(controller_id, directory)
        if voter not in self._log.voters:
            known = ", ".join(f"{each.id} ({each.directory})" for each in self._log.voters)
            text = f"controller {controller_id} with directory {directory} is no voter; these are: {known}"
            raise VoterChangeError(ErrorCode.VOTER_NOT_FOUND, text)
        if self._log.voters == (voter,):
            raise VoterChangeError(ErrorCode.INVALID_REQUEST, f"controller {controller_id} is the last voter: it stays")
        await self._record(voter, barred=True)
        try:
            await self._change(lambda: tuple(each for each in self._log.voters if each != voter), timeout_s)
        except VoterChangeError:
            if self._log.leads and voter in self._log.voters:  # it was refused until now, and is not tried any more
                await self._record(voter, barred=False)
            raise

    def _check(self) -> None:
        if not self._log.leads:
            leader = self._log.leader
            who = "nobody is known to lead" if leader is None else f"controller {leader.id} leads"
            raise VoterChangeError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this controller does not lead: {who}")
        level = self._log.decided.level
        if level < SHARED:
            text = f"metadata.version is {level}: raise it to {SHARED} first"
            raise VoterChangeError(ErrorCode.UNSUPPORTED_VERSION, text)

    def _with(self, voter: VoterId) -> Voters:
        """The voters with this one, if it is none of them by now: the leader gives wanted ones their votes.

        It has to have said where it is, and with that which levels it knows.
        """
        if voter in self._log.voters:
            return self._log.voters
        known = self._log.decided.controllers.get(voter.id)
        if known is None or known.directory != voter.directory or voter not in self._log.observers:
            raise ChangeRefusedError(f"controller {voter.id} with directory {voter.directory} does not follow yet")
        return (*self._log.voters, voter)

    async def _record(self, voter: VoterId, *, barred: bool) -> None:
        await self._commit([UnregisterControllerRecord(voter.id, voter.directory, barred)]).wait()

    async def _change(self, after: Callable[[], Voters], timeout_s: float) -> None:
        """Change the set as soon as that is possible, and wait for it to commit."""
        deadline = self._clock() + timeout_s
        while why := self._try(after):
            await self._pause(deadline, why)
        while not self._log.has_settled_voters:  # once they are, this one may lead no more: it has removed itself
            await self._pause(deadline, "most voters have not acknowledged the change")

    async def _pause(self, deadline: float, why: str) -> None:
        self._check()
        if self._clock() > deadline:
            raise VoterChangeError(ErrorCode.REQUEST_TIMED_OUT, f"it takes too long: {why}")
        await asyncio.sleep(_POLL_SECONDS)

    def _try(self, after: Callable[[], Voters]) -> str:
        """Begin the change; the reason why that cannot be yet, else nothing."""
        try:
            voters = after()
            if voters != self._log.voters:
                self._log.change(voters)
        except (ChangeRefusedError, NotLeaderError) as error:
            return str(error)
        return ""
