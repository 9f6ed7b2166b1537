"""Requests of tools: log directories, producers, the quorum, topics in pages, features, and missing things."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.handlers import describe_log_dirs
from actors.broker.handlers.describe_quorum import CONTROLLER_ID, METADATA_TOPIC
from actors.broker.handlers.features import FEATURES, OURS
from actors.broker.handlers.registry import APIS
from actors.links.operations import (
    DescribeQuorum,
    MetadataVersionRaised,
    Observer,
    Quorum,
    QuorumNode,
    RaiseMetadataVersion,
)
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    AlterReplicaLogDirsRequest,
    ApiVersionsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    GetTelemetrySubscriptionsRequest,
    ListTransactionsRequest,
    UpdateFeaturesRequest,
    request_class,
    response_class,
)
from placement.records import METADATA_LEVELS, RemoveTopicRecord
from tests.support.handler_helpers import NOW_MS, Broker, answer_to_a_bug, led_by
from tests.support.log_helpers import values

NEW_APIS = (
    ApiKey.DESCRIBE_ACLS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)


def written(broker: Broker, topic: str, *items: bytes, **options: Any) -> int:
    """Append a batch to partition 0; its size in bytes."""
    data = values(*items, **options)
    log = broker.context.log(topic, 0)
    log.append_as_leader(data, 0, NOW_MS)
    broker.led.appended(topic, 0, log, broker.metadata.topics[topic].partitions[0])
    return len(data)


@pytest.mark.parametrize("api_key", NEW_APIS)
def test_whole_requests_are_refused_in_every_version(api_key: int) -> None:
    handler = APIS[api_key]
    for version in range(handler.first, handler.last + 1):
        refusal = answer_to_a_bug(request_class(api_key)(), version)
        assert response_class(api_key).decode(refusal.encode(version), version) is not None


# --- DescribeLogDirs, AlterReplicaLogDirs ---


def log_dirs(broker: Broker, version: int = 4, topics: Any = None) -> Any:
    (result,) = broker.ask(DescribeLogDirsRequest(topics=topics), version).results
    return result


@pytest.mark.conformance("K-I-32")
@pytest.mark.parametrize("version", range(1, 6))
def test_a_log_dir_says_how_large_its_logs_are(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0), led_by(1), led_by(0))
    broker.topic("u", led_by(1, 0))
    size = written(broker, "t", b"one", b"two") + written(broker, "t", b"three")
    result = log_dirs(broker, version)
    found = {(t.name, p.partition_index): p.partition_size for t in result.topics for p in t.partitions}
    assert (result.error_code, result.log_dir) == (0, str(tmp_path / "data"))
    assert result.is_cordoned is False
    assert found == {("t", 0): size, ("t", 2): 0, ("u", 0): 0}
    if version >= 4:
        assert result.total_bytes >= result.usable_bytes > 0


def test_a_log_dir_describes_only_the_partitions_asked_for(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    broker.topic("u")
    asked = DescribeLogDirsRequest.DescribableLogDirTopic
    result = log_dirs(broker, topics=[asked(topic="t", partitions=[1, 7]), asked(topic="gone", partitions=[0])])
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in result.topics] == [("t", [1])]
    assert log_dirs(broker, topics=[]).topics == []


def test_a_log_of_an_earlier_topic_of_that_name_is_not_counted(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    written(broker, "t", b"of the first")
    broker.metadata.apply(RemoveTopicRecord("t"))
    broker.topic("t", topic_id=77)
    assert log_dirs(broker).topics[0].partitions[0].partition_size == 0


def test_a_followers_lag_is_what_replication_says(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    topic = broker.topic("t", led_by(1, 0))
    broker.data_dir.create("t", 0, topic.id, broker.context.topic_log_config("t"), now_ms=NOW_MS)
    broker.replication.lags["t", 0] = 7
    assert log_dirs(broker).topics[0].partitions[0].offset_lag == 7


def test_a_log_the_disk_does_not_show_is_left_out(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    broker.data_dir.not_opened.add(("t", 0))
    assert [p.partition_index for p in log_dirs(broker).topics[0].partitions] == [1]


def test_a_disk_that_does_not_answer_is_its_directorys_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: str) -> None:
        raise OSError(5, "Input/output error")

    broker = Broker(tmp_path)
    broker.topic("t")
    monkeypatch.setattr(describe_log_dirs.shutil, "disk_usage", gone)
    result = log_dirs(broker)
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_is_not_moved_to_another_directory(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0), led_by(1))
    cls = AlterReplicaLogDirsRequest
    dirs = [
        cls.AlterReplicaLogDir(path=path, topics=[cls.AlterReplicaLogDirTopic(name="t", partitions=[0, 1, 2])])
        for path in (str(tmp_path / "data"), "/elsewhere")
    ]
    (topic,) = broker.ask(cls(dirs=dirs), version).results
    codes = [(p.partition_index, p.error_code) for p in topic.partitions]
    absent, nowhere = ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.LOG_DIR_NOT_FOUND
    assert codes == [(0, 0), (1, absent), (2, absent), (0, nowhere), (1, nowhere), (2, nowhere)]


# --- DescribeProducers, ListTransactions ---


def producers(broker: Broker, topic: str, *indexes: int) -> Any:
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=list(indexes))
    (answer,) = broker.ask(DescribeProducersRequest(topics=[asked]), 0).topics
    return answer.partitions


def test_the_idempotent_producers_of_a_log_are_described(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    written(broker, "t", b"of nobody")
    written(broker, "t", b"a", b"b", producer_id=9, producer_epoch=2, base_sequence=0, timestamp_ms=NOW_MS - 5)
    written(broker, "t", b"c", producer_id=9, producer_epoch=2, base_sequence=2, timestamp_ms=NOW_MS - 3)
    written(broker, "t", b"d", producer_id=4, producer_epoch=0, base_sequence=0, timestamp_ms=NOW_MS - 1)
    (partition,) = producers(broker, "t", 0)
    found = [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp, p.coordinator_epoch)
        for p in partition.active_producers
    ]
    assert (partition.error_code, partition.error_message) == (0, None)
    assert found == [(4, 0, 0, NOW_MS - 1, -1), (9, 2, 2, NOW_MS - 3, -1)]
    assert {p.current_txn_start_offset for p in partition.active_producers} == {-1}


def test_producers_are_described_by_whoever_has_a_replica(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(1, 0), led_by(1))
    followed, elsewhere, nowhere = producers(broker, "t", 0, 1, 2)
    assert (followed.error_code, followed.active_producers) == (0, [])
    assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producers(broker, "a/b", 0)[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    broker.data_dir.not_opened.add(("t", 0))
    assert producers(broker, "t", 0)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("version", range(3))
def test_there_are_no_transactions_to_list(tmp_path: Path, version: int) -> None:
    answer = Broker(tmp_path).ask(ListTransactionsRequest(state_filters=["Ongoing", "ongoing"]), version)
    assert (answer.error_code, answer.transaction_states, answer.unknown_state_filters) == (0, [], ["ongoing"])


# --- DescribeQuorum ---


def quorum_request(topic: str = METADATA_TOPIC, *indexes: int) -> DescribeQuorumRequest:
    partitions = [DescribeQuorumRequest.PartitionData(partition_index=i) for i in indexes or (0,)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic_name=topic, partitions=partitions)])


@pytest.mark.parametrize("version", range(3))
def test_the_controller_is_the_quorums_one_voter(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    pending = broker.send(quorum_request(), version)
    ((operation, done),) = broker.controller.calls
    observers = (Observer(0, 41, 990, 990), Observer(2, 38, 980, 600))
    done(Quorum(3, 41, 1000, "h", 50_000, observers), None)
    answer = pending.response
    ((topic,), partition) = answer.topics, answer.topics[0].partitions[0]
    assert (operation, answer.error_code, topic.topic_name) == (DescribeQuorum(), 0, METADATA_TOPIC)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (CONTROLLER_ID, 3, 41)
    assert [(v.replica_id, v.log_end_offset) for v in partition.current_voters] == [(CONTROLLER_ID, 41)]
    assert [(o.replica_id, o.log_end_offset) for o in partition.observers] == [(0, 41), (2, 38)]
    if version >= 1:
        assert [o.last_caught_up_timestamp for o in partition.observers] == [990, 600]
    if version >= 2:
        ((node,), listener) = answer.nodes, answer.nodes[0].listeners[0]
        assert (node.node_id, listener.name, listener.host, listener.port) == (CONTROLLER_ID, "CONTROLLER", "h", 50_000)


@pytest.mark.conformance("N-C-09")
@pytest.mark.parametrize("version", range(3))
def test_of_several_controllers_each_is_told_with_its_own_end_and_times(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    pending = broker.send(quorum_request(), version)
    ((_, done),) = broker.controller.calls
    directories = [f"{number:032x}" for number in range(1, 5)]
    controllers = (
        QuorumNode(0, directories[0], "h0", 50_000, 41, 1000, 990, votes=True, leads=False),
        QuorumNode(1, directories[1], "h1", 50_001, 44, 1000, 1000, votes=True, leads=True),
        QuorumNode(2, directories[2], "", 0, 0, -1, -1, votes=True, leads=False),
        QuorumNode(3, directories[3], "h3", 50_003, 7, 900, -1, votes=False, leads=False),
    )
    done(Quorum(3, 44, 1000, "h1", 50_001, (Observer(0, 41, 990, 990),), 41, controllers), None)
    answer = pending.response
    partition = answer.topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (CONTROLLER_ID + 1, 3, 41)
    ends = {v.replica_id: v.log_end_offset for v in partition.current_voters}
    assert ends == {CONTROLLER_ID: 41, CONTROLLER_ID + 1: 44, CONTROLLER_ID + 2: 0}
    assert [(o.replica_id, o.log_end_offset) for o in partition.observers] == [(CONTROLLER_ID + 3, 7), (0, 41)]
    if version >= 1:
        times = [(v.last_fetch_timestamp, v.last_caught_up_timestamp) for v in partition.current_voters]
        assert times == [(1000, 990), (1000, 1000), (-1, -1)]
    if version >= 2:
        assert [v.replica_directory_id.hex() for v in partition.current_voters] == directories[:3]
        assert [(n.node_id, n.listeners[0].port) for n in answer.nodes] == [
            (CONTROLLER_ID, 50_000),
            (CONTROLLER_ID + 1, 50_001),
        ]


def test_a_quorum_that_the_controller_does_not_describe_has_timed_out(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    pending = broker.send(quorum_request(), 2)
    broker.controller.fail("gone")
    assert pending.response.error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("asked", [("orders", 0), (METADATA_TOPIC, 1), (METADATA_TOPIC, 0, 1)])
def test_no_other_quorum_is_known(tmp_path: Path, asked: tuple[Any, ...]) -> None:
    (topic,) = Broker(tmp_path).ask(quorum_request(*asked), 2).topics
    assert {p.error_code for p in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# --- features ---


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_listed_as_far_as_a_client_can_read_them(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    answer = broker.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), version)
    supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    finalized = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
    assert supported["metadata.version"] == (33, 33)
    assert supported.get("transaction.version") == ((0, 0) if version == 4 else None)
    assert supported[OURS] == (1, METADATA_LEVELS[-1])
    assert finalized == {"eligible.leader.replicas.version": (1, 1), "metadata.version": (33, 33), OURS: (1, 1)}
    assert answer.finalized_features_epoch == broker.metadata.version


def updates(*levels: tuple[str, int]) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level) for name, level in levels
        ]
    )


def test_features_that_stay_are_updated(tmp_path: Path) -> None:
    answer = Broker(tmp_path).ask(updates(*((name, f.level) for name, f in FEATURES.items())), 2)
    assert (answer.error_code, answer.error_message) == (0, None)


@pytest.mark.parametrize(("name", "level"), [("metadata.version", 32), ("transaction.version", 2), ("mine", 1)])
def test_no_feature_can_be_changed(tmp_path: Path, name: str, level: int) -> None:
    asked = updates(("metadata.version", 33), (name, level))
    answer = Broker(tmp_path).ask(asked, 2)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert name in answer.error_message
    for version in (0, 1):
        older = Broker(tmp_path / str(version)).ask(asked, version)
        assert older.error_code == 0
        assert [r.error_code for r in older.results] == [0, ErrorCode.INVALID_UPDATE_VERSION]


def test_our_own_feature_is_raised_by_the_controller(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    for version, codes in ((2, []), (1, [0, 0]), (0, [0, 0])):
        asked = broker.send(updates(("metadata.version", 33), (OURS, 2)), version)
        operation, done = broker.controller.calls.pop()
        assert operation == RaiseMetadataVersion(2)
        done(MetadataVersionRaised(0, None), None)
        answer = asked.response
        assert (answer.error_code, [each.error_code for each in answer.results]) == (0, codes)


def test_our_own_feature_stays_where_the_controller_says_why(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    asked = broker.send(updates((OURS, 9)), 2)
    _, done = broker.controller.calls.pop()
    done(MetadataVersionRaised(ErrorCode.INVALID_UPDATE_VERSION, "broker 1 is old"), None)
    answer = asked.response
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_UPDATE_VERSION, "broker 1 is old")
    answer = broker.ask(updates((OURS, 2), ("transaction.version", 2)), 2)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert broker.controller.calls == [], "nothing is raised if another update is refused"


# --- what is not there ---


@pytest.mark.parametrize("version", range(1, 4))
def test_acls_are_disabled(tmp_path: Path, version: int) -> None:
    answer = Broker(tmp_path).ask(DescribeAclsRequest(), version)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])


@pytest.mark.parametrize("version", [0, 1])
def test_there_are_no_quotas(tmp_path: Path, version: int) -> None:
    answer = Broker(tmp_path).ask(DescribeClientQuotasRequest(components=[], strict=False), version)
    assert (answer.error_code, answer.error_message, answer.entries) == (0, None, [])


def test_a_client_has_no_metrics_to_push_and_keeps_its_id(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    new, other = (broker.ask(GetTelemetrySubscriptionsRequest(), 0) for _ in range(2))
    assert (new.error_code, new.requested_metrics) == (0, [])
    assert new.push_interval_ms > 0
    assert any(new.client_instance_id)
    assert new.client_instance_id != other.client_instance_id
    again = broker.ask(GetTelemetrySubscriptionsRequest(client_instance_id=new.client_instance_id), 0)
    assert again.client_instance_id == new.client_instance_id
