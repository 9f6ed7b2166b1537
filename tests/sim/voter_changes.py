"""Controllers are removed from the quorum and added again, during all other faults. Invariant:

removed-voter-stays-out   a controller that was removed gets no vote before somebody adds it again
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from actors.controller.metadata.commits import NotControllerError
from actors.controller.metadata.quorum_log import QuorumLog
from actors.controller.voter_changes import VoterChangeError, VoterChanges
from actors.quorum.log import VoterId, Voters
from tests.sim.controllers import SimController
from tests.sim.engine import SECOND

if TYPE_CHECKING:
    from tests.sim.run import Change, World

_TIMEOUT_S = 5.0


class ChangesOfVoters:
    """Asks whoever leads, and watches."""

    def __init__(self, world: World) -> None:
        self.sim = world.sim
        self.cluster = world.cluster
        self._out: set[VoterId] = set()
        self._removed = self._added = 0
        self._asked_until = 0  # one change at a time: its end may be that of its process

    def kinds(self) -> list[Any]:
        """The events; each happens in proportion to its occurrences in this list."""
        return [self.controller_is_removed, self.controller_is_added] * 2

    def figures(self) -> dict[str, int]:
        return {"voters_removed": self._removed, "voters_added": self._added}

    def hooks(self) -> list[Change]:
        product = QuorumLog.change

        def change(log: QuorumLog, after: Voters) -> None:
            for voter in after:
                if voter in self._out and voter not in log.voters:
                    self.sim.fail("removed-voter-stays-out", f"controller {voter.id} gets a vote, and was removed")
            product(log, after)

        return [(QuorumLog, "change", change)]

    # -- events

    def controller_is_removed(self) -> bool:
        """A person takes a vote: of one that leads, follows, is down or stands still."""
        leader = self._leader()
        if leader is None or leader.log is None or len(leader.log.voters) < 2 or self._is_asked:
            return False
        voter = self.sim.random.choice(leader.log.voters)
        self.sim.say(f"controller {voter.id} is to be removed")
        return self._ask(leader, lambda changes: self._remove(changes, voter))

    async def _remove(self, changes: VoterChanges, voter: VoterId) -> None:
        await changes.remove(voter.id, voter.directory, _TIMEOUT_S)
        self._removed += 1
        self._out.add(voter)
        self.sim.say(f"controller {voter.id} was removed")

    def controller_is_added(self) -> bool:
        """A person gives one that has no vote a vote."""
        leader = self._leader()
        if leader is None or leader.log is None or self._is_asked:
            return False
        voters = {voter.id for voter in leader.log.voters}
        without = [each for each in self.cluster.controllers if each.id not in voters and each.log is not None]
        if not without:
            return False
        other = self.sim.random.choice(without).log
        assert other is not None
        self.sim.say(f"controller {other.me.id} is to be added")
        self._out.discard(other.me)
        return self._ask(leader, lambda changes: self._add(changes, other.me))

    async def _add(self, changes: VoterChanges, voter: VoterId) -> None:
        await changes.add(voter.id, voter.directory, _TIMEOUT_S)
        self._added += 1
        self.sim.say(f"controller {voter.id} was added")

    def heal(self) -> None:
        """Have all controllers vote again."""
        if not self.controller_is_added():
            leader = self._leader()
            if leader is not None and leader.log is not None and len(leader.log.voters) == len(self.cluster.voters):
                return
        self.sim.after(SECOND, self.heal)

    def _leader(self) -> SimController | None:
        leading = [each for each in self.cluster.controllers if each.server is not None and each.log is not None]
        return max(leading, key=lambda each: each.server.epoch if each.server is not None else 0, default=None)

    @property
    def _is_asked(self) -> bool:
        return self.sim.now < self._asked_until

    def _ask(self, leader: SimController, change: Callable[[VoterChanges], Coroutine[Any, Any, None]]) -> bool:
        server, process = leader.server, leader.process
        assert server is not None
        assert process is not None
        assert leader.log is not None
        changes = VoterChanges(leader.log, server.publisher.commit, process.loop.time)
        self._asked_until = self.sim.now + round((_TIMEOUT_S + 5) * SECOND)
        self.sim.at(self.sim.now, process, lambda: process.run(self._told(lambda: change(changes))))
        return True

    async def _told(self, change: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await change()
        except (VoterChangeError, NotControllerError, OSError) as error:
            self.sim.say(f"the voters are not changed: {error}")
        self._asked_until = 0
