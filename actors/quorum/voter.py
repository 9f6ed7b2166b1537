"""A voter: the machine that is told what happens, and says what is to be done.

After each call, or several in one turn, `take` gives the effects; then `deadline` says when `on_time` is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from actors.quorum.durable import Journal, State
from actors.quorum.effects import BecameLeader, Effect, Outbox, Resigned, Then
from actors.quorum.elections import Candidacy, Following, Hearing, Tuning, deserves_vote
from actors.quorum.errors import NotLeaderError, QuorumError
from actors.quorum.log import Entry, VoterId, Voters
from actors.quorum.membership import check_change, is_majority
from actors.quorum.messages import (
    ANYBODY,
    Append,
    Appended,
    InstallSnapshot,
    Leads,
    Message,
    Taken,
    Vote,
    Voted,
    WhoLeads,
)
from actors.quorum.replica import Replica
from actors.quorum.replication import Follower, Leading


class Voter:
    """One voter, or a node that has no vote and only follows: which of them, its log says.

    `journal` is what its disk has, `peers` are the ids of nodes that may know who leads, and `now` is the time (s) by a
    clock that never goes back. It is to be read for each call, after what it is about has happened.
    """

    def __init__(self, me: VoterId, journal: Journal, tuning: Tuning, now: float, peers: Iterable[int] = ()) -> None:
        self.me = me
        self.log = journal.log
        self._state = journal.state
        self._peers = tuple(peers)
        self._tuning = tuning
        self._out = Outbox()
        self._replica = Replica(self.log, self._out)
        self._role: Following | Candidacy | Leading = Following()
        self._hearing = Hearing(tuning)
        self._hearing.heard(now)  # perhaps it has, before it ended: that leader may count on it
        if all(voters == (me,) for voters in self.log.sets_of_voters):
            self._stand(now, pre=False)  # nobody else ever had a vote

    # --- what it is

    @property
    def epoch(self) -> int:
        """The newest epoch that this voter knows of."""
        return self._state.epoch

    @property
    def committed(self) -> int:
        """The index up to which all has committed, as far as this voter knows."""
        return self._replica.committed

    @property
    def leads(self) -> bool:
        """True if it leads, as far as it knows. `confirms` says whether nobody else does."""
        return isinstance(self._role, Leading)

    @property
    def leader(self) -> VoterId | None:
        """The leader of its epoch, if it knows one."""
        match self._role:
            case Leading():
                return self.me
            case Following(leader):
                return leader
            case Candidacy():
                return None

    @property
    def is_voter(self) -> bool:
        """True if it has a vote, by its own log."""
        return self.me in self.log.voters

    @property
    def observers(self) -> list[VoterId]:
        """As the leader: the nodes that follow and have no vote."""
        others = self._role.others if isinstance(self._role, Leading) else ()
        return [each for each in others if each not in self.log.voters]

    def followers(self) -> dict[VoterId, Follower]:
        """As the leader: what it knows of each node, of its own, too. Else nothing."""
        return dict(self._role.followers) if isinstance(self._role, Leading) else {}

    def confirms(self, now: float) -> bool:
        """True if it leads and nobody else can: within the least election timeout since a round of a majority."""
        return isinstance(self._role, Leading) and now < self._role.confirmed_until

    # --- what happens

    def propose(self, records: bytes) -> int:
        """Append records; the index at which they may commit. Raises NotLeaderError."""
        return self._append(self._leading(), records)

    def change(self, after: Voters, now: float) -> int:
        """Have another set of voters; the index at which that may commit.

        Raises NotLeaderError, and ChangeRefusedError if it may not be, not yet, or would leave too few that answer.
        """
        leading = self._leading()
        check_change(self.log, self.epoch, self.committed, after)
        leading.check_able(after, self.committed, now)
        return self._append(leading, b"", after)

    def compact(self, index: int, image: bytes) -> None:
        """Have a snapshot instead of the entries up to this index, which have committed and add up to `image`."""
        self._replica.compact(index, image)

    def on_persisted(self, now: float) -> None:
        """All that was to be persisted is on disk."""
        self._out.persisted(now)

    def on_time(self, now: float) -> None:
        """The time may have come at which it has something to do."""
        match self._role:
            case Leading() as leading if now >= leading.resigns_at:
                self._follow_nobody(now)
            case Leading() as leading if leading.round_is_due(now):
                self._round(leading, now)
            case Following() | Candidacy() if now < self._hearing.stands_at:
                pass
            case Following() if self._may_stand:
                self._stand(now, pre=True)
            case Candidacy() if self._may_stand:
                self._ask_who_leads()  # perhaps it is a voter no more, and has not heard of it
                self._stand(now, pre=True)
            case Following() | Candidacy():
                self._hearing.wait(now)
                self._ask_who_leads()

    def on_message(self, sender: VoterId, to: VoterId, message: Message, now: float) -> None:
        """Another voter has said this to `to`. If that is the directory that was here before, nobody hears it."""
        if to != self.me and to.directory != ANYBODY:
            return
        match message:
            case Vote():
                self._on_vote(sender, message, now)
            case Voted():
                self._on_voted(sender, message, now)
            case Append() | InstallSnapshot() if message.epoch < self.epoch:
                self._out.send(sender, Appended(self.epoch, message.round, False, 0))
            case Append():
                self._follow(sender, message.epoch, now)
                self._out.send(sender, self._replica.on_append(message))
            case InstallSnapshot():
                self._follow(sender, message.epoch, now)
                self._out.send(sender, self._replica.on_snapshot(message))
            case Appended() | Taken():
                self._on_answer(sender, message, now)
            case WhoLeads():
                self._observe(sender, now)
                self._out.send(sender, Leads(self.epoch, self.leader))
            case Leads(_, VoterId() as leader) if self.leader is None and leader not in (sender, self.me):
                self._out.send(leader, WhoLeads())
            case Leads():
                pass

    def take(self) -> list[Effect]:
        """All that is to be done now."""
        if isinstance(self._role, Leading):
            for each in self._role.others:
                if self._role.lacks(each):
                    self._out.send(each, self._role.message_to(each, self.committed))
        return self._out.take()

    def deadline(self) -> float:
        """The time at which `on_time` is due; infinite for one that is alone."""
        return self._role.deadline if isinstance(self._role, Leading) else self._hearing.stands_at

    # --- elections

    def _remember(self, state: State, then: Then | None = None) -> None:
        self._state = state
        self._out.persist(state, then)

    def _become(self, role: Following | Candidacy | Leading) -> None:
        if isinstance(self._role, Leading):
            self._out.tell(Resigned(self._role.epoch))
        self._role = role

    @property
    def _may_stand(self) -> bool:
        """True if it has a vote, or had one before a change that may not have committed.

        If a leader that removes itself ends, it may be the only one that has the newest log: others cannot win then.
        """
        return self.is_voter or self.me in self.log.voters_at(self.committed)

    def _stand(self, now: float, *, pre: bool) -> None:
        candidacy = Candidacy(self.epoch + 1, pre)
        self._become(candidacy)
        self._hearing.wait(now)
        if not pre:
            self._remember(State(candidacy.epoch, self.me), partial(self._count, candidacy, self.me))
        for voter in self.log.voters:
            if voter != self.me:
                self._out.send(voter, Vote(candidacy.epoch, self.log.end, pre))
        if pre:
            self._count(candidacy, self.me, now)

    def _count(self, candidacy: Candidacy, voter: VoterId, now: float) -> None:
        if self._role is not candidacy:
            return
        candidacy.granted.add(voter)
        if not is_majority(candidacy.granted, self.log.voters):
            return
        if candidacy.pre:
            self._stand(now, pre=False)
        else:
            self._lead(now)

    def _on_vote(self, sender: VoterId, vote: Vote, now: float) -> None:
        self._observe(sender, now)
        hears = self.leads or self._hearing.hears(now)
        granted = not hears and deserves_vote(self._state, self.log, sender, vote)
        if granted and not vote.pre:
            self._become(Following())
            self._hearing.wait(now)
            if self._state != State(vote.epoch, sender):
                self._remember(State(vote.epoch, sender))
        self._out.send(sender, Voted(self.epoch, vote.epoch, vote.pre, granted))

    def _on_voted(self, sender: VoterId, voted: Voted, now: float) -> None:
        if voted.epoch > self.epoch:
            self._adopt(voted.epoch, now)
            return
        match self._role:
            case Candidacy(voted.asked, voted.pre) as candidacy if voted.granted:
                self._count(candidacy, sender, now)

    def _adopt(self, epoch: int, now: float) -> None:
        """There is a newer epoch. Its leader will say so."""
        self._remember(State(epoch))
        self._follow_nobody(now)

    def _follow_nobody(self, now: float) -> None:
        self._become(Following())
        self._hearing.wait(now)

    # --- leading

    def _lead(self, now: float) -> None:
        leading = Leading(self.me, self.epoch, self.log, self._tuning, now)
        self._become(leading)
        self._out.tell(BecameLeader(self.epoch))
        self._append(leading, b"")  # entries from before commit with it
        self._round(leading, now)

    def _leading(self) -> Leading:
        if isinstance(self._role, Leading):
            return self._role
        raise NotLeaderError(f"node {self.me.id} does not lead")

    def _append(self, leading: Leading, records: bytes, voters: Voters | None = None) -> int:
        entry = Entry(self.log.last_index + 1, leading.epoch, records, voters)
        acknowledged = Appended(leading.epoch, leading.round, True, entry.index)
        self._replica.put(entry, partial(self._on_answer, self.me, acknowledged))
        return entry.index

    def _round(self, leading: Leading, now: float) -> None:
        leading.begin_round(now)
        for each in leading.others:
            self._out.send(each, leading.message_to(each, self.committed))

    def _observe(self, sender: VoterId, now: float) -> None:
        """Somebody who hears no leader has asked. If this voter leads, it sends its log, vote or no vote."""
        if isinstance(self._role, Leading) and sender != self.me and self._role.observe(sender):
            self._round(self._role, now)

    def _on_answer(self, sender: VoterId, answer: Appended | Taken, now: float) -> None:
        if answer.epoch > self.epoch:
            self._adopt(answer.epoch, now)
        elif isinstance(self._role, Leading) and answer.epoch == self.epoch:
            self._role.on_answer(sender, answer)
            self._replica.commit(self._role.to_commit())
            if not self.is_voter and self.log.changed_at <= self.committed:
                self._follow_nobody(now)  # its own removal has committed

    # --- following

    def _follow(self, leader: VoterId, epoch: int, now: float) -> None:
        if self.leads and epoch == self.epoch:
            raise QuorumError(f"nodes {self.me.id} and {leader.id} lead in one epoch, {epoch}")
        if epoch > self.epoch:
            self._remember(State(epoch))
        self._become(Following(leader))
        self._hearing.heard(now)

    def _ask_who_leads(self) -> None:
        for node in dict.fromkeys([*self._peers, *(voter.id for voter in self.log.voters)]):
            if node != self.me.id:
                self._out.send(VoterId(node, ANYBODY), WhoLeads())
