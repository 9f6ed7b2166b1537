"""Controllers that are none any more are unlisted by the one that leads; one that was removed does not come back."""

from __future__ import annotations

import asyncio

import pytest

from actors.controller.acceptor import InForce
from actors.controller.voting import Voting
from actors.links.secret import Marks
from actors.quorum.errors import ChangeRefusedError
from actors.quorum.log import VoterId, Voters
from actors.runtime.environment import REAL
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata, ControllerInfo
from placement.records import RegisterControllerRecord, UnregisterControllerRecord
from tests.support.runtime_helpers import SECRET, Clock, until

ONE, TWO, THREE = (VoterId(number, f"d{number}") for number in (1, 2, 3))
TWO_ANEW = VoterId(2, "another directory")


class Leading:
    """A leader's log, as far as its voters go."""

    def __init__(self, loop: Clock, voters: Voters, *observers: VoterId) -> None:
        self._loop = loop
        self.me = self.leader = ONE
        self.voters = voters
        self.observers = list(observers)
        self.decided = ClusterMetadata()
        self.seen: dict[int, ControllerInfo] = {}
        self.refuses = False
        self.rounds = 0
        self.late_s = 0.0
        for each in (*voters, *observers):
            self.registered(each)

    def registered(self, voter: VoterId) -> None:
        self.decided.apply(RegisterControllerRecord(ControllerInfo(voter.id, voter.directory, "h", 1, 6)))

    def on_time(self) -> None:
        self.rounds += 1

    def deadline(self) -> float:
        return asyncio.get_running_loop().time() - self.late_s

    def change(self, after: Voters) -> None:
        if self.refuses:
            raise ChangeRefusedError("not yet")
        self.voters = after
        self.observers = [each for each in self.observers if each not in after]


class World:
    def __init__(self, voters: Voters, *observers: VoterId) -> None:
        loop = asyncio.get_running_loop()
        self.clock = Clock(loop)
        self.log = Leading(self.clock, voters, *observers)
        self.gone: list[VoterId] = []
        in_force = InForce(BrokerConfig.from_mapping({}), SECRET)
        self.voting = Voting(
            *(in_force, self.clock, REAL.chance, lambda: self.log, lambda node: None),  # type: ignore[arg-type]
            wanted=(1, 2, 3),
            gone=self._gone,
            learn=self._learn,
        )
        self.voting.begin(("h", 1))

    def _gone(self, controller: ControllerInfo) -> None:
        self.gone.append(VoterId(controller.id, controller.directory))
        self.log.decided.apply(UnregisterControllerRecord(controller.id, controller.directory, barred=False))

    async def _learn(self, marks: Marks) -> None:
        raise AssertionError("nobody asks")

    async def rounds(self, more: int = 3) -> None:
        upto = self.log.rounds + more
        await until(lambda: self.log.rounds >= upto, what="rounds")


@pytest.mark.conformance("N-C-08")
async def test_one_that_neither_votes_nor_follows_is_unlisted_after_a_while() -> None:
    w = World((ONE, TWO), THREE)
    w.log.observers = []
    await w.rounds()
    assert w.gone == [], "a new leader has not heard of all that follow yet"
    w.clock.ahead += 11
    await w.rounds()
    assert w.gone == [THREE]
    assert w.log.decided.controllers.keys() == {1, 2}
    w.voting.close()


@pytest.mark.conformance("N-C-08")
async def test_those_that_vote_or_follow_stay_listed() -> None:
    w = World((ONE, TWO), THREE)
    w.log.refuses = True
    w.clock.ahead += 60
    await w.rounds()
    w.clock.ahead += 60
    await w.rounds()
    assert w.gone == []
    w.voting.close()


@pytest.mark.conformance("N-C-08")
async def test_one_that_leads_no_more_and_then_again_waits_anew() -> None:
    w = World((ONE, TWO), THREE)
    w.log.observers = []
    await w.rounds()
    w.log.leader = TWO
    w.clock.ahead += 11
    await w.rounds()
    w.log.leader = ONE
    await w.rounds()
    assert w.gone == []
    w.voting.close()


@pytest.mark.conformance("N-C-08")
async def test_a_removed_directory_gets_no_vote_by_itself_and_another_one_of_that_node_does() -> None:
    w = World((ONE, TWO), THREE)
    w.log.decided.apply(UnregisterControllerRecord(3, THREE.directory, barred=True))
    w.log.registered(THREE)  # as by a leader that had not heard of it
    await w.rounds()
    assert list(w.log.voters) == [ONE, TWO]
    new = VoterId(3, "an empty disk")
    w.log.observers = [new]
    w.log.registered(new)
    await w.rounds()
    assert list(w.log.voters) == [ONE, TWO, new]
    w.voting.close()


async def test_a_voter_with_another_disk_takes_the_place_of_the_former_one() -> None:
    w = World((ONE, TWO), TWO_ANEW)
    await w.rounds(5)
    assert list(w.log.voters) == [ONE, TWO_ANEW]
    w.voting.close()


async def test_a_time_that_has_come_already_is_waited_for_as_any_other() -> None:
    """The handle of such a call has no time on a loop of uvloop's."""
    w = World((ONE, TWO))
    w.log.late_s = 10.0
    for _ in range(3):
        w.voting.begin(("h", 1))
    before = w.log.rounds
    await w.rounds(1)
    assert w.log.rounds > before
    w.voting.close()
