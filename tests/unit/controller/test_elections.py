"""The controller's rules: who leads when brokers die and come back."""

from __future__ import annotations

import pytest

from actors.controller.decisions.elections import broker_lost, broker_registered, broker_staying
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, PartitionInfo, TopicInfo
from placement.records import TopicRecord
from tests.support.decisions import Cluster


def one(cluster: Cluster, *partitions: PartitionInfo) -> None:
    cluster.metadata.apply(TopicRecord(TopicInfo("t", b"t" * 16, partitions)))


@pytest.mark.conformance("A-11")
def test_a_partition_whose_only_replica_in_sync_dies_has_no_leader_until_it_is_back() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1, 2), (1,)), PartitionInfo(0, 2, (0,), (0,)))
    cluster.lose(1)
    assert not cluster.metadata.brokers[1].alive
    assert cluster.partitions("t") == (PartitionInfo(NO_LEADER, 5, (1, 2), (1,), 1), PartitionInfo(0, 2, (0,), (0,)))
    cluster.register(2, 1)
    assert cluster.partitions("t")[0].leader == NO_LEADER  # it is not in sync
    cluster.register(1, 1)
    assert cluster.partitions("t")[0] == PartitionInfo(1, 6, (1, 2), (1,), 2)


def test_another_replica_in_sync_takes_over_at_a_higher_epoch() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1, 2, 0), (1, 0)))
    cluster.lose(1)
    assert cluster.partitions("t") == (PartitionInfo(0, 5, (1, 2, 0), (0,), 1),)


@pytest.mark.parametrize(
    ("brokers", "topic", "leader"),
    [
        ({}, {}, NO_LEADER),
        ({"": "true"}, {}, 2),
        ({"": "true"}, {"unclean.leader.election.enable": "false"}, NO_LEADER),
        ({"": "false"}, {"unclean.leader.election.enable": "true"}, 2),
        ({"2": "true"}, {}, NO_LEADER),  # none of the brokers is the controller
    ],
)
def test_unclean_elections_are_allowed_while_the_cluster_runs(
    brokers: dict[str, str], topic: dict[str, str], leader: int
) -> None:
    cluster = Cluster()
    cluster.metadata.apply(TopicRecord(TopicInfo("t", b"t" * 16, (PartitionInfo(1, 4, (1, 2), (1,)),), topic)))
    for name, value in brokers.items():
        assert cluster.alter(name, ["unclean.leader.election.enable", 0, value], kind=4) == 0
    for record in broker_lost(cluster.metadata, 1, config=cluster.config):
        cluster.metadata.apply(record)
    assert cluster.partitions("t")[0].leader == leader
    for record in broker_registered(cluster.metadata, 2, config=cluster.config):
        cluster.metadata.apply(record)
    assert cluster.partitions("t")[0].leader == leader


def test_a_leader_that_stays_keeps_its_epoch_when_a_follower_dies() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1, 2), (1, 2)))
    cluster.lose(2)
    assert cluster.partitions("t") == (PartitionInfo(1, 4, (1, 2), (1,), 1),)


def test_a_process_that_replaces_one_nobody_saw_die_leads_at_a_new_epoch() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1,), (1,)), PartitionInfo(0, 2, (0,), (0,)))
    cluster.register(1, 1)
    assert cluster.partitions("t") == (PartitionInfo(1, 5, (1,), (1,), 1), PartitionInfo(0, 2, (0,), (0,)))


def test_losing_a_broker_twice_or_an_unknown_one_changes_nothing() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1,), (1,)))
    cluster.lose(1)
    assert broker_lost(cluster.metadata, 1) == []
    assert broker_lost(cluster.metadata, 9) == []


def test_a_broker_that_leaves_is_not_taken_back_in_sync_until_it_stays() -> None:
    """Its leader may hear that it leaves before it hears nothing from it any more."""
    cluster = Cluster()
    one(cluster, PartitionInfo(0, 4, (0, 1, 2), (0, 1, 2)))
    cluster.do("broker_leaving", broker_id=2)
    assert cluster.partitions("t")[0].isr == (0, 1)
    everybody = [[0, 0], [1, 0], [2, 0]]
    proposed = {"topic_id": b"t" * 16, "index": 0, "leader_epoch": 4, "partition_epoch": 1, "isr": everybody}

    def answer() -> int:
        (row,) = cluster.do("alter_partitions", broker_id=0, broker_epoch=0, partitions=[proposed])
        return int(row["error_code"])

    assert answer() == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.partitions("t")[0].isr == (0, 1)
    for record in broker_staying(cluster.metadata, 2):
        cluster.metadata.apply(record)
    assert answer() == ErrorCode.NONE
    assert cluster.partitions("t")[0].isr == (0, 1, 2)


def test_a_broker_that_leaves_may_bring_others_in_sync_where_it_is_the_last_that_may_lead() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(2, 4, (2, 1), (2,)))
    cluster.do("broker_leaving", broker_id=2)
    proposed = {"topic_id": b"t" * 16, "index": 0, "leader_epoch": 4, "partition_epoch": 0, "isr": [[2, 0], [1, 0]]}
    (row,) = cluster.do("alter_partitions", broker_id=2, broker_epoch=0, partitions=[proposed])
    assert row["error_code"] == ErrorCode.NONE
    assert cluster.partitions("t")[0].isr == (2, 1)
