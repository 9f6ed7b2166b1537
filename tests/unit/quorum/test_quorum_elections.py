"""N-C-01 and N-C-02: who is elected, by whom, and when."""

from __future__ import annotations

import pytest

from actors.quorum.durable import State
from actors.quorum.effects import BecameLeader, Persist, Resigned, Send
from actors.quorum.errors import NotLeaderError, QuorumError
from actors.quorum.log import Entry, VoterId
from actors.quorum.messages import Append, Appended, Vote, Voted
from tests.support.voters import NEW_C, A, B, C, Quorum, T, journal, sent, settle, voter

ALL = (A, B, C)
LATE = T + 0.1
"""A voter that began at 0 hears no leader any more."""


def granted(asked: Voted) -> bool:
    return asked.granted


@pytest.mark.conformance("N-C-01")
def test_a_vote_is_synced_before_it_is_given() -> None:
    v = voter(A, journal(ALL))
    v.on_message(B, A, Vote(1, (0, 0), False), LATE)
    assert v.take() == [Persist((State(1, B),))]
    assert v.take() == []
    v.on_persisted(LATE)
    assert v.take() == [Send(B, Voted(1, 1, False, True))]


def test_a_candidate_votes_for_itself_only_once_that_is_synced() -> None:
    v = voter(A, journal((A, B)))
    v.on_time(LATE)
    v.on_message(B, A, Voted(0, 1, True, True), LATE)
    v.take()  # asks B, and has its own vote written
    v.on_message(B, A, Voted(1, 1, False, True), LATE)
    assert not v.leads
    v.on_persisted(LATE)
    assert v.leads


def test_one_vote_is_given_in_an_epoch_and_the_disk_remembers_for_whom() -> None:
    v = voter(A, journal(ALL, State(3, B)))
    for candidate, expected in ((C, False), (B, True), (C, False)):
        v.on_message(candidate, A, Vote(3, (0, 0), False), LATE)
        assert sent(settle(v)) == [(candidate, Voted(3, 3, False, expected))]
    v.on_message(C, A, Vote(4, (0, 0), False), LATE)
    assert sent(settle(v)) == [(C, Voted(4, 4, False, True))]


@pytest.mark.parametrize(
    ("end", "expected"), [((2, 2), True), ((2, 3), True), ((3, 1), True), ((2, 1), False), ((1, 9), False)]
)
@pytest.mark.parametrize("pre", [True, False])
def test_no_vote_goes_to_a_log_that_is_less_up_to_date(end: tuple[int, int], expected: bool, pre: bool) -> None:
    v = voter(A, journal(ALL, Entry(1, 1), Entry(2, 2)))
    v.on_message(B, A, Vote(9, end, pre), LATE)
    ((_, answer),) = sent(settle(v))
    assert isinstance(answer, Voted)
    assert answer.granted is expected


def test_a_refused_vote_and_a_promised_one_change_nothing() -> None:
    v = voter(A, journal(ALL, Entry(1, 1)))
    v.on_message(B, A, Vote(9, (0, 0), False), LATE)
    v.on_message(B, A, Vote(9, (1, 1), True), LATE)
    assert v.take() == [Send(B, Voted(0, 9, False, False)), Send(B, Voted(0, 9, True, True))]
    assert v.epoch == 0


@pytest.mark.parametrize("pre", [True, False])
def test_no_vote_is_given_while_a_leader_is_heard(pre: bool) -> None:
    v = voter(A, journal(ALL))
    v.on_message(C, A, Append(1, 1, (0, 0), (), 0), 10.0)
    settle(v)
    for now, expected in ((10.0, False), (10.0 + T - 0.01, False), (10.0 + T, True)):
        v.on_message(B, A, Vote(2, (0, 0), pre), now)
        assert sent(settle(v)) == [(B, Voted(2 if expected and not pre else 1, 2, pre, expected))]


@pytest.mark.parametrize("pre", [True, False])
def test_a_voter_that_begins_anew_may_have_heard_a_leader_and_elects_nobody_for_so_long(pre: bool) -> None:
    v = voter(A, journal(ALL), now=5.0)
    for now, expected in ((5.0 + T - 0.01, False), (5.0 + T, True)):
        v.on_message(B, A, Vote(1, (0, 0), pre), now)
        ((_, answer),) = sent(settle(v))
        assert isinstance(answer, Voted)
        assert answer.granted is expected


@pytest.mark.conformance("N-C-02")
def test_an_epoch_begins_only_when_a_majority_has_promised_its_votes() -> None:
    v = voter(A, journal(ALL))
    v.on_time(LATE)
    assert v.take() == [Send(B, Vote(1, (0, 0), True)), Send(C, Vote(1, (0, 0), True))]
    v.on_message(B, A, Voted(0, 1, True, False), LATE)
    assert (v.take(), v.epoch) == ([], 0)
    v.on_message(C, A, Voted(0, 1, True, True), LATE)
    assert v.take() == [Persist((State(1, A),))]
    v.on_persisted(LATE)
    assert v.take() == [Send(B, Vote(1, (0, 0), False)), Send(C, Vote(1, (0, 0), False))]
    v.on_message(C, A, Voted(1, 1, True, True), LATE)
    assert v.take() == [], "a late promise is no vote"
    v.on_message(C, A, Voted(1, 1, False, True), LATE)
    assert v.take()[0] == BecameLeader(1)


def test_a_voter_that_is_cut_off_ends_no_epoch() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.deaf = {C}
    q.voters[C].on_time(q.now + 10)
    assert sent(settle(q.voters[C], q.now)), "it asks, and nobody hears it"
    q.wait(3)
    q.deaf = set()
    q.wait(3)
    assert leader.leads
    assert {v.epoch for v in q.voters.values()} == {1}


def test_who_knows_of_a_newer_epoch_ends_the_older_one() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    leader.on_message(B, A, Appended(7, 1, False, 0), q.now)
    effects = settle(leader)
    assert Resigned(1) in effects
    assert Persist((State(7),)) in effects
    assert leader.leader is None
    with pytest.raises(NotLeaderError):
        leader.propose(b"")


@pytest.mark.conformance("N-C-02")
def test_a_leader_without_a_majority_resigns_after_the_least_election_timeout() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    since = q.now
    q.deaf = {B, C}
    q.wait(T - 0.1)
    assert leader.leads
    q.now = since + T
    assert leader.deadline() <= q.now
    leader.on_time(q.now)
    assert Resigned(1) in settle(leader)
    assert not leader.leads


def test_a_message_for_the_directory_that_was_here_before_is_not_heard() -> None:
    v = voter(NEW_C, journal((A, B)))
    for message in (Vote(1, (0, 0), False), Append(1, 1, (0, 0), (Entry(1, 1),), 1)):
        v.on_message(A, C, message, LATE)
    assert settle(v) == []
    v.on_message(A, NEW_C, Vote(1, (0, 0), False), LATE)
    assert sent(settle(v)) == [(A, Voted(1, 1, False, True))]


def test_a_vote_from_the_directory_that_was_there_before_does_not_count() -> None:
    v = voter(A, journal((A, B, NEW_C)))
    v.on_time(LATE)
    settle(v)
    v.on_message(C, A, Voted(0, 1, True, True), LATE)
    assert (settle(v), v.epoch) == ([], 0)


def test_a_leader_votes_for_nobody() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.wait(2 * T)
    leader.on_message(B, A, Vote(9, (9, 9), False), q.now)
    assert (B, Voted(1, 9, False, False)) in sent(settle(leader, q.now))
    assert leader.leads


def test_a_refused_candidate_takes_over_a_newer_epoch() -> None:
    v = voter(A, journal(ALL))
    v.on_time(LATE)
    settle(v)
    v.on_message(B, A, Voted(6, 1, True, False), LATE)
    assert v.take() == [Persist((State(6),))]
    v.on_persisted(LATE)
    v.on_time(LATE + T)
    assert v.take() == [Send(each, Vote(7, (0, 0), True)) for each in (B, C)]


def test_the_epoch_of_a_leader_is_synced_before_anything_is_answered() -> None:
    v = voter(A, journal(ALL))
    v.on_message(B, A, Append(4, 1, (0, 0), (), 0), 0)
    assert v.take() == [Persist((State(4),))]


def test_a_candidate_that_hears_a_leader_does_not_lead_when_its_own_vote_is_synced() -> None:
    v = voter(A, journal((A, B), Entry(1, 1, voters=(A,))))
    v.on_time(T)
    assert v.take() == [Persist((State(1, A),))]
    v.on_message(B, A, Append(2, 1, (1, 1), (), 0), T)
    v.on_persisted(T)
    assert not v.leads
    assert v.leader == B


def test_who_stands_and_who_votes_waits_anew() -> None:
    v = voter(A, journal(ALL))
    assert v.deadline() == T
    v.on_time(LATE)
    assert v.deadline() == LATE + T
    v.on_message(B, A, Vote(1, (0, 0), False), LATE + 0.5)
    assert v.deadline() == LATE + 0.5 + T


def test_two_leaders_of_one_epoch_are_a_bug_that_is_noticed() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    with pytest.raises(QuorumError, match="in one epoch"):
        leader.on_message(B, A, Append(1, 1, (0, 0), (), 0), q.now)


def test_the_next_attempt_asks_who_leads_too() -> None:
    """A voter that was removed while it was away stands in vain: so it hears of it."""
    v = voter(A, journal(ALL))
    v.on_time(LATE)
    first = {to for to, _ in sent(settle(v))}
    v.on_time(LATE + 2 * T)
    assert first == {B, C}
    assert VoterId(2, "") in {to for to, _ in sent(settle(v))}
