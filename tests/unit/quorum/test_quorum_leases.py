"""N-C-04: a leader confirms only within the least election timeout since a round that a majority acknowledged."""

from __future__ import annotations

import pytest

from actors.quorum.durable import State
from actors.quorum.log import VoterId
from actors.quorum.messages import Append, Appended, Voted, WhoLeads
from actors.quorum.voter import Voter
from tests.support.voters import A, B, C, D, E, Quorum, T, journal, sent, settle, voter

FIVE = (A, B, C, D, E)


@pytest.fixture
def leader() -> Voter:
    """One of five, elected at time 10; its first round has begun then."""
    v = voter(A, journal(FIVE))
    v.on_time(10)
    settle(v, 10)
    for pre in (True, False):
        for each in (B, C):
            v.on_message(each, A, Voted(v.epoch, 1, pre, True), 10)
        settle(v, 10)
    assert v.leads
    return v


def test_votes_alone_confirm_nothing(leader: Voter) -> None:
    assert not leader.confirms(10)


@pytest.mark.conformance("N-C-04")
def test_a_round_counts_from_when_it_began_and_once_a_majority_has_answered(leader: Voter) -> None:
    leader.on_message(B, A, Appended(1, 1, False, 0), 10.5)
    assert not leader.confirms(10.5)
    leader.on_message(C, A, Appended(1, 1, True, 1), 10.5)
    assert leader.confirms(10.5)
    assert leader.confirms(10 + T - 0.001)
    assert not leader.confirms(10 + T)


def test_the_last_round_that_a_majority_has_answered_counts(leader: Voter) -> None:
    for each, number in ((B, 1), (C, 1), (D, 1)):
        leader.on_message(each, A, Appended(1, number, True, 1), 10)
    for now, number in ((10.3, 2), (10.6, 3)):
        leader.on_time(now)
        assert {m.round for _, m in sent(settle(leader, now)) if isinstance(m, Append)} == {number}
    leader.on_message(B, A, Appended(1, 3, True, 1), 10.7)
    leader.on_message(C, A, Appended(1, 2, True, 1), 10.7)
    assert leader.confirms(10.3 + T - 0.001)
    assert not leader.confirms(10.3 + T)
    leader.on_message(B, A, Appended(1, 1, True, 1), 10.8)
    assert leader.confirms(10.3 + T - 0.001), "a late answer takes nothing back"


def test_what_is_sent_between_rounds_counts_from_the_one_before(leader: Voter) -> None:
    settle(leader, 10.2)
    for each in (B, C):
        leader.on_message(each, A, Appended(1, 1, True, 1), 10.2)
    leader.propose(b"late in the round")
    assert {m.round for _, m in sent(settle(leader, 10.2)) if isinstance(m, Append)} == {1}


def test_answers_of_those_who_have_no_vote_do_not_count(leader: Voter) -> None:
    leader.on_message(B, A, Appended(1, 1, True, 1), 10)
    for directory in ("x", "y", "z"):
        stranger = VoterId(C.id, directory)
        leader.on_message(stranger, A, WhoLeads(), 10)
        leader.on_message(stranger, A, Appended(1, 2, True, 1), 10)
    assert not leader.confirms(10)
    leader.on_message(C, A, Appended(1, 1, True, 1), 10)
    assert leader.confirms(10)


def test_a_new_leader_waits_for_its_first_answers(leader: Voter) -> None:
    leader.on_time(10 + T - 0.01)
    assert leader.leads
    leader.on_time(10 + T)
    assert not leader.leads


def test_a_follower_confirms_nobody_and_neither_does_a_leader_that_was_deposed() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.wait(0.5)
    assert leader.confirms(q.now)
    assert not q.voters[B].confirms(q.now)
    leader.on_message(B, A, Appended(2, 9, False, 0), q.now)
    assert not leader.confirms(q.now)


@pytest.mark.conformance("N-C-04")
def test_nobody_is_elected_while_a_leader_confirms() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.wait(1)
    q.deaf = {A}
    until = next(t / 100 for t in range(int(q.now * 100), 10_000) if not leader.confirms(t / 100))
    for me in (B, C):
        q.voters[me].on_time(until - 0.01)
    q.now = until - 0.01
    q.deliver()
    assert not q.voters[B].leads
    assert not q.voters[C].leads
    q.deaf = {A}
    q.wait(3)
    assert q.voters[B].leads or q.voters[C].leads


def test_one_that_is_alone_always_confirms() -> None:
    v = voter(A, journal((A,), State(4)))
    assert not v.confirms(0)
    settle(v)
    assert v.confirms(1e9)
