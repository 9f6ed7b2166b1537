"""Leader and follower of one partition, message by message: the watermark and the in-sync set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.log.replication import FollowerReplica, LeaderReplica, NoLog, Outcome, trivially_matched
from tests.support.replica_log import LAG_MS, MemoryLog, exchange, joined, leading, led, proposed, written


def test_a_leader_without_a_log_has_followers_in_sync_and_keeps_what_it_knows_of_them() -> None:
    leader = leading(0, NoLog(), leader_epoch=3, replicas=(0, 1, 2), isr=(0,), partition_epoch=1, min_insync=2)
    leader.connect(1, 5, 0)
    push = leader.take_push(1, 100, 0)
    assert push is not None
    ack = trivially_matched(push)
    assert ack is not None
    assert not leader.on_ack(1, ack, 0)
    assert proposed(leader, 0) == [0, 1]
    log = written((3, 2))
    leader.log = log
    follower = FollowerReplica(MemoryLog(), 3)
    assert [ack.outcome for ack in exchange(leader, 1, follower)] == [Outcome.MATCHED]
    leader.update((0, 1, 2), (0, 1), 2, 2, 0, 0)
    assert (log.high_watermark, follower.log.log_end_offset) == (2, 2)


# --- the watermark ---


def test_the_watermark_waits_for_every_member_of_the_in_sync_set() -> None:
    log = written()
    leader = led(log)
    one, two = MemoryLog(), MemoryLog()
    followers = joined(leader, b1=one, b2=two)
    log.append([b"a", b"b"], 1)
    assert not leader.advance()
    exchange(leader, 1, followers[1])
    assert log.high_watermark == 0
    exchange(leader, 2, followers[2])
    assert log.high_watermark == 2


def test_alone_in_sync_a_leader_commits_what_it_has() -> None:
    log = written((0, 3))
    leader = led(log, isr=(0,))
    assert log.high_watermark == 3
    log.append([b"x"], 1)
    assert leader.advance()
    assert log.high_watermark == 4


def test_nothing_commits_while_fewer_are_in_sync_than_asked() -> None:
    log = written((0, 3))
    leader = led(log, isr=(0,), min_insync=2)
    assert log.high_watermark == 0
    leader.update((0, 1, 2), (0, 1), 2, 2, 0, 0)
    joined(leader, b1=MemoryLog())
    assert log.high_watermark == 3


def test_no_more_replicas_are_asked_for_than_a_partition_has() -> None:
    log = written((0, 3))
    led(log, isr=(0, 1), min_insync=3, replicas=(0, 1)).update((0, 1), (0, 1), 2, 3, 0, 0)
    leader = led(log, isr=(0, 1), min_insync=3, replicas=(0, 1))
    joined(leader, b1=MemoryLog())
    assert log.high_watermark == 3


def test_a_new_leader_commits_only_when_all_in_sync_have_its_log_under_its_epoch() -> None:
    log = written((0, 2), (0, 2))
    log.high_watermark = 2
    leader = led(log)
    behind, level = written((0, 2)), written((0, 4))
    followers = joined(leader, b1=level)
    assert log.high_watermark == 2
    leader.connect(2, 5, 0)
    push = leader.take_push(2, 200, 0)
    assert push is not None
    followers[2] = FollowerReplica(behind, 0)
    leader.on_ack(2, followers[2].on_push(push, 0), 0)
    assert log.high_watermark == 2
    assert not leader.watermark_is_known
    exchange(leader, 2, followers[2])
    assert log.high_watermark == 4
    assert leader.watermark_is_known


def test_what_a_lost_connection_had_acknowledged_does_not_count() -> None:
    log = written()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    followers = joined(leader, b1=MemoryLog())
    log.append([b"a"], 1)
    push = leader.take_push(1, 200, 0)
    assert push is not None
    ack = followers[1].on_push(push, 0)
    leader.disconnect(1)
    assert not leader.on_ack(1, ack, 0)
    leader.connect(1, 6, 0)
    assert log.high_watermark == 0


def test_an_answer_of_a_newer_epoch_deposes_a_leader_for_good() -> None:
    log = written((1, 2))
    leader = led(log, isr=(0, 1))
    leader.connect(1, 5, 0)
    push = leader.take_push(1, 200, 0)
    assert push is not None
    follower = FollowerReplica(written((1, 2)), epoch=2)
    ack = follower.on_push(push, 0)
    assert (ack.outcome, ack.leader_epoch) == (Outcome.FENCED, 2)
    leader.on_ack(1, ack, 0)
    assert leader.deposed
    assert leader.take_push(1, 200, 0) is None
    leader.update((0, 1, 2), (0,), 9, 1, 0, 0)
    assert log.high_watermark == 0


# --- the in-sync set ---


def test_a_follower_that_has_caught_up_is_proposed_and_counts_at_once() -> None:
    log = written((0, 2))
    leader = led(log, isr=(0,), replicas=(0, 1))
    assert proposed(leader, 0) is None
    follower = joined(leader, b1=MemoryLog())[1]
    proposal = leader.propose(0, LAG_MS, 7, lambda broker: 0)
    assert proposal is not None
    assert proposal.isr == ((0, 7), (1, 5))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 1)
    log.append([b"x"], 1)
    assert not leader.advance()
    exchange(leader, 1, follower)
    assert log.high_watermark == 3


def test_a_member_that_leaves_counts_until_that_is_recorded() -> None:
    log = written()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    joined(leader, b1=MemoryLog())
    log.append([b"x"], 1)
    assert proposed(leader, LAG_MS) is None
    assert proposed(leader, LAG_MS + 1) == [0]
    assert not leader.advance()
    leader.update((0, 1), (0,), 2, 1, LAG_MS + 2, 0)
    assert log.high_watermark == 1


def test_who_has_everything_stays_in_sync_for_as_long_as_its_broker_shows_life() -> None:
    leader = led(written(), isr=(0, 1), replicas=(0, 1))
    joined(leader, b1=MemoryLog())
    assert proposed(leader, 5 * LAG_MS, lambda broker: 5 * LAG_MS - 10) is None
    assert proposed(leader, 9 * LAG_MS, lambda broker: 5 * LAG_MS - 10) == [0]


def test_one_proposal_at_a_time_and_a_refused_one_is_forgotten() -> None:
    log = written((0, 2))
    leader = led(log, isr=(0,))
    joined(leader, b1=MemoryLog())
    assert proposed(leader, 0) == [0, 1]
    joined(leader, b2=MemoryLog())
    assert proposed(leader, 0) is None
    leader.refused(1)
    assert proposed(leader, 0) == [0, 1, 2]


@pytest.mark.parametrize("answer", [LeaderReplica.refused, LeaderReplica.outcome_unknown])
def test_the_late_answer_to_an_older_proposal_leaves_the_newer_one(answer: Callable[[LeaderReplica, int], Any]) -> None:
    log = written()
    leader = led(log, isr=(0, 1))
    followers = joined(leader, b1=MemoryLog(), b2=MemoryLog())
    assert proposed(leader, 0) == [0, 1, 2]
    leader.update((0, 1, 2), (0,), 2, 1, 0, 0)  # broker 1 has died: what was proposed will be refused
    leader.disconnect(1)
    assert proposed(leader, 0) == [0, 2]
    assert not answer(leader, 1)
    log.append([b"x"], 1)
    assert not leader.advance(), "broker 2 may be a member by now"
    assert log.high_watermark == 0
    exchange(leader, 2, followers[2])
    assert log.high_watermark == 1
    leader.update((0, 1, 2), (0,), 2, 1, 0, 0)
    assert proposed(leader, 0) is None, "the newer one is not settled"


def test_an_unknown_outcome_counts_until_the_controller_has_spoken() -> None:
    log = written((0, 2))
    leader = led(log, isr=(0,), replicas=(0, 1))
    follower = joined(leader, b1=MemoryLog())[1]
    assert proposed(leader, 0) == [0, 1]
    leader.outcome_unknown(1)
    log.append([b"x"], 1)
    assert not leader.advance()
    assert proposed(leader, 0) is None
    leader.update((0, 1), (0,), 1, 1, 0, 0)  # the same partition epoch: it was not recorded, and will not be
    assert log.high_watermark == 3
    exchange(leader, 1, follower)
    assert proposed(leader, 0) == [0, 1]


def test_after_an_addition_nothing_is_taken_for_known_of_replicas_out_of_sync() -> None:
    """Broker 2 was dropped and added again, and the leader hears of both at once: its log is gone."""
    log = written((1, 3))
    leader = led(log, isr=(0, 1))
    followers = joined(leader, b1=MemoryLog(), b2=MemoryLog())
    assert proposed(leader, 0) == [0, 1, 2]
    log.append([b"x"], 1)
    push = leader.take_push(2, 200, 0)
    assert push is not None
    late = followers[2].on_push(push, 0)
    assert leader.update((0, 1, 2), (0, 1), 4, 1, 0, added_at=4) == [2]
    leader.on_ack(2, late, 0)
    exchange(leader, 1, followers[1])
    assert {broker: leader.acknowledged(broker)[1] for broker in leader.followers} == {1: 4, 2: -1}
    assert proposed(leader, 0) is None
    probe = leader.take_push(2, 200, 0)
    assert probe is not None
    assert (probe.since, probe.base_offset) == (4, 4)
    leader.on_ack(2, FollowerReplica(MemoryLog(), 1).on_push(probe, 0), 0)
    assert leader.update((0, 1, 2), (0, 1), 5, 1, 0, added_at=4) == [], "only an addition makes logs new"


def test_a_replica_that_is_behind_the_watermark_is_not_proposed() -> None:
    log = written((0, 4))
    leader = led(log, isr=(0,), replicas=(0, 1))
    leader.connect(1, 5, 0)
    push = leader.take_push(1, 1, 0)
    assert push is not None
    behind = FollowerReplica(written((0, 2)), 0)
    leader.on_ack(1, behind.on_push(push, 0), 0)
    assert proposed(leader, 0) is None
