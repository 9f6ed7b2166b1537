"""Bugs planted on purpose, to prove that the witness would find them. Product code knows nothing of them.

Each is a function that returns the changes of the product for one run: (owner, name, value).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import actors.quorum.voter
from actors.quorum.durable import Piece, State
from actors.quorum.effects import Outbox, Send, Then
from actors.quorum.elections import Hearing, Tuning, deserves_vote
from actors.quorum.errors import ChangeRefusedError
from actors.quorum.log import Entry, Log, Snapshot, VoterId, Voters
from actors.quorum.membership import check_change, majority_has
from actors.quorum.messages import Appended, Message, Taken, Vote
from actors.quorum.replication import Leading
from actors.quorum.voter import Voter

Changes = list[tuple[Any, str, Any]]
BUGS: dict[str, Callable[[], Changes]] = {}


def planted(name: str) -> Changes:
    """The changes of the product that plant a bug; none for no name. Raises KeyError."""
    return BUGS[name]() if name else []


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    BUGS[make.__name__.replace("_", "-")] = make
    return make


# --- elections --------------------------------------------------------------------------------------------------


@bug
def vote_not_synced() -> Changes:
    """A voter that starts again knows nothing of the last epoch, nor for whom it has voted in that."""

    persist = Outbox.persist

    def written(self: Outbox, piece: Piece, then: Then | None = None) -> None:
        persist(self, State(piece.epoch - 1) if isinstance(piece, State) else piece, then)

    return [(Outbox, "persist", written)]


@bug
def vote_for_a_shorter_log() -> Changes:
    """A voter does not compare logs."""

    def deserves(state: State, log: Log, candidate: VoterId, vote: Vote) -> bool:
        return deserves_vote(state, log, candidate, replace(vote, end=log.end))

    return [(actors.quorum.voter, "deserves_vote", deserves)]


@bug
def empty_disk_votes_under_its_old_id() -> Changes:
    """A voter is known by its node's id alone, without its disk's."""
    return [
        (VoterId, "__eq__", lambda self, other: isinstance(other, VoterId) and self.id == other.id),
        (VoterId, "__hash__", lambda self: hash(self.id)),
    ]


@bug
def pre_vote_granted_while_a_leader_lives() -> Changes:
    """A voter promises its vote although it hears a leader."""
    on_message, hears = Voter.on_message, Hearing.hears
    is_promise = False

    def told(self: Voter, sender: VoterId, to: VoterId, message: Message, now: float) -> None:
        nonlocal is_promise
        is_promise = isinstance(message, Vote) and message.pre
        on_message(self, sender, to, message, now)
        is_promise = False

    def heard(self: Hearing, now: float) -> bool:
        return not is_promise and hears(self, now)

    return [(Voter, "on_message", told), (Hearing, "hears", heard)]


# --- replication ------------------------------------------------------------------------------------------------


@bug
def older_epoch_committed_by_count() -> Changes:
    """An entry of an earlier leader commits because a majority has it."""

    class Counting(Leading):
        def __init__(self, me: VoterId, epoch: int, log: Log, tuning: Tuning, now: float) -> None:
            super().__init__(me, epoch, log, tuning, now)
            self.log = log

        def to_commit(self) -> int:
            return int(majority_has(self.followers[v].matched for v in self.log.voters))

    return [(actors.quorum.voter, "Leading", Counting)]


@bug
def acknowledged_before_synced() -> Changes:
    """An acknowledgement does not wait for the disk."""
    send = Outbox.send

    def sent(self: Outbox, to: VoterId, message: Message) -> None:
        if isinstance(message, Appended):
            self.tell(Send(to, message))  # type: ignore[arg-type]
        else:
            send(self, to, message)

    return [(Outbox, "send", sent)]


@bug
def no_truncation() -> Changes:
    """A follower keeps the entries that it has where the leader has others."""
    put = Log.put

    def kept(self: Log, entry: Entry) -> None:
        if entry.index > self.last_index:
            put(self, entry)

    return [(Log, "put", kept)]


@bug
def told_before_commit() -> Changes:
    """A leader tells all entries that are on its own disk."""

    class Hasty(Leading):
        def __init__(self, me: VoterId, epoch: int, log: Log, tuning: Tuning, now: float) -> None:
            super().__init__(me, epoch, log, tuning, now)
            self.me = me

        def to_commit(self) -> int:
            return self.followers[self.me].matched

    return [(actors.quorum.voter, "Leading", Hasty)]


@bug
def snapshot_without_voters() -> Changes:
    """A snapshot on disk does not name the voters."""
    persist = Outbox.persist

    def written(self: Outbox, piece: Piece, then: Then | None = None) -> None:
        persist(self, replace(piece, voters=()) if isinstance(piece, Snapshot) else piece, then)

    return [(Outbox, "persist", written)]


# --- leases -----------------------------------------------------------------------------------------------------


@bug
def deposed_leader_confirms() -> Changes:
    """A leader confirms, and does not resign, however few answer."""
    return [
        (Voter, "confirms", lambda self, now: self.leads),
        (Leading, "resigns_at", property(lambda self: math.inf)),
    ]


@bug
def round_counted_from_its_answer() -> Changes:
    """A round counts from the time of its answer, although the voter may have heard it long before."""
    on_message = Voter.on_message

    def told(self: Voter, sender: VoterId, to: VoterId, message: Message, now: float) -> None:
        on_message(self, sender, to, message, now)
        follower = self.followers().get(sender)
        if isinstance(message, Appended | Taken) and follower is not None:
            follower.acked_at = now

    return [(Voter, "on_message", told)]


# --- voters -----------------------------------------------------------------------------------------------------


@bug
def two_changes_of_voters_at_once() -> Changes:
    """A leader begins a change of voters before the last one has committed."""

    def checked(log: Log, epoch: int, committed: int, after: Voters) -> None:
        try:
            check_change(log, epoch, committed, after)
        except ChangeRefusedError as error:
            if "the last change of voters" not in str(error):
                raise

    return [(actors.quorum.voter, "check_change", checked)]
