"""Partitions that move, and leaders elected on demand: the controller's rules."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controller.decisions import operations
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import BrokerRecord, PartitionRecord, TopicRecord, read_record
from tests.support import calls

TOPIC_ID = b"t" * 16


class Cluster:
    """Five brokers and a topic of one partition."""

    def __init__(
        self, partition: PartitionInfo, dead: tuple[int, ...] = (), config: dict[str, str] | None = None
    ) -> None:
        self.config = BrokerConfig.from_mapping(config or {})
        self.metadata = ClusterMetadata()
        for broker in range(5):
            self.metadata.apply(BrokerRecord(BrokerInfo(broker, "h", 1, None, 0, broker not in dead)))
        self.metadata.apply(TopicRecord(TopicInfo("t", TOPIC_ID, (partition,))))

    def do(self, operation: str, **arguments: Any) -> Any:
        result, records = operations.decide(
            self.metadata, self.config, calls.operation(operation, **arguments), lambda: b""
        )
        for record in records:
            self.metadata.apply(record)
        return calls.plain(result)

    @property
    def partition(self) -> PartitionInfo:
        found = self.metadata.partition("t", 0)
        assert found is not None
        return found

    def reassign(self, replicas: list[int] | None, *, factor: bool = True) -> int:
        (row,) = self.do("alter_reassignments", partitions=[["t", 0, replicas]], allow_factor_change=factor)
        return int(row["error_code"])

    def in_sync(self, *isr: int) -> int:
        p = self.partition
        asked = {
            "topic_id": TOPIC_ID,
            "index": 0,
            "leader_epoch": p.leader_epoch,
            "partition_epoch": p.partition_epoch,
            "isr": [[broker, 0] for broker in isr],
        }
        (row,) = self.do("alter_partitions", broker_id=p.leader, broker_epoch=0, partitions=[asked])
        return int(row["error_code"])

    def elect(self, kind: int, partitions: list[list[Any]] | None) -> list[int]:
        return [row["error_code"] for row in self.do("elect_leaders", type=kind, partitions=partitions)]


def test_a_partition_moves_once_those_it_moves_to_are_in_sync() -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)))
    assert cluster.reassign([2, 3]) == 0
    p = cluster.partition
    assert (p.replicas, p.adding, p.removing, p.leader, p.isr) == ((2, 3, 0, 1), (2, 3), (0, 1), 0, (0, 1))
    assert cluster.in_sync(0, 1, 2) == 0
    assert cluster.partition.adding == (2, 3)
    assert cluster.in_sync(0, 1, 2, 3) == 0
    p = cluster.partition
    assert (p.replicas, p.isr, p.adding, p.removing) == ((2, 3), (2, 3), (), ())
    assert (p.leader, p.leader_epoch) == (2, 4)
    assert p.added_at == 1, "who knows of this change knows of all that have come"


def test_only_an_addition_is_noted_as_one() -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)))
    assert [cluster.reassign([1, 0]), cluster.partition.added_at] == [0, 0]
    assert [cluster.reassign([1, 0, 2]), cluster.partition.added_at] == [0, 2]
    assert [cluster.reassign(None), cluster.partition.added_at] == [0, 2]
    assert [cluster.reassign([1, 0, 2]), cluster.partition.added_at] == [0, 4]


def test_a_leader_that_stays_keeps_leading_at_its_epoch() -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)))
    cluster.reassign([2, 0])
    cluster.in_sync(0, 1, 2)
    p = cluster.partition
    assert (p.replicas, p.leader, p.leader_epoch, p.isr) == ((2, 0), 0, 3, (2, 0))


def test_fewer_or_reordered_replicas_need_no_waiting() -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1, 2), (0, 1, 2)))
    assert cluster.reassign([2, 0]) == 0
    p = cluster.partition
    assert (p.replicas, p.isr, p.adding, p.removing, p.leader) == ((2, 0), (2, 0), (), (), 0)


def test_a_move_can_be_cancelled_and_another_one_begun() -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)))
    assert cluster.reassign(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    cluster.reassign([2, 3])
    cluster.in_sync(0, 1, 2)
    assert cluster.reassign([4, 0]) == 0
    p = cluster.partition
    assert (p.replicas, p.adding, p.removing, p.isr) == ((4, 0, 1), (4,), (1,), (0, 1))
    assert cluster.reassign(None) == 0
    p = cluster.partition
    assert (p.replicas, p.isr, p.adding, p.removing) == ((0, 1), (0, 1), (), ())


def test_replicas_out_of_sync_do_not_take_over_from_the_only_others_that_have_everything() -> None:
    cluster = Cluster(PartitionInfo(1, 3, (1, 0, 2), (1, 2)), config={"min.insync.replicas": "2"})
    assert cluster.reassign([0, 1]) == 0
    p = cluster.partition
    assert (p.replicas, p.removing, p.isr, p.leader) == ((0, 1, 2), (2,), (1, 2), 1)
    assert cluster.in_sync(0, 1, 2) == 0
    p = cluster.partition
    assert (p.replicas, p.removing, p.isr) == ((0, 1), (), (0, 1))


def test_a_dead_replica_does_not_count_for_a_move_that_ends() -> None:
    cluster = Cluster(PartitionInfo(1, 3, (1, 0, 2), (1, 0, 2)), dead=(0,), config={"min.insync.replicas": "2"})
    cluster.reassign([0, 1])
    assert cluster.partition.removing == (2,)


@pytest.mark.parametrize("target", [None, [3, 4]], ids=["called off", "another one"])
def test_a_move_is_not_given_up_while_too_few_others_have_what_committed(target: list[int] | None) -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)), config={"min.insync.replicas": "2"})
    cluster.reassign([2, 3])
    cluster.in_sync(0, 2)
    before = cluster.partition
    assert cluster.reassign(target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.partition == before
    cluster.in_sync(0, 1, 2)
    assert cluster.reassign(target) == 0


@pytest.mark.parametrize("replicas", [[], [1, 1], [0, 9]])
def test_what_cannot_be_is_refused(replicas: list[int]) -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)))
    before = cluster.partition
    assert cluster.reassign(replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.partition == before


def test_the_factor_stays_unless_its_change_is_allowed() -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)))
    assert cluster.reassign([0, 1, 2], factor=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.reassign([2, 3], factor=False) == 0
    assert cluster.reassign([2, 4], factor=False) == 0


def test_while_a_partition_moves_the_factor_is_the_one_it_moves_to() -> None:
    cluster = Cluster(PartitionInfo(0, 3, (0, 1), (0, 1)))
    assert cluster.reassign([2, 3, 4]) == 0
    assert cluster.reassign([2, 3], factor=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.reassign([0, 1, 2], factor=False) == 0


def test_the_first_replica_is_elected_when_asked_for() -> None:
    cluster = Cluster(PartitionInfo(1, 3, (0, 1), (0, 1)))
    assert cluster.elect(0, [["t", 0]]) == [0]
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (0, 4)
    assert cluster.elect(0, [["t", 0], ["t", 1]]) == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert cluster.elect(0, None) == []
    behind = Cluster(PartitionInfo(1, 3, (0, 1), (1,)))
    assert behind.elect(0, [["t", 0]]) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_a_replica_out_of_sync_is_elected_only_by_that_name() -> None:
    cluster = Cluster(PartitionInfo(NO_LEADER, 3, (0, 1), (0,)), dead=(0,))
    assert cluster.elect(1, [["t", 0]]) == [0]
    p = cluster.partition
    assert (p.leader, p.isr, p.unclean) == (1, (1,), True)
    assert cluster.elect(1, [["t", 0]]) == [ErrorCode.ELECTION_NOT_NEEDED]
    hopeless = Cluster(PartitionInfo(NO_LEADER, 3, (0, 1), (0,)), dead=(0, 1))
    assert hopeless.elect(1, [["t", 0]]) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_a_partition_survives_its_record() -> None:
    p = PartitionInfo(1, 2, (0, 1, 2), (1,), 7, (2,), (0,), (2,), True, 6)
    cluster = Cluster(p)
    cluster.metadata.apply(PartitionRecord("t", 0, p))
    assert ClusterMetadata.from_wire(cluster.metadata.to_wire()).partition("t", 0) == p
    old = ["topic", "u", b"u" * 16, [[0, 5, [0, 1], [0]]], {}]
    cluster.metadata.apply(read_record(old, level=1))
    assert cluster.metadata.partition("u", 0) == PartitionInfo(0, 5, (0, 1), (0,))
    old = ["partition", "u", 0, [0, 5, [0, 1], [0], 7, [1], [], [], True]]
    cluster.metadata.apply(read_record(old, level=1))
    assert cluster.metadata.partition("u", 0) == PartitionInfo(0, 5, (0, 1), (0,), 7, (1,), unclean=True)
