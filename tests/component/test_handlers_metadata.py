"""ApiVersions, Metadata and DescribeCluster: what there is, who leads it, and what is created on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers import api_versions
from actors.broker.handlers.registry import APIS
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_response
from actors.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    MetadataRequest,
    request_class,
    response_class,
)
from placement.metadata import OFFSETS_TOPIC, BrokerInfo
from placement.records import BrokerRecord, ClusterRecord
from tests.support.handler_helpers import Broker, Controller, led_by

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

# --- ApiVersions ---


@pytest.mark.parametrize("version", range(6))
def test_api_versions_advertises_what_works(tmp_path: Path, version: int) -> None:
    answer = Broker(tmp_path).ask(
        ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.1.0-rc.1"), version
    )
    ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    assert answer.error_code == 0
    assert set(ranges) == set(APIS)
    for key, (_, last) in ranges.items():
        served_from = APIS[key].served_from
        known = (request_class(key), response_class(key))
        assert all(cls.min_version <= served_from <= last <= cls.max_version for cls in known)


def test_produce_is_advertised_from_0_for_older_librdkafka(tmp_path: Path) -> None:
    answer = Broker(tmp_path).ask(ApiVersionsRequest(), 0)
    assert [key.min_version for key in answer.api_keys if key.api_key == ApiKey.PRODUCE] == [0]
    assert not any(APIS[ApiKey.PRODUCE].serves(version) for version in (0, 1, 2, 14))
    assert APIS[ApiKey.PRODUCE].serves(3)


# The table of what clients of our day send: api key -> versions.
REAL_CLIENTS = {
    ApiKey.API_VERSIONS: (0, 2, 3, 4, 5),
    ApiKey.METADATA: (4, 5, 6, 13),
    ApiKey.PRODUCE: (7, 9, 10, 13),
    ApiKey.FETCH: (11, 12, 16, 18),
    ApiKey.LIST_OFFSETS: (2, 3, 7, 10, 11),
    ApiKey.FIND_COORDINATOR: (1, 2, 6),
    ApiKey.JOIN_GROUP: (5, 7, 9),
    ApiKey.SYNC_GROUP: (3, 5),
    ApiKey.HEARTBEAT: (1, 3, 4),
    ApiKey.LEAVE_GROUP: (1, 3, 5),
    ApiKey.OFFSET_COMMIT: (3, 5, 7, 8, 9, 10),
    ApiKey.OFFSET_FETCH: (3, 4, 7, 8, 9, 10),
    ApiKey.INIT_PRODUCER_ID: (0, 4, 5),
    ApiKey.LIST_GROUPS: (0, 1, 2, 5),
    ApiKey.DESCRIBE_GROUPS: (1, 3, 5, 6),
    ApiKey.DELETE_GROUPS: (0, 1, 2, 3),
}


@pytest.mark.parametrize("api_key", REAL_CLIENTS)
def test_every_version_that_real_clients_send_is_served(api_key: int) -> None:
    assert all(APIS[api_key].serves(version) for version in REAL_CLIENTS[api_key])


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("name", "release"), [("", "1"), ("x", ""), ("-x", "1"), ("a b", "1"), ("x", "1."), ("é", "1")]
)
def test_an_illegal_client_software_name_is_refused(tmp_path: Path, version: int, name: str, release: str) -> None:
    message = ApiVersionsRequest(client_software_name=name, client_software_version=release)
    assert Broker(tmp_path).ask(message, version).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.conformance("K-I-25", "K-I-26")
@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("here", 0, ErrorCode.NONE),
        ("there", 0, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", 0, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("here", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("here", -2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("here", -1, ErrorCode.INVALID_REQUEST),
        (None, 0, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_that_meant_another_broker_is_told_so(
    tmp_path: Path, cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    """Its software's name is looked at first, and versions before 5 say nothing of a broker."""
    broker = Broker(tmp_path, brokers=2)
    broker.metadata.apply(ClusterRecord("here"))
    meant = ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    answer = broker.ask(meant, 5)
    assert (answer.error_code, bool(answer.api_keys)) == (code, code is ErrorCode.NONE)
    assert broker.ask(meant, 4).error_code == ErrorCode.NONE
    meant.client_software_name = "-"
    assert broker.ask(meant, 5).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.conformance("K-I-29")
def test_an_unknown_version_is_answered_in_version_0_with_our_range() -> None:
    frame = encode_response(api_versions.unsupported(), 0, 9)[4:]
    _, answer = decode_response(ApiVersionsResponse, 0, frame)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 5)]


# --- Metadata ---

VERSIONS = range(14)


def named(*names: str, **fields: Any) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, **fields)


def codes(response: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_describes_living_brokers_and_topics(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=3)
    broker.topic("t", led_by(1, 2, 0, epoch=4), led_by(-1, 0), topic_id=77)
    broker.metadata.apply(BrokerRecord(BrokerInfo(0, "host0", 9092, "r", 1, alive=False)))
    answer = broker.ask(named("t"), version)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "host1", 9093), (2, "host2", 9094)]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, "t")
    first, second = topic.partitions
    assert (first.error_code, first.leader_id, first.replica_nodes, first.isr_nodes) == (0, 1, [1, 2, 0], [1])
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    if version >= 1:
        assert (answer.controller_id, topic.is_internal) == (1, False)
    if version >= 2:
        assert answer.cluster_id == "cluster-of-tests"
    if version >= 5:
        assert (first.offline_replicas, second.offline_replicas) == ([0], [0])
    if version >= 7:
        assert first.leader_epoch == 4
    if version >= 8:
        assert topic.topic_authorized_operations == -(1 << 31)
    if version >= 10:
        assert topic.topic_id == (77).to_bytes(16, "big")


@pytest.mark.parametrize(
    ("version", "topics", "expected"),
    [(0, [], ["a", "b"]), (1, None, ["a", "b"]), (13, None, ["a", "b"]), (1, [], []), (13, [], [])],
)
def test_all_topics_or_none(tmp_path: Path, version: int, topics: list[Any] | None, expected: list[str]) -> None:
    broker = Broker(tmp_path)
    broker.topic("a")
    broker.topic("b")
    assert list(codes(broker.ask(MetadataRequest(topics=topics), version))) == expected


@pytest.mark.conformance("K-I-22", "K-I-34")
@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", topic_id=5)
    topics = [MetadataRequest.MetadataRequestTopic(name=None, topic_id=n.to_bytes(16, "big")) for n in (5, 6)]
    answer = broker.ask(MetadataRequest(topics=topics), version)
    assert codes(answer) == {"t": 0, None: ErrorCode.UNKNOWN_TOPIC_ID}
    assert answer.error_code == 0, "of the whole answer"


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_are_refused_where_kafka_does_not_know_them_yet(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    topics = [MetadataRequest.MetadataRequestTopic(name=None, topic_id=b"x" * 16)]
    assert list(codes(broker.ask(MetadataRequest(topics=topics), version)).values()) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 250])
def test_an_illegal_name_is_refused_and_not_created(tmp_path: Path, name: str) -> None:
    broker = Broker(tmp_path)
    assert codes(broker.ask(named(name), 9)) == {name: ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert broker.controller.operations == []


def test_the_offsets_topic_is_internal(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic(OFFSETS_TOPIC)
    assert broker.ask(named(OFFSETS_TOPIC), 9).topics[0].is_internal


# --- creation on the way ---


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_asked_for_is_unknown_first_and_there_on_the_next_look(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=3, num_partitions="4", default_replication_factor="2")
    broker.topic("old")
    assert codes(broker.ask(named("new", "old"), version)) == {"new": UNKNOWN, "old": 0}
    assert codes(broker.ask(named("new", "old"), version)) == {"new": 0, "old": 0}
    made = broker.metadata.topics["new"]
    assert (len(made.partitions), len(made.partitions[0].replicas)) == (4, 2)


def test_a_look_after_a_deletion_does_not_show_the_topic_that_it_brings_back(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    assert [codes(broker.ask(named("t"), 9))["t"] for _ in range(2)] == [UNKNOWN, 0]
    deletion = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    assert [each.error_code for each in broker.ask(deletion, 5).responses] == [0]
    assert [codes(broker.ask(named("t"), 9))["t"] for _ in range(2)] == [UNKNOWN, 0]


@pytest.mark.parametrize(
    ("enabled", "version", "allowed"), [("false", 9, True), ("true", 9, False), ("true", 4, False), ("false", 1, True)]
)
def test_topics_are_created_only_if_broker_and_client_allow_it(
    tmp_path: Path, enabled: str, version: int, allowed: bool
) -> None:
    broker = Broker(tmp_path, auto_create_topics_enable=enabled)
    answer = broker.ask(named("new", allow_auto_topic_creation=allowed), version)
    assert codes(answer) == {"new": UNKNOWN}
    assert broker.controller.operations == []


def test_topics_whose_creation_is_under_way_are_not_asked_for_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    for names in (("a",), ("a",), ("a", "b"), ("b", "b", "a")):
        assert set(codes(broker.ask(named(*names), 9)).values()) == {UNKNOWN}
    assert [[topic.name for topic in asked.topics] for asked, _ in broker.controller.calls] == [["a"], ["b"]]


@pytest.mark.parametrize("ends", [Controller.answer, lambda controller: controller.fail("the connection was lost")])
def test_a_topic_that_could_not_be_created_stays_unknown_and_is_asked_for_again(
    tmp_path: Path, ends: Callable[[Controller], None]
) -> None:
    broker = Broker(tmp_path, default_replication_factor="2")
    broker.controller.prompt = False
    for _ in range(2):
        assert codes(broker.ask(named("new"), 9)) == {"new": UNKNOWN}
        ends(broker.controller)
    assert broker.controller.operations == ["create_topics"] * 2


def test_why_topics_cannot_be_created_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(tmp_path, default_replication_factor="2")
    for name in ("new", "new", "newer"):
        broker.ask(named(name), 9)
    assert ["'new'" in each.getMessage() for each in caplog.records] == [True]


def test_no_more_topics_are_under_way_than_the_broker_remembers(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    for part in range(3):
        broker.ask(named(*(f"t-{part}-{n}" for n in range(4000))), 9)
    assert [len(asked.topics) for asked, _ in broker.controller.calls] == [4000, 4000, 2000]


def test_the_offsets_topic_is_internal_before_it_exists(tmp_path: Path) -> None:
    answer = Broker(tmp_path).ask(named(OFFSETS_TOPIC, "t", allow_auto_topic_creation=False), 9)
    assert {topic.name: topic.is_internal for topic in answer.topics} == {OFFSETS_TOPIC: True, "t": False}


def test_the_offsets_topic_is_created_with_its_own_settings(tmp_path: Path) -> None:
    broker = Broker(tmp_path, offsets_topic_num_partitions="7", offsets_topic_replication_factor="1")
    broker.controller.prompt = False
    assert codes(broker.ask(named(OFFSETS_TOPIC), 9)) == {OFFSETS_TOPIC: UNKNOWN}
    broker.controller.answer()
    assert len(broker.metadata.topics[OFFSETS_TOPIC].partitions) == 7


# --- DescribeCluster ---


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.metadata.apply(BrokerRecord(BrokerInfo(0, "host0", 9092, None, 1, alive=False)))
    answer = broker.ask(DescribeClusterRequest(include_fenced_brokers=version == 2), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster-of-tests", 1)
    expected = [(0, True), (1, False)] if version == 2 else [(1, False)]
    assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == expected
    assert answer.cluster_authorized_operations == -(1 << 31)


@pytest.mark.parametrize(("kind", "code"), [(2, 114), (3, 115)])
def test_controllers_cannot_be_listed(tmp_path: Path, kind: int, code: int) -> None:
    assert Broker(tmp_path).ask(DescribeClusterRequest(endpoint_type=kind), 1).error_code == code
