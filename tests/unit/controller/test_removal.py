"""A broker that is removed: what is refused, and each step to where it holds nothing. The controller's rules."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controller.decisions.elections import leadership_balanced, preferred_elected
from actors.controller.decisions.removal import (
    WAVE,
    planned_moves,
    removal_begun,
    removal_called_off,
    removal_refused,
    removals_go_on,
    under_way,
    waits_for,
)
from actors.controller.decisions.replacement import directory_refused, directory_told
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, BrokerInfo, PartitionInfo, TopicInfo
from placement.pairs import Pair
from placement.records import (
    METADATA_VERSION,
    REMOVALS,
    BrokerConfigsRecord,
    BrokerRecord,
    FeatureLevelRecord,
    PairRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.support.decisions import Cluster

GONE = 3


class Removal(Cluster):
    """Four brokers, of which the last one is removed. Followers are in sync when a test says so."""

    def __init__(self, brokers: int = 4, **more: Any) -> None:
        super().__init__(brokers, **more)
        self.now_ms = 1_000

    def hold(self, name: str, *partitions: PartitionInfo, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.metadata.apply(TopicRecord(TopicInfo(name, name.encode().ljust(16), partitions, named)))

    def refused(self, broker_id: int = GONE) -> str:
        return removal_refused(self.metadata, self.config, broker_id) or ""

    def begin(self, broker_id: int = GONE, throttle: int | None = None) -> None:
        assert self.refused(broker_id) == ""
        self.metadata.apply_all(removal_begun(self.metadata, broker_id, self.now_ms, throttle))

    def step(self) -> list[Record]:
        records = removals_go_on(self.metadata, self.config)
        self.metadata.apply_all(records)
        return records

    def catch_up(self, name: str, index: int = 0) -> None:
        """The leader of a partition says that all of its replicas that are alive are in sync."""
        partition = self.partitions(name)[index]
        alive = {broker.id for broker in self.metadata.alive()}
        isr = [[each, self.metadata.brokers[each].epoch] for each in partition.replicas if each in alive]
        asked = [self.metadata.topics[name].id, index, partition.leader_epoch, partition.partition_epoch, isr]
        leader = self.metadata.brokers[partition.leader]
        self.do("alter_partitions", broker_id=leader.id, broker_epoch=leader.epoch, partitions=[asked])

    def settle(self) -> None:
        """Go on until nothing is left to do; followers catch up at once."""
        while self.step():
            for name, topic in list(self.metadata.topics.items()):
                for index, partition in enumerate(topic.partitions):
                    if partition.adding or partition.removing:
                        self.catch_up(name, index)


# --- whether it can be ------------------------------------------------------------------------------------------


def test_a_broker_that_there_is_not_is_named() -> None:
    assert Removal().refused(7) == "there is no broker 7"


def test_the_last_broker_is_not_removed() -> None:
    cluster = Removal(2, offsets_topic_replication_factor="1")
    cluster.begin(0)
    assert cluster.refused(1) == "broker 1 is the last one: `coterie down` ends a cluster"


def test_a_level_that_does_not_know_removals_is_named() -> None:
    cluster = Removal()
    cluster.metadata.apply(FeatureLevelRecord(METADATA_VERSION, REMOVALS - 1))
    assert cluster.refused().startswith("coterie.metadata.version is 3, and brokers can be removed from 4 on")


def test_a_topic_whose_factor_could_not_be_kept_is_named_with_it() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 1, 2, 3), (0, 1, 2, 3)))
    assert cluster.refused().startswith("topic t has replication factor 4, and 3 brokers would be left")
    assert cluster.refused(0) != "", "whichever broker it is"


def test_a_topic_that_loses_replicas_just_now_counts_with_those_it_is_to_have() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 1, 2, 3), (0, 1, 2, 3), removing=(2,)))
    assert cluster.refused() == ""


def test_brokers_that_are_being_removed_are_not_left() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 1, 2), (0, 1, 2)))
    cluster.begin()
    assert cluster.refused(2).startswith("topic t has replication factor 3, and 2 brokers would be left")


def test_a_topic_that_needs_more_in_sync_is_named_with_that() -> None:
    cluster = Removal(2)
    cluster.hold("t", PartitionInfo(0, 0, (0,), (0,)), min_insync_replicas="2")
    assert cluster.refused(1).startswith("topic t has min.insync.replicas=2, and 1 broker would be left")


@pytest.mark.parametrize("name", ["default.replication.factor", "min.insync.replicas"])
def test_a_setting_that_new_topics_could_not_have_is_named_with_its_value(name: str) -> None:
    cluster = Removal(2, offsets_topic_replication_factor="1", **{name.replace(".", "_"): "2"})
    assert cluster.refused(1).startswith(f"{name}=2, and 1 broker would be left")


def test_the_factor_of_the_offsets_topic_counts_until_there_is_one() -> None:
    cluster = Removal(3)
    assert cluster.refused(2).startswith("offsets.topic.replication.factor=3, and 2 brokers would be left")
    cluster.hold("__consumer_offsets", PartitionInfo(0, 0, (0, 1), (0, 1)))
    assert cluster.refused(2) == ""


def test_an_internal_topic_whose_factor_could_not_be_kept_is_named() -> None:
    cluster = Removal()
    cluster.hold("__consumer_offsets", PartitionInfo(0, 0, (0, 1, 2, 3), (0, 1)))
    assert cluster.refused().startswith("topic __consumer_offsets has replication factor 4")


def test_racks_that_could_not_be_kept_are_named() -> None:
    cluster = Removal(racks=("a", "b", "b", "c"))
    cluster.hold("t", PartitionInfo(0, 0, (0, 1, 3), (0, 1, 3)), PartitionInfo(0, 0, (0, 1), (0, 1)))
    text = "t-0 is in 3 racks (a, b, c), and the brokers that would be left have no other for it than a, b"
    assert cluster.refused().startswith(text)
    assert cluster.refused(2) == "", "it holds nothing"
    assert cluster.refused(1) == "", "broker 2 is in its rack"


def test_racks_count_only_if_all_brokers_have_one() -> None:
    cluster = Removal(racks=("a", "b", "b", "c"))
    cluster.hold("t", PartitionInfo(0, 0, (0, 1, 3), (0, 1, 3)))
    cluster.metadata.apply(BrokerRecord(BrokerInfo(2, "host2", 9092, None, 0)))
    assert cluster.refused() == ""


def test_a_broker_that_is_away_with_what_nobody_else_has_is_brought_back_first() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 1), (0, 1)), PartitionInfo(3, 0, (3, 0), (3,)))
    assert cluster.refused() == "", "while it is there"
    cluster.lose(GONE)
    assert cluster.refused().startswith("broker 3 is away, and it alone has everything of t-1: bring it back first")


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


# --- UnregisterBroker ---------------------------------------------------------------------------------------------


def test_kafkas_tool_unregisters_a_broker_that_holds_nothing() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)))
    (code, text) = cluster.do("unregister_broker", broker_id=GONE).values()
    assert (code, text) == (
        ErrorCode.INVALID_REQUEST,
        "broker 3 is a replica of 1 partition: `coterie brokers remove 3` moves what it has",
    )
    assert cluster.do("unregister_broker", broker_id=2)["error_code"] == 0
    assert cluster.metadata.removed == {2}


def test_a_broker_that_is_not_registered_is_not_unregistered() -> None:
    cluster = Removal()
    cluster.begin()
    cluster.settle()
    for broker_id in (GONE, 7, -1):
        assert cluster.do("unregister_broker", broker_id=broker_id)["error_code"] == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_what_could_not_be_kept_is_refused_there_too() -> None:
    cluster = Removal(3)
    found = cluster.do("unregister_broker", broker_id=2)
    assert found["error_code"] == ErrorCode.INVALID_REQUEST
    assert found["error_message"].startswith("offsets.topic.replication.factor=3, and 2 brokers would be left")


# --- afterwards -------------------------------------------------------------------------------------------------


def test_a_process_of_a_broker_that_was_removed_may_not_register_with_any_directory() -> None:
    cluster = Removal()
    cluster.begin()
    cluster.settle()
    text = "broker 3 was removed from the cluster, and its id is never used again"
    assert directory_refused(cluster.metadata, GONE, "d") == text
    assert directory_refused(cluster.metadata, GONE, "") == text
    assert directory_told(cluster.metadata, GONE, "d") == []


def test_planned_moves_of_one_that_has_not_begun_are_those_that_it_would_make() -> None:
    cluster = Removal()
    cluster.hold("t", PartitionInfo(0, 0, (0, 3), (0, 3)), PartitionInfo(0, 0, (0, 1), (0, 1)))
    plan = planned_moves(cluster.metadata, also=GONE)
    assert plan == {("t", 0): (0, 2)}
    cluster.begin()
    (record,) = cluster.step()
    assert isinstance(record, PartitionRecord)
    assert record.partition.adding == (2,)
