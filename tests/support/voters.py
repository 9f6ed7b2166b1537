"""Voters that a test drives by hand: it delivers, syncs and lets time pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from actors.quorum.durable import Journal, Piece, State
from actors.quorum.effects import Committed, Effect, Persist, Send
from actors.quorum.elections import Tuning
from actors.quorum.log import Entry, Snapshot, VoterId, Voters
from actors.quorum.messages import Message
from actors.quorum.voter import Voter

A, B, C, D, E = (VoterId(number, f"directory-{number}") for number in range(1, 6))
NEW_C = VoterId(C.id, "another-directory")
T = 1.0
"""The least election timeout (s)."""


def journal(voters: Voters, *pieces: Piece) -> Journal:
    """A disk on which these were the first voters."""
    found = Journal()
    for piece in (Snapshot(voters=voters), *pieces):
        found.apply(piece)
    return found


def voter(me: VoterId, disk: Journal, *, now: float = 0.0, most_entries: int = 500) -> Voter:
    """A voter that waits for exactly the least election timeout, and begins at `now`."""
    return Voter(me, disk, Tuning(lambda: 0.0, T, 0.25, most_entries), now, peers=(1, 2, 3))


def settle(one: Voter, now: float = 0.0) -> list[Effect]:
    """All that it wants done until nothing is left, with a disk that syncs at once."""
    found: list[Effect] = []
    while effects := one.take():
        found += effects
        if any(isinstance(effect, Persist) for effect in effects):
            one.on_persisted(now)
    return found


def sent(effects: Iterable[Effect]) -> list[tuple[VoterId, Message]]:
    """The messages that were sent, each with its receiver."""
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def committed(effects: Iterable[Effect]) -> list[Entry]:
    """The entries that were told as committed."""
    return [entry for effect in effects if isinstance(effect, Committed) for entry in effect.entries]


class Quorum:
    """Voters that hear one another, but for those of `deaf`, and have disks that sync at once."""

    def __init__(self, *ids: VoterId, epoch: int = 0) -> None:
        self.now = 0.0
        self.voters = {me: voter(me, journal(ids, State(epoch))) for me in ids}
        self.deaf: set[VoterId] = set()
        self.said: Counter[type[Message]] = Counter()
        self.told: dict[VoterId, list[Entry]] = {me: [] for me in ids}

    def add(self, me: VoterId) -> Voter:
        """A node with an empty disk."""
        self.voters[me] = voter(me, Journal(), now=self.now)
        self.told[me] = []
        return self.voters[me]

    def deliver(self) -> None:
        """Let them talk until nobody has anything to say."""
        while talk := [(me, *said) for me, one in self.voters.items() for said in sent(self._settled(me, one))]:
            for sender, to, message in talk:
                self.said[type(message)] += 1
                for me, one in self.voters.items():
                    if me.id == to.id and not {me, sender} & self.deaf:
                        one.on_message(sender, to, message, self.now)

    def _settled(self, me: VoterId, one: Voter) -> list[Effect]:
        effects = settle(one, self.now)
        self.told[me] += committed(effects)
        return effects

    def wait(self, seconds: float, *, step: float = 0.05) -> None:
        """Let time pass."""
        for _ in range(round(seconds / step)):
            self.now += step
            for me, one in self.voters.items():
                if me not in self.deaf and one.deadline() <= self.now:
                    one.on_time(self.now)
                    self.deliver()

    def elect(self, me: VoterId) -> Voter:
        """Have this one stand, when nobody hears a leader any more."""
        self.now += T
        one = self.voters[me]
        one.on_time(self.now)
        self.deliver()
        assert one.leads
        return one
