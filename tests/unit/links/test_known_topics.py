"""The news of topics that shards get."""

from __future__ import annotations

import pytest

from actors.links.known_topics import TopicLeaders, TopicRacks, known_topics, topic_leaders, topic_racks
from placement.infos import BrokerInfo
from placement.metadata import ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import BrokerRecord, TopicRecord


def metadata(*racks: str | None) -> ClusterMetadata:
    made = ClusterMetadata()
    for broker_id, rack in enumerate(racks):
        made.apply(BrokerRecord(BrokerInfo(broker_id, "127.0.0.1", 9092, rack, 0)))
    parts = tuple(PartitionInfo(each[0], 0, each, each) for each in ((0, 1, 2), (2, 0), (1,), (2, 0)))
    made.apply(TopicRecord(TopicInfo("t", b"t" * 16, parts)))
    return made


@pytest.mark.conformance("K-B-64")
def test_racks_are_sorted_and_those_of_two_brokers_stand_twice() -> None:
    found = topic_racks(metadata("b", None, "a"))
    assert found == (TopicRacks("t", (("a", "b"), ("a", "b"), (), ("a", "b"))),)
    assert topic_racks(metadata("a", "a", "a"))[0].racks[0] == ("a", "a", "a")
    assert topic_racks(metadata(None, "", None)) == ()


def test_leaders_have_the_racks_of_their_brokers() -> None:
    assert topic_leaders(metadata("b", None, "a")) == (TopicLeaders("t", ("b", "a", "", "a")),)
    assert topic_leaders(metadata(None, "", None)) == ()
    assert known_topics(metadata("a")).leaders == (), "unless they are asked for"


def test_all_topics_are_told_with_the_version_of_the_metadata() -> None:
    made = metadata("a", "b", "c")
    known = known_topics(made)
    assert (known.topics, known.version, known.racks) == ((("t", b"t" * 16, 4),), made.version, topic_racks(made))
