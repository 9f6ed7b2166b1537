"""N-C-02 and N-C-05: voters change one at a time; a new disk only follows; one voter alone costs nothing."""

from __future__ import annotations

import math

import pytest

from actors.quorum.durable import Journal, State
from actors.quorum.effects import BecameLeader, Committed, Persist, Resigned
from actors.quorum.errors import ChangeRefusedError, NotLeaderError
from actors.quorum.log import Entry, Snapshot, VoterId
from actors.quorum.messages import Append, Appended, Leads, Vote, Voted, WhoLeads
from tests.support.voters import NEW_C, A, B, C, D, E, Quorum, T, journal, sent, settle, voter

# --- alone


@pytest.mark.conformance("N-C-05")
def test_one_voter_alone_leads_at_once_and_commits_when_it_is_synced_with_no_timer_and_no_message() -> None:
    v = voter(A, journal((A,)))
    first = settle(v)
    assert first == [Persist((State(1, A),)), BecameLeader(1), Persist((Entry(1, 1),)), Committed((Entry(1, 1),))]
    assert v.propose(b"x") == 2
    assert settle(v) == [Persist((Entry(2, 1, b"x"),)), Committed((Entry(2, 1, b"x"),))]
    assert v.deadline() == math.inf


def test_one_that_was_left_alone_waits_because_another_may_not_know_yet() -> None:
    v = voter(A, journal((A, B), Entry(1, 1, voters=(A,))))
    assert settle(v) == []
    assert v.deadline() == T
    v.on_time(T)
    settle(v, T)
    assert v.leads


# --- who only follows


@pytest.mark.conformance("N-C-02")
def test_a_new_disk_finds_the_leader_and_gets_its_log_and_has_no_vote() -> None:
    q = Quorum(A, B)
    leader = q.elect(A)
    new = q.add(NEW_C)
    q.wait(3 * T)
    assert leader.leads
    assert new.leader == A
    assert new.log.end == leader.log.end
    assert not new.is_voter
    q.deaf = {A, B}
    q.wait(5 * T)
    assert new.epoch == leader.epoch, "it never stands"


def test_one_without_a_vote_asks_its_peers_who_leads() -> None:
    v = voter(NEW_C, Journal())
    v.on_time(T)
    assert sent(settle(v)) == [(VoterId(1, ""), WhoLeads()), (VoterId(2, ""), WhoLeads())]
    v.on_message(B, NEW_C, Leads(3, A), T)
    assert sent(settle(v)) == [(A, WhoLeads())]
    v.on_message(A, NEW_C, Leads(3, A), T)
    v.on_message(B, NEW_C, Leads(3, None), T)
    assert sent(settle(v)) == []
    v.on_message(A, NEW_C, Append(3, 1, (0, 0), (), 0), T)
    settle(v)
    v.on_message(B, NEW_C, Leads(2, D), T)
    assert sent(settle(v)) == [], "it has a leader"


def test_one_that_asks_for_votes_and_has_none_is_sent_the_log() -> None:
    q = Quorum(A, B)
    leader = q.elect(A)
    leader.on_message(D, A, Vote(9, (0, 0), True), q.now)
    assert D in {to for to, message in sent(settle(leader, q.now)) if not isinstance(message, Voted)}


def test_one_that_follows_and_is_silent_is_forgotten() -> None:
    q = Quorum(A, B)
    leader = q.elect(A)
    q.add(D)
    q.wait(2 * T)
    asked = q.said[WhoLeads]
    q.wait(10 * T)
    assert q.said[WhoLeads] == asked > 0, "one that answers is not forgotten"
    q.deaf = {D}
    q.wait(10 * T)
    q.now = leader.deadline()
    leader.on_time(q.now)
    assert {to for to, _ in sent(settle(leader, q.now))} == {B}


def test_a_voter_is_not_forgotten_however_long_it_is_silent() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.deaf = {C}
    q.wait(10 * T)
    leader.propose(b"x")
    q.deaf = set()
    q.wait(1)
    assert q.voters[C].log.end == leader.log.end


# --- changes


def test_a_new_disk_is_added_once_it_has_the_log_and_then_counts() -> None:
    q = Quorum(A, B)
    leader = q.elect(A)
    with pytest.raises(ChangeRefusedError, match="has not got the log yet"):
        leader.change((A, B, NEW_C), q.now)
    new = q.add(NEW_C)
    leader.on_message(NEW_C, A, WhoLeads(), q.now)
    leader.on_message(NEW_C, A, Appended(1, 2, False, 0), q.now)
    with pytest.raises(ChangeRefusedError, match="has not got the log yet"):
        leader.change((A, B, NEW_C), q.now)
    q.wait(3 * T)
    leader.change((A, B, NEW_C), q.now)
    q.deliver()
    q.deaf = {B}
    q.wait(1)
    assert new.is_voter
    index = leader.propose(b"with the new one")
    q.deliver()
    assert q.told[A][-1].index == index


@pytest.mark.conformance("N-C-02")
def test_one_change_at_a_time_and_only_after_an_entry_of_the_own_epoch_has_committed() -> None:
    q = Quorum(A, B, C, D)
    q.deaf = set()
    leader = q.voters[A]
    q.now += T
    leader.on_time(q.now)
    settle(leader, q.now)
    for pre in (True, False):
        for each in (B, C):
            leader.on_message(each, A, Voted(leader.epoch, 1, pre, True), q.now)
        settle(leader, q.now)
    with pytest.raises(ChangeRefusedError, match="anything of its epoch"):
        leader.change((A, B, C), q.now)
    for each in (B, C):
        leader.on_message(each, A, Appended(1, 1, True, 1), q.now)
    leader.change((A, B, C), q.now)
    settle(leader, q.now)
    with pytest.raises(ChangeRefusedError, match="has not committed yet"):
        leader.change((A, B), q.now)
    leader.on_message(B, A, Appended(1, 1, True, 2), q.now)
    leader.change((A, B), q.now)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ((A,), "at a time"),
        ((A, B, C), "at a time"),
        ((A, B, D), "at a time"),
        ((A, B, C, NEW_C), "one directory"),
        ((A, B, C, D), "has not got the log"),
    ],
)
def test_a_change_that_may_not_be_is_refused(after: tuple[VoterId, ...], why: str) -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    with pytest.raises(ChangeRefusedError, match=why):
        leader.change(after, q.now)
    with pytest.raises(NotLeaderError):
        q.voters[B].change((A, B), q.now)


def test_the_last_voter_stays() -> None:
    v = voter(A, journal((A,)))
    settle(v)
    with pytest.raises(ChangeRefusedError, match="last voter"):
        v.change((), 0.0)


def test_a_change_that_would_leave_too_few_who_answer_is_refused() -> None:
    q = Quorum(A, B, C, D, E)
    leader = q.elect(A)
    q.deaf = {D, E}
    q.wait(2 * T)
    for without_one in ((A, B, D, E), (A, C, D, E)):
        with pytest.raises(ChangeRefusedError, match="do not answer"):
            leader.change(without_one, q.now)
    leader.change((A, B, C, D), q.now)


def test_a_change_is_undone_with_its_entry() -> None:
    v = voter(B, journal((A, B, C), State(1), Entry(1, 1, voters=(A, B))))
    assert v.log.voters == (A, B)
    v.log.put(Entry(1, 2))
    assert v.log.voters == (A, B, C)


def test_a_snapshot_has_the_voters_of_its_index_and_not_those_since() -> None:
    j = journal((A, B, C), Entry(1, 1, voters=(A, B)), Entry(2, 1), Entry(3, 1, voters=(A,)))
    snapshot = j.log.snapshot_at(2, b"image")
    assert snapshot == Snapshot(2, 1, (A, B), b"image")
    j.log.begin_with(snapshot)
    assert (j.log.voters, j.log.changed_at) == ((A,), 3)


def test_a_leader_that_removes_itself_leads_until_that_has_committed_and_does_not_count() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.wait(0.5)
    q.deaf = {B, C}
    leader.change((B, C), q.now)
    q.deliver()
    assert leader.leads
    leader.on_message(B, A, Appended(1, leader.log.last_index, True, 2), q.now)
    assert leader.leads, "one of two is no majority"
    leader.on_message(C, A, Appended(1, leader.log.last_index, True, 2), q.now)
    assert Resigned(1) in settle(leader, q.now)
    leader.on_time(q.now + 10)
    assert leader.epoch == 1, "it never stands again"


def test_one_whose_removal_may_not_have_committed_stands_because_nobody_else_may_have_the_newest_log() -> None:
    """Found by the simulation: B could not win against A's log, and A did not stand."""
    disk = journal((A, B), State(1), Entry(1, 1), Entry(2, 1, voters=(B,)))
    q = Quorum(A, B, epoch=1)
    q.voters = {A: voter(A, disk), B: voter(B, journal((A, B), State(1), Entry(1, 1)))}
    q.wait(10 * T)
    assert q.voters[B].leads
    assert q.voters[B].log.voters == (B,)
