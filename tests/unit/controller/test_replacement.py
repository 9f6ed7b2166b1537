"""A broker whose data directory is gone: what becomes of each partition it holds. The controller's rules."""

from __future__ import annotations

import pytest

from actors.controller.decisions.replacement import broker_replaced, sole_copies
from actors.settings import BrokerConfig
from placement.metadata import NO_LEADER, Directory, PartitionInfo, TopicInfo
from placement.pairs import Pair
from placement.records import BrokerDirectoryRecord, PairRecord, PartitionsRecord, TopicRecord
from tests.support.decisions import Cluster

LOST = 1
NEEDS_TWO = BrokerConfig.from_mapping({"min.insync.replicas": "2"})


def replaced(*partitions: PartitionInfo, dead: tuple[int, ...] = ()) -> tuple[PartitionInfo, ...]:
    """The partitions of a topic after broker 1 of brokers 0, 1 and 2 was lost and replaced."""
    cluster = Cluster()
    cluster.metadata.apply(TopicRecord(TopicInfo("t", b"t" * 16, partitions)))
    for broker in (LOST, *dead):
        cluster.lose(broker)
    cluster.metadata.apply_all(broker_replaced(cluster.metadata, LOST, "new", config=NEEDS_TWO))
    return cluster.partitions("t")


@pytest.mark.conformance("N-D-01")
@pytest.mark.parametrize(
    ("before", "dead", "leader", "isr", "elr"),
    [
        pytest.param(PartitionInfo(0, 4, (0, 1, 2), (0, 1, 2)), (), 0, (0, 2), (), id="others are in sync"),
        pytest.param(PartitionInfo(1, 4, (1, 0), (1, 0)), (), 0, (0,), (), id="it is not eligible either"),
        pytest.param(PartitionInfo(0, 4, (0, 1), (0,), 3, (1,)), (), 0, (0,), (), id="it was eligible"),
        pytest.param(PartitionInfo(1, 4, (1, 2), (1,), 3, (2,)), (), 2, (2,), (), id="an eligible one leads"),
        pytest.param(
            PartitionInfo(1, 4, (1, 2), (1,), 3, (2,)), (2,), NO_LEADER, (2,), (), id="an eligible one is waited for"
        ),
        pytest.param(
            PartitionInfo(1, 4, (1, 2), (1, 2), 3), (2,), NO_LEADER, (2,), (), id="the last one in sync is waited for"
        ),
        pytest.param(PartitionInfo(0, 4, (0, 2), (0, 2)), (), 0, (0, 2), (), id="nothing to do with it"),
    ],
)
def test_a_lost_directory_is_in_no_set(
    before: PartitionInfo, dead: tuple[int, ...], leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    (after,) = replaced(before, dead=dead)
    assert (after.leader, after.isr, after.elr, after.unclean) == (leader, isr, elr, False)
    assert after.replicas == before.replicas, "it comes back as a follower"
    assert after.leader_epoch > before.leader_epoch or after.leader == before.leader


@pytest.mark.conformance("N-D-02")
@pytest.mark.parametrize(
    ("before", "dead", "leader", "isr"),
    [
        pytest.param(PartitionInfo(1, 4, (1,), (1,)), (), NO_LEADER, (1,), id="nobody else has any of it"),
        pytest.param(PartitionInfo(1, 4, (1, 0, 2), (1,)), (), 0, (0,), id="one that was out of sync leads"),
        pytest.param(PartitionInfo(1, 4, (1, 0, 2), (1,)), (0,), 2, (2,), id="one that is there"),
        pytest.param(
            PartitionInfo(1, 4, (1, 0, 2), (1,)), (0, 2), NO_LEADER, (0, 2), id="any of the others before the empty one"
        ),
    ],
)
def test_a_sole_copy_is_named_and_given_up_uncleanly(
    before: PartitionInfo, dead: tuple[int, ...], leader: int, isr: tuple[int, ...]
) -> None:
    cluster = Cluster()
    cluster.metadata.apply(TopicRecord(TopicInfo("t", b"t" * 16, (PartitionInfo(0, 0, (0, 1), (0, 1)), before))))
    assert sole_copies(cluster.metadata, LOST) == [("t", 1)]
    (after,) = replaced(before, dead=dead)
    assert (after.leader, after.isr, after.elr, after.unclean) == (leader, isr, (), True)


def test_its_directory_is_awaited_and_it_counts_as_dead() -> None:
    cluster = Cluster()
    records = broker_replaced(cluster.metadata, LOST, "new")
    assert BrokerDirectoryRecord(LOST, Directory("new", awaited=True)) in records
    cluster.metadata.apply_all(records)
    assert not cluster.metadata.brokers[LOST].alive


def test_partitions_that_are_led_together_stay_so() -> None:
    cluster = Cluster()
    for name in ("t", "__state"):
        topic = TopicInfo(name, name.encode().ljust(16), (PartitionInfo(1, 4, (1, 2), (1,), 3, (2,)),))
        cluster.metadata.apply(TopicRecord(topic))
    cluster.metadata.apply(PairRecord(Pair(b"t".ljust(16), 0, "__state", 0)))
    assert sole_copies(cluster.metadata, LOST) == []
    cluster.lose(LOST)
    assert {cluster.partitions(name)[0].leader for name in ("t", "__state")} == {2}
    records = broker_replaced(cluster.metadata, LOST, "new", config=NEEDS_TWO)
    cluster.metadata.apply_all(records)
    assert {cluster.partitions(name)[0].isr for name in ("t", "__state")} == {(2,)}
    assert not any(isinstance(record, PartitionsRecord) for record in records), "nobody is elected"
