"""Calls that name many topics or partitions: what is wrong with one of them costs the others nothing.

Unless it is a bug of ours: then the call is answered as a whole (`test_uncommitted.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.controller.decisions import configs as config_changes
from actors.controller.decisions import elections, reassignments
from actors.controller.decisions import topics as administration
from actors.controller.decisions.operations import decide
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from placement.metadata import BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import BrokerRecord, TopicRecord
from tests.support import calls
from tests.support.handler_helpers import Broker

BAD = "bad"


class Cluster:
    """Three brokers, and topics "bad" and "good" of two partitions."""

    def __init__(self) -> None:
        self.metadata = ClusterMetadata()
        for broker in range(3):
            self.metadata.apply(BrokerRecord(BrokerInfo(broker, "h", 1, None, 0, True)))
        for name in (BAD, "good"):
            partitions = (PartitionInfo(1, 3, (0, 1), (0, 1)), PartitionInfo(1, 3, (0, 1), (0, 1)))
            self.metadata.apply(TopicRecord(TopicInfo(name, name.ljust(16).encode(), partitions)))

    def do(self, operation: str, **arguments: Any) -> tuple[list[int], int]:
        """The error code of each item, and how many records were made."""
        config = BrokerConfig.from_mapping({})
        asked = calls.operation(operation, **arguments)
        result, records = decide(self.metadata, config, asked, lambda: b"i" * 16)
        for record in records:
            self.metadata.apply(record)
        return [row["error_code"] for row in calls.plain(result)], len(records)


def test_a_move_of_an_unknown_topic_costs_the_other_partitions_nothing() -> None:
    moves = [["nowhere", 0, [2]], ["good", 0, [2, 1]], ["nowhere", 1, None], ["good", 1, [2, 0]]]
    codes, records = Cluster().do("alter_reassignments", partitions=moves, allow_factor_change=True)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert records == 2


@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [
        (2, [2], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, [2], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [2, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [2, 7], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_each_wrong_move_has_kafkas_code_and_the_right_one_beside_it_begins(
    index: int, replicas: list[int] | None, code: ErrorCode
) -> None:
    cluster = Cluster()
    moves = [[BAD, index, replicas], ["good", 0, [2, 0]]]
    assert cluster.do("alter_reassignments", partitions=moves, allow_factor_change=True) == ([code, 0], 1)
    assert cluster.metadata.topics["good"].partitions[0].adding == (2,)


def test_a_client_is_told_of_each_partition_it_asked_to_move(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    topic, partition = (
        AlterPartitionReassignmentsRequest.ReassignableTopic,
        AlterPartitionReassignmentsRequest.ReassignablePartition,
    )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=1000,
        topics=[
            topic(name="nowhere", partitions=[partition(partition_index=0, replicas=[0])]),
            topic(name="t", partitions=[partition(partition_index=0, replicas=[broker.context.broker_id])]),
        ],
    )
    response = broker.ask(request, 1)
    assert response.error_code == 0
    assert [(t.name, p.error_code) for t in response.responses for p in t.partitions] == [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0),
    ]


def test_moves_of_topics_that_do_not_exist_are_not_listed(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    asked = [topic(name="nowhere", partition_indexes=[0]), topic(name="t", partition_indexes=[0, 5, -1])]
    response = broker.ask(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=asked), 0)
    assert (response.error_code, response.topics) == (0, [])


def test_settings_of_a_broker_with_an_endless_name_cost_no_other_resource(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    resource, setting = AlterConfigsRequest.AlterConfigsResource, AlterConfigsRequest.AlterableConfig
    resources = [
        resource(resource_type=4, resource_name="9" * 5000, configs=[]),
        resource(resource_type=2, resource_name="t", configs=[setting(name="retention.ms", value="1000")]),
    ]
    response = broker.ask(AlterConfigsRequest(resources=resources), 2)
    assert [each.error_code for each in response.responses] == [ErrorCode.INVALID_REQUEST, 0]


def proposal(name: str) -> dict[str, Any]:
    return {
        "topic_id": name.ljust(16).encode(),
        "index": 0,
        "leader_epoch": 3,
        "partition_epoch": 0,
        "isr": [[1, 0]],
    }


CALLS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "create_topics": (
        administration,
        "new_topic_configs",
        {"topics": [{"name": name, "partitions": 1, "factor": 1} for name in ("new-bad", "new")]},
    ),
    "delete_topics": (administration, "check_not_paired", {"topics": [{"name": BAD}, {"name": "good"}]}),
    "create_partitions": (
        administration,
        "PartitionRecord",
        {"topics": [{"name": BAD, "count": 3}, {"name": "good", "count": 3}]},
    ),
    "alter_configs": (
        config_changes,
        "TopicConfigsRecord",
        {"resources": [{"type": 2, "name": name, "replace": False, "operations": []} for name in (BAD, "good")]},
    ),
    "alter_reassignments": (
        reassignments,
        "led_together",
        {"partitions": [[BAD, 0, [2, 1]], ["good", 0, [2, 1]]], "allow_factor_change": True},
    ),
    "elect_leaders": (reassignments, "preferred", {"type": 0, "partitions": [[BAD, 0], ["good", 0]]}),
    "alter_partitions": (
        elections,
        "with_isr",
        {"broker_id": 1, "broker_epoch": 0, "partitions": [proposal(BAD), proposal("good")]},
    ),
}


@pytest.mark.parametrize("operation", CALLS)
def test_a_bug_met_by_one_item_is_no_refusal_and_nothing_is_decided(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, inner, arguments = CALLS[operation]
    sound = getattr(module, inner)
    met: list[object] = []

    def faulty(*given: Any, **named: Any) -> Any:
        met.append(given)
        if len(met) == 1:
            raise KeyError(BAD)
        return sound(*given, **named)

    monkeypatch.setattr(module, inner, faulty)
    cluster = Cluster()
    with pytest.raises(KeyError, match=BAD):
        cluster.do(operation, **arguments)
    codes, records = cluster.do(operation, **arguments)
    assert (codes, records) == ([0, 0], 2)
