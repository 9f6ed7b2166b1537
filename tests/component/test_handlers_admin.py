"""Topics, partitions and settings through the protocol: what reaches the controller, and what clients are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers.registry import APIS
from actors.links.calls import Fault
from actors.links.operations import Done
from actors.settings import SETTINGS, topic_config_names
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    request_class,
)
from tests.support.handler_helpers import Broker, answer_to_a_bug, led_by

TOPIC, BROKER = 2, 4

# --- CreateTopics ---


def new_topic(name: str, count: int = -1, factor: int = -1, **fields: Any) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=factor, **fields)


def setting(name: str, value: str | None) -> CreateTopicsRequest.CreatableTopicConfig:
    return CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)


def assigned(index: int, *brokers: int) -> CreateTopicsRequest.CreatableReplicaAssignment:
    return CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_and_described(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=3)
    topic = new_topic("t", 4, 2, configs=[setting("retention.ms", "1000")])
    (result,) = broker.ask(CreateTopicsRequest(topics=[topic]), version).topics
    made = broker.metadata.topics["t"]
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert (len(made.partitions), made.configs) == (4, {"retention.ms": "1000"})
    if version >= 5:
        configs = {config.name: (config.value, config.config_source) for config in result.configs}
        assert (result.num_partitions, result.replication_factor) == (4, 2)
        assert set(configs) == set(topic_config_names({}))
        assert (configs["retention.ms"], configs["cleanup.policy"]) == (("1000", 1), ("delete", 5))
    if version >= 7:
        assert result.topic_id == made.id


@pytest.mark.parametrize("version", range(2, 8))
def test_what_is_wrong_with_one_topic_costs_the_others_nothing(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    topics = [
        new_topic("ok"),
        new_topic("a/b"),
        new_topic("gap", assignments=[assigned(1, 0)]),
        new_topic("twice", configs=[setting("retention.ms", "1"), setting("retention.ms", "2")]),
        new_topic("wide", 1, 2),
        new_topic("also"),
    ]
    results = broker.ask(CreateTopicsRequest(topics=topics), version).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("ok", 0),
        ("a/b", 17),
        ("gap", 39),
        ("twice", 40),
        ("wide", 38),
        ("also", 0),
    ]
    assert set(broker.metadata.topics) == {"ok", "also"}


def test_assignments_reach_the_controller_in_partition_order(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=3)
    topic = new_topic("t", assignments=[assigned(1, 2, 0), assigned(0, 1, 2)])
    broker.ask(CreateTopicsRequest(topics=[topic]), 5)
    assert [p.replicas for p in broker.metadata.topics["t"].partitions] == [(1, 2), (2, 0)]


def test_validation_alone_creates_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    topics = [new_topic("t", 3, 1), new_topic("u", 0, 1)]
    results = broker.ask(CreateTopicsRequest(topics=topics, validate_only=True), 5).topics
    assert [(result.error_code, result.num_partitions) for result in results] == [(0, 3), (37, -1)]
    assert broker.metadata.topics == {}


def test_nobody_knows_what_became_of_a_call_without_answer(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    pending = broker.send(CreateTopicsRequest(topics=[new_topic("t")]), 5)
    broker.controller.fail("the connection to the controller was lost")
    (result,) = pending.response.topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "the connection to the controller was lost" in result.error_message


def test_a_bug_of_the_controllers_is_a_server_error(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    pending = broker.send(CreateTopicsRequest(topics=[new_topic("t")]), 5)
    broker.controller.fail(Fault("the controller failed to carry out CreateTopics: KeyError"))
    (result,) = pending.response.topics
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert result.error_message == "the controller failed to carry out CreateTopics: KeyError"


def test_an_answer_nobody_understands_is_a_server_error(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    pending = broker.send(CreateTopicsRequest(topics=[new_topic("t")]), 5)
    broker.controller.calls.pop()[1](Done(), None)
    assert [result.error_code for result in pending.response.topics] == [-1]


# --- DeleteTopics, CreatePartitions ---


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    names = ["t", "unknown"]
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    results = broker.ask(DeleteTopicsRequest(topics=topics, topic_names=names), version).responses
    assert [(result.name, result.error_code) for result in results] == [("t", 0), ("unknown", 3)]
    assert broker.metadata.topics == {}


def test_topics_are_deleted_by_id(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    known = broker.topic("t").id
    topics = [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=each) for each in (known, b"?" * 16)]
    results = broker.ask(DeleteTopicsRequest(topics=topics), 6).responses
    assert [(r.name, r.topic_id, r.error_code) for r in results] == [("t", known, 0), (None, b"?" * 16, 100)]


@pytest.mark.parametrize(("version", "code"), [(1, 42), (2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_switched_off(tmp_path: Path, version: int, code: int) -> None:
    broker = Broker(tmp_path, delete_topic_enable="false")
    broker.topic("t")
    topics = [DeleteTopicsRequest.DeleteTopicState(name="t")]
    results = broker.ask(DeleteTopicsRequest(topics=topics, topic_names=["t"]), version).responses
    assert [result.error_code for result in results] == [code]
    assert "t" in broker.metadata.topics


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0))
    more = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=3, assignments=None)
    none = CreatePartitionsRequest.CreatePartitionsTopic(name="u", count=3, assignments=None)
    results = broker.ask(CreatePartitionsRequest(topics=[more, none]), version).results
    assert [(result.name, result.error_code) for result in results] == [("t", 0), ("u", 3)]
    assert len(broker.metadata.topics["t"].partitions) == 3


def test_partitions_are_added_where_the_caller_wants_them(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0))
    where = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=[1])]
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2, assignments=where)
    broker.ask(CreatePartitionsRequest(topics=[topic]), 3)
    assert broker.metadata.topics["t"].partitions[1].leader == 1


# --- settings ---


def described(broker: Broker, kind: int, name: str, version: int = 4, keys: Any = None, **fields: Any) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return broker.ask(DescribeConfigsRequest(resources=[resource], **fields), version).results[0]


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings_say_where_they_come_from(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, log_retention_ms="5000")
    broker.topic("t", cleanup_policy="compact")
    result = described(broker, TOPIC, "t", version, include_synonyms=True, include_documentation=True)
    entries = {entry.name: entry for entry in result.configs}
    assert (result.error_code, set(entries)) == (0, set(topic_config_names({})))
    policy, retention, bytes_ = (entries[key] for key in ("cleanup.policy", "retention.ms", "retention.bytes"))
    assert (policy.value, policy.config_source) == ("compact", 1)
    assert (retention.value, retention.config_source) == ("5000", 4)
    assert (bytes_.value, bytes_.config_source) == ("-1", 5)
    assert [(s.name, s.value, s.source) for s in policy.synonyms] == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    if version >= 3:
        assert (policy.config_type, retention.config_type) == (7, 5)
        assert policy.documentation


@pytest.mark.parametrize("keys", [["retention.ms"], ["retention.ms", "no.such.key"]])
def test_only_the_keys_asked_for_are_described(tmp_path: Path, keys: list[str]) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    result = described(broker, TOPIC, "t", keys=keys)
    assert [(entry.name, entry.synonyms, entry.documentation) for entry in result.configs] == [
        ("retention.ms", [], None)
    ]


@pytest.mark.conformance("G-01")
def test_a_broker_describes_every_setting_of_its_own(tmp_path: Path) -> None:
    broker = Broker(tmp_path, group_max_size="7")
    entries = {entry.name: entry for entry in described(broker, BROKER, "0").configs}
    assert set(entries) >= {name for name, setting in SETTINGS.items() if not setting.internal}
    assert (entries["group.max.size"].value, entries["group.max.size"].config_source) == ("7", 4)
    assert entries["group.max.size"].read_only
    assert not entries["log.retention.ms"].read_only
    for name in ("offsets.topic.num.partitions", "group.min.session.timeout.ms", "offset.metadata.max.bytes"):
        assert entries[name].value == SETTINGS[name].format(SETTINGS[name].default)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [(TOPIC, "unknown", 3), (TOPIC, "a/b", 17), (BROKER, "9", 42), (BROKER, "x", 42), (8, "9", 42)],
)
def test_what_cannot_be_described(tmp_path: Path, kind: int, name: str, code: int) -> None:
    result = described(Broker(tmp_path), kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert name in result.error_message or str(kind) in result.error_message


@pytest.mark.parametrize("version", range(2))
def test_single_settings_are_changed(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", retention_ms="1000", segment_bytes="2000")

    def change(key: str, operation: int, value: str | None) -> IncrementalAlterConfigsRequest.AlterableConfig:
        return IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)

    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[
            change("retention.ms", 1, None),
            change("cleanup.policy", 2, "compact"),
            change("retention.bytes", 0, "9"),
        ],
    )
    (result,) = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), version).responses
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "t")
    assert broker.metadata.topics["t"].configs == {
        "segment.bytes": "2000",
        "cleanup.policy": "delete,compact",
        "retention.bytes": "9",
    }


@pytest.mark.parametrize("version", range(3))
def test_all_settings_are_replaced(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", retention_ms="1000", segment_bytes="2000")
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[AlterConfigsRequest.AlterableConfig(name="retention.bytes", value="9")],
    )
    bad = AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name="u")
    results = broker.ask(AlterConfigsRequest(resources=[resource, bad]), version).responses
    assert [(result.error_code, result.resource_name) for result in results] == [(0, "t"), (3, "u")]
    assert broker.metadata.topics["t"].configs == {"retention.bytes": "9"}


# --- every API ---


def example(api_key: int, version: int) -> Any:
    """A request with something in it, as decoded from its bytes."""
    requests: dict[int, Any] = {
        ApiKey.CREATE_TOPICS: CreateTopicsRequest(topics=[new_topic("t")]),
        ApiKey.DELETE_TOPICS: DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name="t")], topic_names=["t"]
        ),
        ApiKey.CREATE_PARTITIONS: CreatePartitionsRequest(
            topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2)]
        ),
    }
    message = requests.get(api_key) or request_class(api_key)()
    return type(message).decode(message.encode(version), version)


@pytest.mark.parametrize("api_key", [key for key, api in APIS.items() if api.failed is not None])
def test_a_bug_is_answered_in_every_version(api_key: int) -> None:
    handler = APIS[api_key]
    for version in range(handler.served_from, handler.last + 1):
        response = answer_to_a_bug(example(api_key, version), version)
        assert response.api_key == api_key
        assert response.decode(response.encode(version), version)
