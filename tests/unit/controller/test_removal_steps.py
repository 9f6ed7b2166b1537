"""A broker that is removed goes step by step to where it holds nothing, whatever comes meanwhile."""

from __future__ import annotations

import pytest

from actors.controller.decisions.elections import leadership_balanced, preferred_elected
from actors.controller.decisions.removal import (
    WAVE,
    planned_moves,
    removal_begun,
    removal_called_off,
    under_way,
    waits_for,
)
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, BrokerInfo, PartitionInfo
from placement.pairs import Pair
from placement.records import BrokerConfigsRecord, BrokerRecord, PairRecord, PartitionRecord, UnregisterBrokerRecord
from tests.support.removal import GONE, Removal

# --- step by step -----------------------------------------------------------------------------------------------


@pytest.mark.conformance("N-D-05")
def test_leaders_leave_first_and_it_stays_in_sync() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(3, 4, (3, 0, 1), (3, 0, 1)))
    cluster.begin()
    cluster.step()
    (after,) = cluster.partitions("t")
    assert (after.leader, after.leader_epoch, after.isr) == (0, 5, (3, 0, 1))
    assert not after.adding


def test_it_does_not_get_leadership_back_while_it_is_the_first_replica() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(3, 4, (3, 0, 1), (3, 0, 1)))
    cluster.begin()
    cluster.step()
    assert leadership_balanced(cluster.metadata, 0, config=cluster.config) == []
    assert preferred_elected(cluster.metadata, config=cluster.config) == []
    (row,) = cluster.do("elect_leaders", type=0, partitions=[["t", 0]])
    assert row["error_message"] == "broker 3 is being removed"


def test_what_nobody_else_can_lead_is_led_by_it_until_it_has_moved() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(3, 4, (3,), (3,)))
    cluster.begin()
    cluster.step()
    (under,) = cluster.partitions("t")
    assert under.leader == GONE
    assert (len(under.adding), under.removing) == (1, (3,))
    cluster.catch_up("t")
    (after,) = cluster.partitions("t")
    assert after.replicas == (after.leader,) == under.adding


def test_its_replicas_move_to_others_with_the_factor_they_had() -> None:
    cluster = Removal()
    held = [
        PartitionInfo(0, 0, (0, 1, 3), (0, 1, 3)),
        PartitionInfo(0, 0, (0, 3), (0, 3)),
        PartitionInfo(0, 0, (0,), (0,)),
    ]
    cluster.hold("t", *held)
    cluster.begin()
    cluster.settle()
    assert [len(each.replicas) for each in cluster.partitions("t")] == [3, 2, 1]
    assert all(GONE not in (*each.replicas, *each.isr, each.leader) for each in cluster.partitions("t"))
    assert cluster.metadata.removed == {GONE}


@pytest.mark.conformance("N-D-05")
def test_partitions_move_in_waves() -> None:
    cluster = Removal()
    cluster.hold("t", *[PartitionInfo(0, 0, (0, 3), (0, 3))] * (WAVE + 5))
    cluster.begin()
    cluster.step()
    assert under_way(cluster.metadata, GONE) == WAVE
    assert cluster.step() == [], "nothing while they are waited for"
    for index in range(2):
        cluster.catch_up("t", index)
    cluster.step()
    assert under_way(cluster.metadata, GONE) == WAVE


@pytest.mark.conformance("N-D-05")
def test_it_is_unregistered_when_it_holds_nothing_and_all_that_was_known_of_it_is_gone() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)))
    cluster.metadata.apply(BrokerConfigsRecord("3", {"message.max.bytes": "1"}))
    cluster.begin()
    cluster.step()
    assert GONE in cluster.metadata.brokers, "a replica is left"
    cluster.catch_up("t")
    assert cluster.step() == [UnregisterBrokerRecord(GONE)]
    metadata = cluster.metadata
    assert GONE not in metadata.brokers
    assert (metadata.removals, metadata.broker_configs, metadata.removed) == ({}, {}, {GONE})
    assert cluster.step() == []


def test_one_that_holds_nothing_is_gone_at_once() -> None:
    cluster = Removal()
    cluster.begin()
    assert cluster.step() == [UnregisterBrokerRecord(GONE)]


def test_one_that_is_away_is_removed_too_if_others_have_what_it_had() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(3, 0, (3, 0), (3, 0)))
    cluster.lose(GONE)
    cluster.begin()
    cluster.settle()
    assert cluster.metadata.removed == {GONE}


def test_two_at_once_each_get_what_they_have_to_those_that_stay() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(3, 0, (3, 2), (3, 2)), PartitionInfo(2, 0, (2, 0), (2, 0)))
    cluster.hold("__consumer_offsets", PartitionInfo(0, 0, (0,), (0,)))
    cluster.begin()
    cluster.begin(2)
    cluster.settle()
    assert all(set(each.replicas) == {0, 1} for each in cluster.partitions("t"))
    assert cluster.metadata.removed == {2, GONE}


def test_partitions_that_are_led_together_move_together() -> None:
    cluster = Removal()
    for name in ("t", "__state"):
        cluster.hold(name, PartitionInfo(3, 4, (3, 0), (3, 0)))
    cluster.metadata.apply(PairRecord(Pair(b"t".ljust(16), 0, "__state", 0)))
    cluster.begin()
    cluster.settle()
    (data,), (state,) = (cluster.partitions(name) for name in ("t", "__state"))
    assert data.replicas == state.replicas
    assert data.leader == state.leader != GONE
    assert cluster.metadata.removed == {GONE}


def test_planned_moves_of_one_that_has_not_begun_are_those_that_it_would_make() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)), PartitionInfo(0, 0, (0, 1), (0, 1)))
    plan = planned_moves(cluster.metadata, also=GONE)
    assert plan == {("t", 0): (0, 2)}
    cluster.begin()
    (record,) = cluster.step()
    assert isinstance(record, PartitionRecord)
    assert record.partition.adding == (2,)


# --- what comes meanwhile ---------------------------------------------------------------------------------------


def test_new_topics_and_partitions_are_not_placed_on_it() -> None:
    cluster = Removal(default_replication_factor="3")
    cluster.begin()
    assert cluster.create({"name": "t", "partitions": 8}) == [0]
    cluster.do("create_partitions", topics=[{"name": "t", "count": 16, "assignments": None}])
    assert len(cluster.partitions("t")) == 16
    assert all(GONE not in each.replicas for each in cluster.partitions("t"))
    assert cluster.create({"name": "u", "partitions": 1, "factor": 4}) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert cluster.results[0]["error_message"].endswith("3 broker(s) alive that stay: 3 is being removed")


def test_who_names_it_for_a_replica_is_refused() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 1), (0, 1)))
    cluster.begin()
    assert cluster.create({"name": "u", "assignments": [[0, 3]]}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    (row,) = cluster.do("alter_reassignments", partitions=[["t", 0, [0, 3]]], allow_factor_change=False)
    assert row["error_message"] == "replica assignment [0, 3] names broker 3, which is being removed"


def test_a_move_to_it_that_is_under_way_goes_elsewhere() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 1), (0, 1)))
    cluster.do("alter_reassignments", partitions=[["t", 0, [0, 3]]], allow_factor_change=False)
    assert cluster.partitions("t")[0].adding == (3,)
    cluster.begin()
    cluster.settle()
    assert GONE not in cluster.partitions("t")[0].replicas
    assert cluster.metadata.removed == {GONE}


def test_a_move_away_from_it_that_is_under_way_goes_on() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)))
    cluster.do("alter_reassignments", partitions=[["t", 0, [0, 2]]], allow_factor_change=False)
    before = cluster.partitions("t")
    cluster.begin()
    assert cluster.step() == []
    assert cluster.partitions("t") == before


def test_a_move_that_a_user_calls_off_is_begun_again() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)))
    cluster.begin()
    cluster.step()
    cluster.do("alter_reassignments", partitions=[["t", 0, None]], allow_factor_change=False)
    assert cluster.partitions("t")[0].replicas == (0, 3)
    cluster.step()
    assert cluster.partitions("t")[0].removing == (3,)


def test_a_removal_that_is_called_off_leaves_it_with_what_it_has() -> None:
    cluster = Removal()
    cluster.hold("t", *[PartitionInfo(0, 0, (0, 3), (0, 3))] * (WAVE + 5))
    cluster.begin()
    cluster.step()
    cluster.metadata.apply_all(removal_called_off(cluster.metadata, GONE))
    assert cluster.step() == []
    assert cluster.metadata.removals == {}
    for index in range(WAVE):
        cluster.catch_up("t", index)
    assert sum(GONE in each.replicas for each in cluster.partitions("t")) == 5
    assert removal_called_off(cluster.metadata, GONE) == []


def test_a_removal_that_is_asked_for_again_may_change_its_throttle_alone() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)))
    cluster.begin(throttle=100)
    first = cluster.metadata.removals[GONE]
    assert (first.begun_ms, first.partitions, first.throttle) == (1_000, 1, 100)
    assert removal_begun(cluster.metadata, GONE, 2_000, None) == []
    cluster.metadata.apply_all(removal_begun(cluster.metadata, GONE, 2_000, 0))
    now = cluster.metadata.removals[GONE]
    assert (now.begun_ms, now.partitions, now.throttle) == (1_000, 1, 0)


# --- what it waits for ------------------------------------------------------------------------------------------


def test_a_wave_waits_for_nothing_that_a_person_has_to_do() -> None:
    cluster = Removal()
    cluster.hold("t", *[PartitionInfo(0, 0, (0, 3), (0, 3))] * (WAVE + 5))
    cluster.begin()
    cluster.step()
    assert waits_for(cluster.metadata, cluster.config, GONE) is None


def test_too_few_that_are_alive_are_waited_for_by_name() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 1, 3), (0, 1, 3)))
    cluster.lose(2)
    cluster.begin()
    assert cluster.step() == []
    assert waits_for(cluster.metadata, cluster.config, GONE) == "t-0 needs 3 brokers that are alive and stay"
    cluster.register(2, 1)
    cluster.settle()
    assert cluster.metadata.removed == {GONE}


def test_the_only_other_broker_of_a_rack_is_waited_for() -> None:
    cluster = Removal(racks=("a", "a", "b", "b"))
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)))
    cluster.lose(2)
    cluster.begin()
    assert cluster.step() == []
    text = "t-0 needs 2 brokers that are alive and stay, in as many racks as now"
    assert waits_for(cluster.metadata, cluster.config, GONE) == text
    cluster.metadata.apply(BrokerRecord(BrokerInfo(2, "host2", 9092, "b", 1)))
    cluster.settle()
    assert cluster.partitions("t")[0].replicas == (0, 2)


def test_a_broker_that_died_while_it_was_filled_is_waited_for_by_name_and_keeps_nothing_else_waiting() -> None:
    cluster = Removal()
    cluster.hold("t", *[PartitionInfo(0, 0, (0, 1, 3), (0, 1, 3))] * WAVE)
    cluster.begin()
    cluster.step()
    cluster.lose(2)
    assert waits_for(cluster.metadata, cluster.config, GONE) == "t-0 moves to broker 2, which is away"
    cluster.hold("one", PartitionInfo(0, 0, (0, 3), (0, 3)))
    cluster.step()
    assert cluster.partitions("one")[0].adding == (1,)


def test_what_it_alone_had_is_waited_for_if_it_dies_meanwhile() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(3, 0, (3,), (3,)))
    cluster.begin()
    cluster.lose(GONE)
    cluster.step()
    cluster.hold("u", *[PartitionInfo(0, 0, (0, 3), (0,))] * WAVE)
    cluster.step()
    assert all(each.adding for each in cluster.partitions("u")), "others go on"
    assert cluster.partitions("t")[0].leader == NO_LEADER
    assert waits_for(cluster.metadata, cluster.config, GONE) == "t-0 has no leader, and broker 3 could be it"
    assert GONE in cluster.metadata.brokers
