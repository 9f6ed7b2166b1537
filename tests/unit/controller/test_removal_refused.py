"""A removal is refused if something could not be kept; so are registrations of a broker that was removed."""

from __future__ import annotations

import pytest

from actors.controller.decisions.replacement import directory_refused, directory_told
from actors.wire.errors import ErrorCode
from placement.metadata import BrokerInfo, PartitionInfo
from placement.records import METADATA_VERSION, REMOVALS, BrokerRecord, FeatureLevelRecord
from tests.support.removal import GONE, Removal

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
