"""The standing of a member in a classic group: its state, with the table of its transitions, and its generation.

Sans-IO.
"""

from __future__ import annotations

from enum import Enum

from actors import CoterieError
from actors.client.group.generation import Generation


class MemberState(Enum):
    """The states of a member. Heartbeats are sent in the last two states; in the second, aside, if partitions are kept.

    UNJOINED: in no group; a poll ends it by sending JoinGroup.
    PREPARING_REBALANCE: JoinGroup is under way; its answer ends it.
    COMPLETING_REBALANCE: joined, the assignment is awaited; the answer to SyncGroup ends it.
    STABLE: holds an assignment; a rebalance, a fencing or leaving ends it.
    """

    UNJOINED = "UNJOINED"
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    STABLE = "STABLE"


# Out of any state a member may leave or be expelled, and begin to join again.
TRANSITIONS: dict[MemberState, frozenset[MemberState]] = {
    MemberState.UNJOINED: frozenset({MemberState.UNJOINED, MemberState.PREPARING_REBALANCE}),
    MemberState.PREPARING_REBALANCE: frozenset(
        {MemberState.UNJOINED, MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE}
    ),
    MemberState.COMPLETING_REBALANCE: frozenset(
        {MemberState.UNJOINED, MemberState.PREPARING_REBALANCE, MemberState.STABLE}
    ),
    MemberState.STABLE: frozenset({MemberState.UNJOINED, MemberState.PREPARING_REBALANCE}),
}


class IllegalTransitionError(CoterieError):
    """A bug in the membership machine; the state has not changed."""


class Standing:
    """State and generation. They change in these methods only, each named after what has happened.

    `assignor` is the name of the one that the group has chosen for this generation.
    """

    def __init__(self) -> None:
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.assignor: str | None = None

    def _move(self, to: MemberState) -> None:
        if to not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"a member cannot go from {self.state.value} to {to.value}")
        self.state = to

    def _place(self, generation: Generation, assignor: str | None) -> None:
        self.generation = generation
        self.assignor = assignor

    def join_sent(self) -> None:
        """JoinGroup is on its way."""
        self._move(MemberState.PREPARING_REBALANCE)

    def id_given(self, member_id: str) -> None:
        """JoinGroup was answered with an id alone: to be sent once more with it (KIP-394)."""
        self._place(Generation(member_id=member_id), None)

    def joined(self, generation: Generation, assignor: str | None) -> None:
        """JoinGroup was answered with a place in a generation."""
        self._move(MemberState.COMPLETING_REBALANCE)
        self._place(generation, assignor)

    def synced(self) -> None:
        """SyncGroup was answered with an assignment."""
        self._move(MemberState.STABLE)

    def out(self, *, keep_member_id: bool) -> None:
        """Left, expelled or fenced. With its id, a member can still ask for its place in a newer generation."""
        self._move(MemberState.UNJOINED)
        self._place(Generation(member_id=self.generation.member_id if keep_member_id else ""), None)

    @property
    def rebalancing(self) -> bool:
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def heartbeating(self) -> bool:
        """True if the coordinator awaits heartbeats."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def counted(self) -> bool:
        """True if this member has a place in a generation, as far as it knows."""
        return self.generation.id >= 0

    @property
    def lost(self) -> bool:
        """True if its former partitions no longer belong to this member."""
        return not self.counted or not self.generation.member_id
