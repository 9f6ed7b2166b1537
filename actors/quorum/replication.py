"""Replication: what a leader knows of each follower, what it sends, what has committed and whether it still leads.

A leader counts time in rounds. Each begins with a message to everybody, and all that is sent until the next one has its
number. An answer to a round proves that at some time since its beginning the follower heard this leader, and from that
time on it elects nobody else for the least election timeout. So what a majority has answered says until when nobody
else leads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from actors.quorum.elections import Tuning
from actors.quorum.errors import ChangeRefusedError
from actors.quorum.log import Log, VoterId, Voters
from actors.quorum.membership import is_majority, majority_has
from actors.quorum.messages import Append, Appended, InstallSnapshot, Taken

_SILENT_ROUNDS: Final = 20
"""After so many without an answer, a follower that has no vote is forgotten. If it lives, it asks again."""
_SNAPSHOT_ROUNDS: Final = 4
_SNAPSHOT_ROUNDS_MAX: Final = 32
"""A snapshot that is not acknowledged is sent again after so many rounds, and each time after twice as many."""
_LONG_AGO: Final = (-math.inf, 0)
_EMPTY: Final = (0, 0)
"""The end of an empty log, which is the beginning of every log."""


@dataclass(slots=True)
class Follower:
    """A leader's knowledge of another voter, or of one that only follows."""

    next: int
    """The index of the next entry it is sent."""
    heard_round: int
    matched: int = 0
    """Its log is the leader's up to this index, synced."""
    acked_at: float = -math.inf
    """The beginning of the last round that it has answered."""
    waiting: bool = False
    """True while an answer is awaited. It is sent no more entries meanwhile, but all of them in the next round."""
    caught_up_at: float = -math.inf
    """The beginning of the last round that it has answered with all that the log had then."""
    snapshot_at: int = 0
    """The round from which on it may be sent a snapshot, if it needs one. Until then a former one may be on its way."""
    snapshot_rounds: int = _SNAPSHOT_ROUNDS
    """The pause after the next one."""

    def is_sent_snapshot(self, round_number: int) -> None:
        """A snapshot goes to it in this round."""
        self.snapshot_at = round_number + self.snapshot_rounds
        self.snapshot_rounds = min(2 * self.snapshot_rounds, _SNAPSHOT_ROUNDS_MAX)

    def has_snapshot(self) -> None:
        """It has taken one: if it needs another one, it is sent that at once."""
        self.snapshot_at, self.snapshot_rounds = 0, _SNAPSHOT_ROUNDS


class Leading:
    """A voter that leads in `epoch`. It keeps its own acknowledgements among those of its followers."""

    def __init__(self, me: VoterId, epoch: int, log: Log, tuning: Tuning, now: float) -> None:
        self.epoch = epoch
        self._me = me
        self._log = log
        self._tuning = tuning
        self._since = now
        self.round = 0
        self._began: dict[int, tuple[float, int]] = {}  # by round: when, and where the log ended
        self._next_round_at = now
        self.followers = {me: Follower(log.last_index + 1, 0, acked_at=math.inf)}
        for voter in log.voters:
            self._know(voter)

    def observe(self, sender: VoterId) -> bool:
        """Somebody has asked for the log. True if that node was not known before."""
        known = sender in self.followers
        self._know(sender)
        return not known

    def _know(self, voter: VoterId) -> None:
        self.followers.setdefault(voter, Follower(self._log.last_index + 1, self.round))

    # --- sending

    @property
    def others(self) -> list[VoterId]:
        """All but this voter itself."""
        return [each for each in self.followers if each != self._me]

    def begin_round(self, now: float) -> None:
        """From now on, answers prove that a follower has heard this leader since now."""
        self.round += 1
        self._began[self.round] = (now, self._log.last_index)
        self._began.pop(self.round - _SILENT_ROUNDS, None)
        self._next_round_at = now + self._tuning.heartbeat_s
        for each in self.others:
            silent = self.followers[each].heard_round < self.round - _SILENT_ROUNDS
            if silent and each not in self._log.voters:
                del self.followers[each]

    def lacks(self, to: VoterId) -> bool:
        """True if there are entries to be sent to a follower, and no answer of it is awaited."""
        follower = self.followers[to]
        return not follower.waiting and follower.next <= self._log.last_index and not self._is_loading(follower)

    def _is_loading(self, follower: Follower) -> bool:
        """True while a snapshot may be on its way to a follower that needs one."""
        return follower.next <= self._log.snapshot.index and self.round < follower.snapshot_at

    def message_to(self, to: VoterId, committed: int) -> Append | InstallSnapshot:
        """The entries that a follower lacks, or none. A large snapshot is not sent again while it is on its way."""
        follower, log = self.followers[to], self._log
        follower.waiting = True
        if self._is_loading(follower):
            return Append(self.epoch, self.round, _EMPTY, (), 0)
        before = follower.next - 1
        if before < log.snapshot.index:
            follower.is_sent_snapshot(self.round)
            return InstallSnapshot(self.epoch, self.round, log.snapshot)
        previous = (log.epoch_at(before), before)
        return Append(self.epoch, self.round, previous, log.after(before, self._tuning.most_entries), committed)

    # --- answers

    def on_answer(self, sender: VoterId, answer: Appended | Taken) -> None:
        """A follower, or this voter itself, says how far its log is this one."""
        follower = self.followers.get(sender)
        if follower is None:
            return
        follower.waiting = False
        follower.heard_round = max(follower.heard_round, answer.round)
        began, end = self._began.get(answer.round, _LONG_AGO)
        follower.acked_at = max(follower.acked_at, began)
        if isinstance(answer, Taken):
            follower.has_snapshot()
        if isinstance(answer, Taken) or answer.matched:
            follower.matched = max(follower.matched, answer.index)
            follower.next = follower.matched + 1
        elif answer.index >= follower.matched:
            follower.next = answer.index + 1
        if follower.matched >= end:
            follower.caught_up_at = max(follower.caught_up_at, began)

    def to_commit(self) -> int:
        """The index up to which entries have committed, by what is acknowledged: a majority has them, synced.

        Only an entry of this epoch commits by being counted, and all before it then. An older one on a majority can
        still be replaced: by a leader that has another entry there, of an epoch in between.
        """
        index = int(majority_has(self.followers[voter].matched for voter in self._log.voters))
        return index if self._log.epoch_at(index) == self.epoch else 0

    # --- changes of voters

    def check_able(self, after: Voters, committed: int, now: float) -> None:
        """Raise ChangeRefusedError if with these voters nothing could commit soon."""
        known = self.followers
        answering = [each for each in after if each in known and now < known[each].acked_at + self._tuning.election_s]
        if not is_majority(answering, after):
            raise ChangeRefusedError("most of these voters do not answer")
        for new in (voter for voter in after if voter not in self._log.voters):
            if new not in known or known[new].matched < committed:
                raise ChangeRefusedError(f"node {new.id} has not got the log yet")

    # --- time

    @property
    def confirmed_until(self) -> float:
        """The end of the lease: a majority that heard the same round elects nobody else before it.

        Voters ask the time when they are told something, and a leader before it begins a round: so their clocks need
        not agree, but run equally fast.
        """
        return self._tuning.election_s + majority_has(self.followers[voter].acked_at for voter in self._log.voters)

    @property
    def resigns_at(self) -> float:
        """The time at which it gives up, because no majority answers."""
        return max(self._since + self._tuning.election_s, self.confirmed_until)

    @property
    def deadline(self) -> float:
        """The time at which it has to do something again; infinite if it is alone."""
        return min(self._next_round_at, self.resigns_at) if self.others else math.inf

    def round_is_due(self, now: float) -> bool:
        """True if it is time for another round."""
        return bool(self.others) and now >= self._next_round_at
