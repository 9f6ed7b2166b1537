"""N-C-01 and N-C-04: what commits, what is told, and what becomes of logs that differ."""

from __future__ import annotations

import pytest

from actors.quorum.durable import State
from actors.quorum.effects import Committed, Persist, Restored, Send
from actors.quorum.errors import QuorumError
from actors.quorum.log import Entry, Snapshot
from actors.quorum.messages import Append, Appended, InstallSnapshot, Message, Taken, Voted
from actors.quorum.voter import Voter
from tests.support.voters import A, B, C, Quorum, T, committed, journal, sent, settle, voter

ALL = (A, B, C)
ONE, TWO, THREE = Entry(1, 1, b"one"), Entry(2, 1, b"two"), Entry(3, 1, b"three")


def led(v: Voter) -> Voter:
    """Have this voter elected by B."""
    v.on_time(T)
    settle(v, T)
    v.on_message(B, A, Voted(v.epoch, v.epoch + 1, True, True), T)
    settle(v, T)
    v.on_message(B, A, Voted(v.epoch, v.epoch, False, True), T)
    assert v.leads
    return v


def answers(v: Voter, *messages: Message) -> list[Message]:
    for message in messages:
        v.on_message(B, A, message, T)
    return [message for _, message in sent(settle(v, T))]


@pytest.mark.conformance("N-C-01")
def test_entries_are_synced_before_they_are_acknowledged() -> None:
    v = voter(A, journal(ALL, State(1)))
    v.on_message(B, A, Append(1, 5, (0, 0), (ONE, TWO), 0), T)
    assert v.take() == [Persist((ONE, TWO))]
    v.on_message(B, A, Append(1, 6, (1, 2), (), 0), T)
    assert v.take() == [], "not even another acknowledgement of the same"
    v.on_persisted(T)
    assert v.take() == [Send(B, Appended(1, 5, True, 2)), Send(B, Appended(1, 6, True, 2))]


def test_what_comes_while_the_disk_is_busy_is_written_together_afterwards() -> None:
    v = voter(A, journal((A,)))
    settle(v)
    for records in (b"one", b"two", b"three"):
        v.propose(records)
        if records == b"one":
            assert v.take() == [Persist((Entry(2, 1, b"one"),))]
        else:
            assert v.take() == []
    v.on_persisted(T)
    assert v.take() == [
        Committed((Entry(2, 1, b"one"),)),
        Persist((Entry(3, 1, b"two"), Entry(4, 1, b"three"))),
    ]


def test_entries_commit_when_a_majority_has_synced_them_and_followers_hear_of_it() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.deaf = {C}
    leader.propose(b"one")
    q.deliver()
    assert [entry.records for entry in q.told[A]] == [b"", b"one"]
    q.deaf = {B, C}
    leader.propose(b"two")
    q.deliver()
    assert len(q.told[A]) == 2
    q.deaf = set()
    q.wait(1)
    assert [entry.records for entry in q.told[A]] == [b"", b"one", b"two"]
    assert q.told[A] == q.told[B] == q.told[C]


def test_the_leaders_own_log_counts_once_it_is_synced() -> None:
    v = led(voter(A, journal(ALL)))
    settle(v, T)
    v.propose(b"one")
    (persist,) = v.take()
    assert persist == Persist((Entry(2, 1, b"one"),))
    v.on_message(B, A, Appended(1, 1, True, 2), T)
    assert committed(v.take()) == [Entry(1, 1)]
    v.on_persisted(T)
    assert committed(v.take()) == [Entry(2, 1, b"one")]


def test_an_entry_of_an_older_epoch_does_not_commit_by_being_counted() -> None:
    v = led(voter(A, journal(ALL, State(3), Entry(1, 2, b"of epoch 2")), most_entries=1))
    settle(v, T)
    v.on_message(B, A, Appended(4, 1, True, 1), T)
    assert committed(settle(v, T)) == [], "a majority has it, and one with an entry of epoch 3 may still be elected"
    v.on_message(B, A, Appended(4, 1, True, 2), T)
    assert committed(settle(v, T)) == [Entry(1, 2, b"of epoch 2"), Entry(2, 4)]


def test_a_follower_cuts_off_what_the_leader_does_not_have() -> None:
    v = voter(A, journal(ALL, State(2), ONE, TWO, THREE))
    other = Entry(2, 2, b"other")
    v.on_message(B, A, Append(2, 1, (1, 1), (other,), 0), T)
    assert v.take() == [Persist((other,))]
    assert v.log.after(0) == (ONE, other)


def test_a_late_push_cuts_nothing_off() -> None:
    v = voter(A, journal(ALL, State(1), ONE, TWO, THREE))
    assert answers(v, Append(1, 1, (0, 0), (ONE,), 0)) == [Appended(1, 1, True, 1)]
    assert v.log.last_index == 3


def test_an_entry_that_has_committed_is_never_cut_off() -> None:
    v = voter(A, journal(ALL, State(1), ONE, TWO))
    answers(v, Append(1, 1, (1, 2), (), 2))
    with pytest.raises(QuorumError, match="has committed"):
        v.on_message(B, A, Append(2, 1, (0, 0), (Entry(1, 2),), 0), T)


def test_a_follower_tells_no_more_as_committed_than_it_knows_to_be_the_leaders() -> None:
    v = voter(A, journal(ALL, State(2), ONE, TWO, THREE))
    v.on_message(B, A, Append(2, 1, (1, 1), (), 3), T)
    assert committed(settle(v)) == [ONE]


def test_where_logs_part_is_found_in_two_steps() -> None:
    """The end of the follower's log first; if that is another entry, where it knows that all has committed."""
    v = voter(A, journal(ALL, State(3), ONE, TWO, THREE))
    answers(v, Append(3, 1, (1, 1), (), 1))
    assert answers(v, Append(3, 2, (3, 9), (), 1)) == [Appended(3, 2, False, 3)]
    assert answers(v, Append(3, 3, (2, 3), (), 1)) == [Appended(3, 3, False, 1)]


def test_a_deposed_leader_is_told_the_newer_epoch_and_changes_nothing() -> None:
    v = voter(A, journal(ALL, State(5), ONE))
    snapshot = Snapshot(9, 4, ALL, b"")
    assert answers(v, Append(4, 1, (1, 1), (TWO,), 1), InstallSnapshot(4, 2, snapshot)) == [
        Appended(5, 1, False, 0),
        Appended(5, 2, False, 0),
    ]
    assert v.log.after(0) == (ONE,)


@pytest.mark.conformance("N-C-01")
def test_a_follower_that_is_far_behind_gets_a_snapshot_whole_with_its_voters() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.deaf = {C}
    for _ in range(5):
        leader.propose(b"x")
        q.deliver()
    leader.compact(5, b"image of five")
    q.deaf = set()
    q.wait(1)
    far = q.voters[C]
    assert far.log.snapshot == Snapshot(5, 1, ALL, b"image of five")
    assert (far.log.last_index, far.committed) == (6, 6)
    assert [entry.index for entry in q.told[C]] == [6], "the rest is in the snapshot"


def test_a_snapshot_that_is_on_its_way_is_not_sent_again_in_each_round() -> None:
    q = Quorum(A, B, C)
    leader = q.elect(A)
    q.deaf = {C}
    for number in range(4):
        leader.propose(b"%d" % number)
    q.deliver()
    leader.compact(5, b"image of five")
    q.wait(30)
    assert leader.confirms(q.now), "it goes on with the other one"
    assert q.said[InstallSnapshot] in range(3, 9), "after 1, 2, 4, 8, 8 ... s"
    q.deaf = set()
    q.wait(8.5)
    assert q.voters[C].log.snapshot.index == 5
    assert q.voters[C].committed == leader.committed == 5
    said = q.said[InstallSnapshot]
    q.wait(8.5)
    assert q.said[InstallSnapshot] == said, "it has been taken"


def test_a_follower_that_loads_a_snapshot_is_heard_to_live() -> None:
    v = led(voter(A, journal(ALL, Snapshot(5, 1, ALL, b"image"), State(3))))
    settle(v, T)
    v.on_message(B, A, Appended(v.epoch, 1, False, 0), T)
    assert [type(message) for _, message in sent(settle(v, T))] == [InstallSnapshot]
    v.on_time(v.deadline())
    (beat,) = [message for to, message in sent(settle(v, T)) if to == B]
    assert beat == Append(v.epoch, 2, (0, 0), (), 0)
    v.on_message(B, A, Appended(v.epoch, 2, True, 0), v.deadline())
    assert not [message for to, message in sent(settle(v, T)) if to == B], "it may still be on its way"
    assert v.confirms(v.deadline())


def test_a_snapshot_is_told_synced_and_then_acknowledged_and_once_only() -> None:
    v = voter(A, journal(ALL, State(1), ONE))
    snapshot = Snapshot(7, 1, (A, B), b"image")
    v.on_message(B, A, InstallSnapshot(1, 3, snapshot), T)
    assert v.take() == [Restored(snapshot), Persist((snapshot,))]
    v.on_persisted(T)
    assert v.take() == [Send(B, Taken(1, 3, 7))]
    assert (v.log.voters, v.log.last_index, v.committed) == ((A, B), 7, 7)
    assert answers(v, InstallSnapshot(1, 4, snapshot)) == [Taken(1, 4, 7)]


@pytest.mark.parametrize(("epoch", "left"), [(1, (THREE,)), (2, ())])
def test_entries_after_a_snapshot_stay_if_the_log_has_its_last_entry(epoch: int, left: tuple[Entry, ...]) -> None:
    v = voter(A, journal(ALL, State(2), ONE, TWO, THREE))
    answers(v, InstallSnapshot(2, 1, Snapshot(2, epoch, ALL, b"image")))
    assert v.log.after(2) == left


def test_a_snapshot_of_what_is_known_to_have_committed_changes_nothing() -> None:
    v = voter(A, journal(ALL, State(1), ONE, TWO, THREE))
    answers(v, Append(1, 1, (3, 1), (), 0), Append(1, 1, (1, 2), (), 2))
    assert answers(v, InstallSnapshot(1, 2, Snapshot(1, 1, ALL, b"old"))) == [Taken(1, 2, 1)]
    assert v.log.after(0) == (ONE, TWO, THREE)


def test_what_the_follower_has_in_a_snapshot_matches() -> None:
    v = voter(A, journal(ALL, State(1), ONE, TWO, Snapshot(2, 1, ALL, b"image")))
    assert answers(v, Append(1, 1, (0, 0), (ONE,), 0)) == [Appended(1, 1, True, 1)]
    v.on_message(B, A, Append(1, 1, (1, 1), (TWO, THREE), 3), T)
    assert v.take() == [Committed((THREE,)), Persist((THREE,))]


def test_a_snapshot_of_another_past_takes_the_voters_of_that_along() -> None:
    v = voter(A, journal(ALL, State(1), ONE, TWO, Entry(3, 1, voters=(A, B))))
    answers(v, InstallSnapshot(2, 1, Snapshot(2, 2, ALL, b"image")))
    assert (v.log.voters, v.log.last_index) == (ALL, 2)


def test_a_late_answer_takes_nothing_back() -> None:
    v = led(voter(A, journal(ALL, State(1), ONE, TWO)))
    settle(v, T)
    v.on_message(B, A, Appended(2, 1, True, 3), T)
    v.on_message(B, A, Appended(2, 1, True, 1), T)
    v.on_message(B, A, Appended(2, 1, False, 0), T)
    v.propose(b"next")
    (append,) = [message for to, message in sent(settle(v, T)) if to == B]
    assert isinstance(append, Append)
    assert (append.previous, len(append.entries)) == ((2, 3), 1)


def test_so_many_entries_are_in_one_message() -> None:
    entries = [Entry(index, 1) for index in range(1, 11)]
    v = led(voter(A, journal(ALL, State(1), *entries), most_entries=3))
    settle(v, T)
    v.on_message(B, A, Appended(2, 1, False, 4), T)
    (append,) = [message for _, message in sent(settle(v, T))]
    assert isinstance(append, Append)
    assert [entry.index for entry in append.entries] == [5, 6, 7]


def test_only_what_has_committed_may_be_in_a_snapshot() -> None:
    v = led(voter(A, journal(ALL)))
    settle(v, T)
    with pytest.raises(QuorumError):
        v.compact(1, b"")


def test_a_new_leader_has_all_that_has_committed() -> None:
    q = Quorum(A, B, C)
    q.elect(A).propose(b"one")
    q.deaf = {C}
    q.deliver()
    assert len(q.told[A]) == 2
    q.deaf = {A}
    q.now += 2 * T
    q.voters[C].on_time(q.now)
    q.deliver()
    assert not q.voters[C].leads, "it lacks an entry"
    assert q.elect(B).log.entry(2).records == b"one"
    q.wait(1)
    assert [entry.epoch for entry in q.told[C]] == [1, 1, q.voters[B].epoch]


def test_an_answer_of_another_epoch_or_of_a_stranger_says_nothing() -> None:
    v = led(voter(A, journal(ALL)))
    settle(v, T)
    v.on_message(B, A, Appended(0, 1, True, 1), T)
    v.on_message(C, A, Appended(0, 1, True, 1), T)
    assert committed(settle(v, T)) == []
