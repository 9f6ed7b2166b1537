"""Elections: when a voter stands, and to whom it gives its vote."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from actors.quorum.durable import State
from actors.quorum.log import Log, VoterId
from actors.quorum.messages import Vote


@dataclass(frozen=True, slots=True)
class Tuning:
    """The timing of voters, in seconds; the same for all of them. `chance` gives numbers from 0 up to 1."""

    chance: Callable[[], float]
    election_s: float = 1.0
    """The least election timeout: for so long a voter that has heard of a leader elects no other."""
    heartbeat_s: float = 0.25
    """After so long a leader begins another round."""
    most_entries: int = 500
    """So many are in one message."""

    def stands_in(self) -> float:
        """A random wait for a leader, in seconds. Rarely do two voters wait equally long."""
        return self.election_s * (1 + self.chance())


@dataclass(slots=True)
class Following:
    """A voter that waits for a leader, or has one; or one that has no vote, and only follows."""

    leader: VoterId | None = None


@dataclass(slots=True)
class Candidacy:
    """A voter that asks for votes in `epoch`; `pre`, whether it would get them, before it begins that epoch.

    Without the first question, a voter that was cut off would end the epoch of a leader that all others hear.
    """

    epoch: int
    pre: bool
    granted: set[VoterId] = field(default_factory=set)


@dataclass(slots=True)
class Hearing:
    """The time at which this voter last heard of a leader, and the time until which it waits for one."""

    tuning: Tuning
    heard_at: float = -math.inf
    stands_at: float = math.inf

    def heard(self, now: float) -> None:
        """A leader has said something; or this voter has begun, and does not know whether one has lately."""
        self.heard_at = now
        self.wait(now)

    def wait(self, now: float) -> None:
        """Begin to wait once more."""
        self.stands_at = now + self.tuning.stands_in()

    def hears(self, now: float) -> bool:
        """True while a leader may count on it that this voter elects nobody: see `Leading.confirmed_until`."""
        return now < self.heard_at + self.tuning.election_s


def deserves_vote(state: State, log: Log, candidate: VoterId, vote: Vote) -> bool:
    """True if a candidate may have the vote of a voter that hears no leader.

    One vote is given in an epoch, and none to a log that is not as up to date as the voter's own. A promise to vote
    binds nobody, but is made by the same rule.
    """
    free = vote.epoch > state.epoch or (vote.epoch == state.epoch and state.vote in (None, candidate))
    return free and vote.end >= log.end
