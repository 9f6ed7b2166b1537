"""Clients of one of several listeners get addresses of that listener, and nothing of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from placement.metadata import OFFSETS_TOPIC, BrokerInfo, Endpoint
from placement.records import BrokerRecord
from tests.support.handler_helpers import Broker, led_by

INNER, OUTER = "INTERNAL", "EXTERNAL"


def two_listeners(broker: Broker, broker_id: int, *names: str) -> None:
    ends = tuple(Endpoint(name, f"{name.lower()}-{broker_id}", 9092 + broker_id, "SASL_SSL") for name in names)
    info = BrokerInfo(broker_id, ends[0].host, ends[0].port, None, 0, endpoints=ends)
    broker.metadata.apply(BrokerRecord(info))


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """Brokers 0 and 1 have both listeners, broker 2 the inner one alone; each leads a partition of `t`."""
    made = Broker(tmp_path, brokers=3)
    two_listeners(made, 0, INNER, OUTER)
    two_listeners(made, 1, INNER, OUTER)
    two_listeners(made, 2, INNER)
    made.topic("t", *(led_by(i) for i in range(3)))
    return made


def ask(broker: Broker, listener: str, request: Any, version: int) -> Any:
    broker.connection.listener = listener
    return broker.ask(request, version)


@pytest.mark.conformance("XA-10", "XA-12")
@pytest.mark.parametrize("listener", [INNER, OUTER])
def test_addresses_are_those_of_the_listener_that_the_request_came_by(broker: Broker, listener: str) -> None:
    answers = [
        ask(broker, listener, MetadataRequest(topics=None), 12),
        ask(broker, listener, DescribeClusterRequest(), 1),
        ask(broker, listener, FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b", "c"]), 6),
        ask(broker, listener, DescribeTopicPartitionsRequest(), 0),
    ]
    other = {INNER: OUTER, OUTER: INNER}[listener].lower()
    assert f"{other}-" not in repr(answers)
    assert f"{listener.lower()}-0" in repr(answers[0])
    assert f"{listener.lower()}-1" in repr(answers[1])


@pytest.mark.conformance("XA-11")
@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
def test_a_broker_without_the_listener_is_left_out(broker: Broker, version: int, code: ErrorCode) -> None:
    answer = ask(broker, OUTER, MetadataRequest(topics=None), version)
    assert [each.node_id for each in answer.brokers] == [0, 1]
    (topic,) = [topic for topic in answer.topics if topic.name == "t"]
    led = {p.partition_index: (p.leader_id, p.error_code) for p in topic.partitions}
    leaders = [p.leader for p in broker.metadata.topics["t"].partitions]
    assert sorted(leaders) == [0, 1, 2]
    assert led == {i: (-1, code) if leader == 2 else (leader, 0) for i, leader in enumerate(leaders)}
    assert not [p for p in topic.partitions if p.offline_replicas]


@pytest.mark.conformance("XA-11")
def test_a_coordinator_without_the_listener_is_not_available(broker: Broker) -> None:
    broker.topic(OFFSETS_TOPIC, *(led_by(i) for i in range(3)))
    keys = [f"g{i}" for i in range(30)]
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
    there = {c.key: c.node_id for c in ask(broker, INNER, request, 6).coordinators}
    here = {c.key: (c.node_id, c.error_code) for c in ask(broker, OUTER, request, 6).coordinators}
    away = [key for key, node in there.items() if node == 2]
    assert away
    assert all(here[key] == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE) for key in away)
    assert all(here[key][0] == there[key] for key in keys if key not in away)


@pytest.mark.conformance("XA-07")
def test_a_broker_of_an_older_release_has_the_listener_plaintext() -> None:
    info = BrokerInfo(3, "h", 9095, None, 0)
    assert info.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "h", 9095)
    assert info.endpoint(OUTER) is None
