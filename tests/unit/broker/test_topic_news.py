"""Shards hear of a new leader where an assignor prefers near partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.broker.coordinators.topics import TopicNews
from actors.links.known_topics import TopicLeaders
from actors.settings import BrokerConfig
from placement.infos import BrokerInfo
from placement.metadata import ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import BrokerRecord, PartitionRecord, TopicRecord


@pytest.mark.parametrize(("affinity", "expected"), [("false", []), ("true", [TopicLeaders("t", ("r1",))])])
def test_a_new_leader_is_told_only_where_assignors_prefer_near_ones(
    affinity: str, expected: list[TopicLeaders]
) -> None:
    metadata, said = ClusterMetadata(), cast("list[Any]", [])
    for broker_id in (0, 1):
        metadata.apply(BrokerRecord(BrokerInfo(broker_id, "127.0.0.1", 9092, f"r{broker_id}", 0)))
    metadata.apply(TopicRecord(TopicInfo("t", b"t" * 16, (PartitionInfo(0, 0, (0, 1), (0, 1)),))))
    config = BrokerConfig.from_mapping({"coterie.group.consumer.rack.affinity": affinity})
    context = cast("Any", SimpleNamespace(config=config, metadata=metadata, broker_id=0))
    link = SimpleNamespace(protocol=SimpleNamespace(say=lambda kind, news: said.append(news.message)))
    partitions = cast("Any", SimpleNamespace(links={0: link}))
    news = TopicNews(context, "__consumer_offsets", partitions, cast("Any", None))
    assert news.tell()
    assert not news.tell()
    metadata.apply(PartitionRecord("t", 0, PartitionInfo(1, 1, (0, 1), (0, 1))))
    assert news.tell() is bool(expected)
    assert [each for told in said[1:] for each in told.leaders] == expected
