"""Settings of topics, and the partitions that requests may name: we take and refuse the same as Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actors.wire.config_resources import ConfigOperation, ConfigResourceType
from actors.wire.messages import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
)
from tests.compat.peers import Peer
from tests.compat.raw import Raw, controller, create_topics, leader_of
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

both = against("kafka", "coterie")

OK, INVALID_CONFIG, INVALID_REQUEST = 0, 40, 42
MIN, MAX = "min.compaction.lag.ms", "max.compaction.lag.ms"

GIVEN = [
    ({"segment.bytes": "1048575"}, INVALID_CONFIG),
    ({"segment.bytes": "1048576"}, OK),
    ({"internal.segment.bytes": "1"}, OK),
    ({"internal.segment.bytes": "0"}, OK),
    ({"internal.segment.bytes": "-1"}, OK),
    ({"internal.segment.bytes": "many"}, INVALID_CONFIG),
    ({MIN: "10", MAX: "5"}, INVALID_CONFIG),
    ({MIN: "10", MAX: "10"}, OK),
    ({MAX: "0"}, INVALID_CONFIG),
    ({"cleanup.policy": ""}, OK),
    ({"cleanup.policy": "delete,delete"}, OK),
    ({"cleanup.policy": " delete , compact "}, OK),
    ({"cleanup.policy": "compact,"}, INVALID_CONFIG),
    ({"cleanup.policy": ","}, INVALID_CONFIG),
    ({"cleanup.policy": "shred"}, INVALID_CONFIG),
    ({"leader.replication.throttled.replicas": "0:1,0:1"}, OK),
    ({"leader.replication.throttled.replicas": "*,*"}, INVALID_CONFIG),
    ({"retention.ms": ""}, INVALID_CONFIG),
    ({"compression.type": ""}, INVALID_CONFIG),
]
"""Settings of a topic, and the error for a client that asks for them: at creation, by AlterConfigs and its
incremental form."""

NULLS = [{key: None} for key in ("segment.bytes", "cleanup.policy", "retention.ms", "no.such.key")]

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
CHANGES = [
    ({}, ("cleanup.policy", SUBTRACT, "delete"), ""),
    ({"cleanup.policy": "delete,compact"}, ("cleanup.policy", SUBTRACT, "delete,compact"), ""),
    ({"cleanup.policy": ""}, ("cleanup.policy", APPEND, "compact"), "compact"),
    ({}, ("cleanup.policy", SUBTRACT, "compact"), "delete"),
    ({}, ("cleanup.policy", SUBTRACT, ""), "delete"),
    ({}, ("cleanup.policy", APPEND, "delete"), "delete"),
    ({}, ("cleanup.policy", APPEND, "compact,compact"), "delete,compact"),
    ({}, ("cleanup.policy", APPEND, " compact "), "delete,compact"),
    ({}, ("cleanup.policy", SET, "delete,delete"), "delete"),
    ({}, ("cleanup.policy", APPEND, ""), INVALID_CONFIG),
    ({}, ("cleanup.policy", APPEND, "shred"), INVALID_CONFIG),
    ({}, ("cleanup.policy", SUBTRACT, None), INVALID_REQUEST),
    ({}, ("retention.ms", APPEND, "1"), INVALID_CONFIG),
    ({MAX: "5"}, (MIN, SET, "10"), INVALID_CONFIG),
    ({MIN: "10"}, (MAX, SET, "5"), INVALID_CONFIG),
    ({"leader.replication.throttled.replicas": "0:1"}, ("leader.replication.throttled.replicas", SUBTRACT, "0:1"), ""),
]
"""Settings of a topic, a change, and the value that it leaves or its error."""


def ask(kafka: Peer, message: Any, version: int) -> Any:
    with Raw(controller(kafka.bootstrap_servers.split(",")[0])) as raw:
        return raw.call(message, version)


def created(kafka: Peer, name: str, configs: Mapping[str, str | None], validate_only: bool = False) -> int:
    made = CreateTopicsRequest
    rows = [made.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = made.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=rows)
    answer = ask(kafka, made(topics=[topic], timeout_ms=30_000, validate_only=validate_only), 5)
    return int(answer.topics[0].error_code)


def replaced(kafka: Peer, name: str, configs: Mapping[str, str | None]) -> int:
    rows = [AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name=name, configs=rows
    )
    return int(ask(kafka, AlterConfigsRequest(resources=[resource], validate_only=True), 0).responses[0].error_code)


def changed(kafka: Peer, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> int:
    made = IncrementalAlterConfigsRequest
    rows = [made.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = made.AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=name, configs=rows)
    answer = ask(kafka, made(resources=[resource], validate_only=validate_only), 0)
    return int(answer.responses[0].error_code)


def described(kafka: Peer, name: str) -> dict[str, str]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name=name, configuration_keys=None
    )
    (result,) = ask(kafka, DescribeConfigsRequest(resources=[resource]), 1).results
    return {row.name: row.value for row in result.configs}


@both
def test_a_setting_is_refused_at_creation_and_later_alike(kafka: Peer, name: str) -> None:
    create_topics(kafka.bootstrap_servers, {name: 1})
    seen = {
        str(given): (
            created(kafka, f"{name}-new", given, validate_only=True),
            replaced(kafka, name, given),
            changed(kafka, name, *((key, SET, value) for key, value in given.items()), validate_only=True),
        )
        for given, _ in GIVEN
    }
    assert seen == {str(given): (code, code, code) for given, code in GIVEN}


@both
@pytest.mark.parametrize("given", NULLS, ids=str)
def test_a_null_setting_is_refused(kafka: Peer, name: str, given: dict[str, None]) -> None:
    create_topics(kafka.bootstrap_servers, {name: 1})
    assert created(kafka, f"{name}-new", given) == INVALID_CONFIG
    assert replaced(kafka, name, given) == INVALID_REQUEST


@both
def test_lists_and_lags_change_from_the_values_that_they_have(kafka: Peer, name: str) -> None:
    for number, (configs, change, expected) in enumerate(CHANGES):
        topic = f"{name}-{number}"
        assert created(kafka, topic, configs) == OK
        code = changed(kafka, topic, change)
        if isinstance(expected, int):
            assert code == expected, change
            continue
        assert code == OK, change
        wait_until(
            lambda topic=topic, change=change, expected=expected: described(kafka, topic).get(change[0]) == expected,
            what=f"{change[0]}={expected!r} after {change} of {configs}",
        )


@both
def test_a_segment_size_for_tests_is_shown_where_it_is_set(kafka: Peer, name: str) -> None:
    assert created(kafka, name, {"internal.segment.bytes": "2000"}) == OK
    create_topics(kafka.bootstrap_servers, {f"{name}-other": 1})
    shown = wait_until(lambda: described(kafka, name), what="the topic")
    assert (shown["internal.segment.bytes"], shown["segment.bytes"]) == ("2000", "1073741824")
    assert "internal.segment.bytes" not in described(kafka, f"{name}-other")


@both
@pytest.mark.parametrize("version", [1, 5, 7])
def test_a_partition_named_twice_in_list_offsets_is_refused_once(kafka: Peer, name: str, version: int) -> None:
    create_topics(kafka.bootstrap_servers, {name: 2})
    leader = leader_of(kafka.bootstrap_servers, name, 1)
    ahead = [(0, -1), (1, -1), (0, -2)]
    parts = [ListOffsetsRequest.ListOffsetsPartition(partition_index=i, timestamp=time) for i, time in ahead]
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=parts)]
    with Raw(leader) as raw:
        answer = raw.call(ListOffsetsRequest(replica_id=-1, topics=topics), version)
    answered = sorted((p.partition_index, p.error_code) for topic in answer.topics for p in topic.partitions)
    assert answered == [(0, INVALID_REQUEST), (1, OK)]
