"""DescribeTopicPartitions and ListConfigResources, as clients see them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    DescribeTopicPartitionsRequest,
    ListConfigResourcesRequest,
)
from actors.wire.operations import TOPIC_OPERATIONS
from placement.records import BrokerRecord
from tests.support.handler_helpers import Broker, led_by

# --- DescribeTopicPartitions ---


def page(broker: Broker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    cls = DescribeTopicPartitionsRequest
    request = cls(topics=[cls.TopicRequest(name=name) for name in names], response_partition_limit=limit)
    if cursor is not None:
        request.cursor = cls.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return broker.ask(request, 0)


def places(answer: Any) -> list[tuple[str, int]]:
    return [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]


def test_a_partition_is_described_with_its_eligible_leaders(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=3)
    topic = broker.topic("t", replace(led_by(0, 1, 2), elr=(1,), leader_epoch=4))
    broker.metadata.apply(BrokerRecord(replace(broker.metadata.brokers[2], alive=False)))
    (found,) = page(broker, "t").topics
    (partition,) = found.partitions
    assert (found.error_code, found.topic_id, found.is_internal) == (0, topic.id, False)
    assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (0, 4, [0, 1, 2])
    assert (partition.isr_nodes, partition.eligible_leader_replicas, partition.last_known_elr) == ([0], [1], [])
    assert partition.offline_replicas == [2]
    assert found.topic_authorized_operations == TOPIC_OPERATIONS


def test_topics_come_in_pages_that_go_on_where_the_last_one_ended(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    for name, count in (("c", 1), ("a", 3), ("b", 2)):
        broker.topic(name, *[led_by(0)] * count)
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(4):
        answer = page(broker, limit=2, cursor=cursor)
        assert len(places(answer)) <= 2
        seen += places(answer)
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert answer.next_cursor is None
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_a_page_begins_after_a_topic_that_has_gone(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("a")
    broker.topic("c")
    assert places(page(broker, cursor=("b", 5))) == [("c", 0)]


def test_topics_that_are_not_there_are_named(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    codes = {t.name: t.error_code for t in page(broker, "t", "gone", "a/b").topics}
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes == {"t": 0, "gone": unknown, "a/b": invalid}


@pytest.mark.parametrize("cursor", [("t", -1), ("u", 0)])
def test_an_illegal_cursor_is_refused(tmp_path: Path, cursor: tuple[str, int]) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    assert [t.error_code for t in page(broker, "t", cursor=cursor).topics] == [ErrorCode.INVALID_REQUEST]


# --- ListConfigResources ---


def resources(broker: Broker, version: int, *types: int) -> list[tuple[int, str]]:
    answer = broker.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    assert answer.error_code == 0
    return [(r.resource_type, r.resource_name) for r in answer.config_resources]


def test_topics_and_brokers_have_settings(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("b")
    broker.topic("a")
    assert resources(broker, 1) == [(2, "a"), (2, "b"), (4, "0"), (4, "1"), (8, "0"), (8, "1")]
    assert resources(broker, 1, 4) == [(4, "0"), (4, "1")]
    assert resources(broker, 1, 8, 16) == [(8, "0"), (8, "1")]
    assert resources(broker, 1, 16) == []
    assert resources(broker, 0) == []
    refused = broker.ask(ListConfigResourcesRequest(resource_types=[2, 3]), 1)
    assert (refused.error_code, refused.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
