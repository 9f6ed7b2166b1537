"""The messages of voters to one another. Each message is from one voter to one, and both are named beside it.

An answer names what it answers: the epoch that was asked about, or the round. So it does not matter if messages are
lost, come late, twice, or in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.quorum.log import Entry, Snapshot, VoterId

ANYBODY: Final = ""
"""The directory of a receiver that is known by its id alone. It is asked who leads, and nothing else."""


class Message:
    """One voter's word to another."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Vote(Message):
    """Candidate -> voter: asks for the vote in `epoch`. `pre`: only asks whether it would be given."""

    epoch: int
    end: tuple[int, int]
    """The epoch and the index of the candidate's last entry."""
    pre: bool


@dataclass(frozen=True, slots=True)
class Voted(Message):
    """Voter -> candidate. `epoch` is the voter's own; `asked` and `pre` say which vote this is about."""

    epoch: int
    asked: int
    pre: bool
    granted: bool


@dataclass(frozen=True, slots=True)
class Append(Message):
    """Leader -> follower: the entries after `previous`, and how far all is committed. Without entries, it still leads.

    `previous`: the epoch and the index of the entry before them.
    """

    epoch: int
    round: int
    previous: tuple[int, int]
    entries: tuple[Entry, ...]
    committed: int


@dataclass(frozen=True, slots=True)
class Appended(Message):
    """Follower -> leader: its log is the leader's up to `index`, synced. If not `matched`, it may be, at best."""

    epoch: int
    round: int
    matched: bool
    index: int


@dataclass(frozen=True, slots=True)
class InstallSnapshot(Message):
    """Leader -> follower: a whole snapshot, because the leader has not got the entries any more."""

    epoch: int
    round: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Taken(Message):
    """Follower -> leader: it has all that is in the snapshot of this index, synced."""

    epoch: int
    round: int
    index: int


@dataclass(frozen=True, slots=True)
class WhoLeads(Message):
    """Anybody -> anybody: who leads? A leader that is asked by somebody who is no voter sends him its log."""


@dataclass(frozen=True, slots=True)
class Leads(Message):
    """The answer: the leader of `epoch`, None if the one who was asked does not know any."""

    epoch: int
    leader: VoterId | None
