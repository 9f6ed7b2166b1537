"""Kafka's own tools print the same for a Coterie as for a Kafka; docs/protocol.md explains the differences.

Each test asserts the output for both. The tools run once for each kind of broker, in one JVM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from operator import not_
from typing import Any

import confluent_kafka
import pytest

from placement.records import METADATA_LEVELS
from tests.compat.drivers import Confluent
from tests.compat.peers import Peer
from tests.compat.raw import RETRIABLE_JOIN
from tests.compat.remote import CONFIGS, TOOLS, Printed, Remote, run_tools
from tests.compat.support import against, wait_until

brokers = against("kafka", "coterie")

RECORDS = 30
TIMEOUT_S = 60
FEATURES = f"{TOOLS}.FeatureCommand"
QUORUM = f"{TOOLS}.MetadataQuorumCommand"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"

_TOPIC = "asked-by-tools"
_GROUP = "asked-by-tools"
_NOBODY = ("--entity-type", "users", "--entity-name", "nobody")
_NOWHERE = ("--entity-type", "ips", "--entity-name", "192.0.2.1")
_COMMANDS = {
    "log-dirs": (f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", _TOPIC),
    "status": (QUORUM, "describe", "--status"),
    "replication": (QUORUM, "describe", "--replication"),
    "features": (FEATURES, "describe"),
    "newer": (FEATURES, "upgrade", "--feature", "metadata.version=99"),
    "older": (FEATURES, "downgrade", "--feature", "metadata.version=20"),
    "groups": (CONFIGS, "--describe", "--entity-type", "groups"),
    "group": (CONFIGS, "--describe", "--entity-type", "groups", "--entity-name", _GROUP),
    "client-metrics": (CONFIGS, "--describe", "--entity-type", "client-metrics"),
    "clients": (CONFIGS, "--describe", "--entity-type", "clients"),
    "transactions": (TRANSACTIONS, "list"),
    "producers": (TRANSACTIONS, "describe-producers", "--topic", _TOPIC, "--partition", "0"),
    "topic": (f"{TOOLS}.TopicCommand", "--describe", "--topic", _TOPIC),
    "acls": (f"{TOOLS}.AclCommand", "--list"),
    "quota-set": (CONFIGS, "--alter", "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048", *_NOBODY),
    "quota-shown": (CONFIGS, "--describe", *_NOBODY),
    "quota-removed": (CONFIGS, "--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate", *_NOBODY),
    "quota-after": (CONFIGS, "--describe", *_NOBODY),
    "quota-wrong": (CONFIGS, "--alter", "--add-config", "producer_byte_rate=-5", *_NOBODY),
    "quota-ip": (CONFIGS, "--alter", "--add-config", "connection_creation_rate=1000", *_NOWHERE),
    "quota-ip-shown": (CONFIGS, "--describe", *_NOWHERE),
}
_SETTLED: dict[str, Callable[[str], bool]] = {"quota-shown": bool, "quota-after": not_, "quota-ip-shown": bool}
"""These run again until their output is so: a broker of Kafka's may hear late of the change before."""
_METADATA_VERSION = (33, "4.4-IV2")
_printed: dict[str, dict[str, Printed]] = {}


@pytest.fixture
def printed(kafka: Peer, java: Remote) -> dict[str, Printed]:
    """Each tool's output on a group, and on a topic whose first partition has an idempotent producer's records."""
    servers = kafka.bootstrap_servers
    if servers not in _printed:
        Confluent().create_topic(servers, _TOPIC, 2)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        for n in range(RECORDS):
            producer.produce(_TOPIC, b"%d" % n, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        _commit(servers)
        level, _ = _METADATA_VERSION
        named = _COMMANDS | {"same": (FEATURES, "upgrade", "--feature", f"metadata.version={level}")}
        _printed[servers] = {
            name: _run(java, name, tool, "--bootstrap-server", servers, *rest) for name, (tool, *rest) in named.items()
        }
    return _printed[servers]


def _run(java: Remote, name: str, *command: str) -> Printed:
    settled = _SETTLED.get(name, lambda text: True)
    return wait_until(lambda: [each for each in run_tools(java, [command]) if settled(each.text)], what=name)[0]


def _commit(servers: str) -> None:
    """Make a group, by a commit of nobody's."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": _GROUP})
    place = confluent_kafka.TopicPartition(_TOPIC, 0, 1)

    def committed() -> bool:
        """Not while the group's coordinator is being made; negative codes are the client's own, such as a timeout."""
        try:
            consumer.commit(offsets=[place], asynchronous=False)
        except confluent_kafka.KafkaException as error:
            code = error.args[0].code()
            if code >= 0 and code not in RETRIABLE_JOIN:
                raise
            return False
        return True

    try:
        wait_until(committed, TIMEOUT_S, "a commit")
    finally:
        consumer.close()


def _rows(table: Printed) -> list[list[str]]:
    """The cells of a table, its header first."""
    assert table.status == 0, table.text
    return [[cell.strip() for cell in line.split("\t")] for line in table.text.splitlines()]


@brokers
def test_log_dirs_have_the_sizes_of_the_files(kafka: Peer, printed: dict[str, Printed]) -> None:
    assert kafka.data_dir is not None
    *_, line = printed["log-dirs"].text.splitlines()
    dirs = [each for broker in json.loads(line)["brokers"] for each in broker["logDirs"]]
    found = {p["partition"]: p for each in dirs for p in each["partitions"]}
    files = list(kafka.data_dir.glob(f"**/{_TOPIC}-0/*.log"))
    assert all(each["error"] is None and each["logDir"] for each in dirs)
    assert found.keys() == {f"{_TOPIC}-0", f"{_TOPIC}-1"}
    assert found[f"{_TOPIC}-0"]["size"] == sum(file.stat().st_size for file in files) > RECORDS
    assert found[f"{_TOPIC}-1"]["size"] == 0
    assert {(p["offsetLag"], p["isFuture"]) for p in found.values()} == {(0, False)}


def _status(printed: dict[str, Printed]) -> dict[str, str]:
    assert printed["status"].status == 0, printed["status"].text
    pairs = (line.split(":", 1) for line in printed["status"].text.splitlines())
    return {label: text.strip() for label, text in pairs}


@brokers
def test_the_quorum_is_the_controller_and_brokers_observe_it(kafka: Peer, printed: dict[str, Printed]) -> None:
    status = _status(printed)
    (voter,), observers = json.loads(status["CurrentVoters"]), json.loads(status["CurrentObservers"])
    known = {broker.id for broker in _cluster(kafka).nodes}
    assert status["ClusterId"] == _cluster(kafka).cluster_id
    assert status["LeaderId"] == str(voter["id"])
    assert re.fullmatch(r"CONTROLLER://127\.0\.0\.1:\d+", voter["endpoints"][0])
    assert (status["MaxFollowerLag"], status["MaxFollowerLagTimeMs"]) == ("0", "0")
    assert int(status["LeaderEpoch"]) > 0
    assert int(status["HighWatermark"]) > 0
    assert {observer["id"] for observer in observers} == known - {voter["id"]}


def _cluster(kafka: Peer) -> Any:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return admin.describe_cluster().result(TIMEOUT_S)


@brokers
def test_each_node_says_how_far_it_has_the_metadata(kafka: Peer, printed: dict[str, Printed]) -> None:
    head, leader, *others = _rows(printed["replication"])
    names = ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"]
    assert [name for name in head if name] == names
    assert (leader[0], leader[3], leader[6]) == (_status(printed)["LeaderId"], "0", "Leader")
    for row in (leader, *others):
        assert int(row[2]) + int(row[3]) == int(leader[2])
        assert int(row[4]) >= int(row[5]) > 0
    assert {row[6] for row in others} <= {"Observer"}


@brokers
def test_features_are_those_of_the_release(kafka: Peer, printed: dict[str, Printed]) -> None:
    found = {}
    assert printed["features"].status == 0
    for line in printed["features"].text.splitlines():
        name, *cells = re.findall(r": (\S+)", line)
        found[name] = cells
    if kafka.kind == "coterie":
        newest = str(METADATA_LEVELS[-1])
        assert found.pop("coterie.metadata.version")[:3] == ["1", newest, newest], "a new cluster has the newest"
    assert found.keys() - {"streams.version"} == {
        *("eligible.leader.replicas.version", "group.version", "kraft.version"),
        *("metadata.version", "share.version", "transaction.version"),
    }
    assert ("streams.version" in found) is (kafka.kind == "kafka")
    _, metadata_version = _METADATA_VERSION
    assert found["metadata.version"][1:3] == [metadata_version, metadata_version]
    assert found["eligible.leader.replicas.version"][1:3] == ["1", "1"]
    assert found["group.version"][:3] == ["0", "1", "1"]
    assert len({epoch for *_, epoch in found.values()}) == 1
    if kafka.kind == "coterie":
        assert {name for name, (*_, level, _) in found.items() if level == "0"} == {
            *("kraft.version", "share.version", "transaction.version")
        }


@brokers
def test_a_feature_may_stay_but_not_go_where_it_cannot(kafka: Peer, printed: dict[str, Printed]) -> None:
    level, _ = _METADATA_VERSION
    assert printed["same"] == (f"metadata.version was upgraded to {level}.\n", 0)
    for name, level in (("newer", "upgrade metadata.version to 99"), ("older", "downgrade metadata.version to 20")):
        refusal = printed[name]
        assert refusal.status == 1
        assert refusal.text.startswith(f"Could not {level}. ")
        assert refusal.text.endswith("1 out of 1 operation(s) failed.\n")


@brokers
@pytest.mark.parametrize("what", ["client-metrics", "clients"])
def test_what_has_no_settings_is_described_by_nothing(kafka: Peer, printed: dict[str, Printed], what: str) -> None:
    assert printed[what] == ("", 0)


@brokers
def test_groups_are_described_without_settings_of_their_own(kafka: Peer, printed: dict[str, Printed]) -> None:
    line = f"Dynamic configs for group {_GROUP} are:\n"
    assert printed["group"] == (line, 0)
    assert printed["groups"].status == 0
    assert line in printed["groups"].text


@brokers
def test_an_idempotent_producer_is_described_and_has_no_transaction(kafka: Peer, printed: dict[str, Printed]) -> None:
    assert [head for head, *_ in _rows(printed["transactions"])] == ["TransactionalId"]
    head, (producer_id, epoch, coordinator, sequence, timestamp, start, *_) = _rows(printed["producers"])
    assert head[:6] == [
        *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch"),
        *("LastSequence", "LastTimestamp", "CurrentTransactionStartOffset"),
    ]
    assert (epoch, coordinator, sequence, start) == ("0", "-1", str(RECORDS - 1), "None")
    assert int(producer_id) >= 0
    assert int(timestamp) > 0


@brokers
def test_a_topic_is_described_with_its_eligible_leaders(kafka: Peer, printed: dict[str, Printed]) -> None:
    (title, *partitions) = _rows(printed["topic"])
    assert title[0] == f"Topic: {_TOPIC}"
    assert title[2:4] == ["PartitionCount: 2", "ReplicationFactor: 1"]
    cells = [dict(cell.split(":", 1) for cell in row if cell) for row in partitions]
    assert [each["Partition"].strip() for each in cells] == ["0", "1"]
    assert all(each["Leader"] == each["Replicas"] == each["Isr"] for each in cells)
    assert {(each["Elr"].strip(), each["LastKnownElr"].strip()) for each in cells} == {("", "")}


@brokers
def test_acls_need_an_authorizer(kafka: Peer, printed: dict[str, Printed]) -> None:
    assert printed["acls"].status == 1
    assert "SecurityDisabledException" in printed["acls"].text


@brokers
def test_quotas_are_set_shown_and_removed(kafka: Peer, printed: dict[str, Printed]) -> None:
    assert printed["quota-set"] == ("Completed updating config for user nobody.\n", 0)
    head, _, rates = printed["quota-shown"].text.strip().partition(" are ")
    assert head == "Quota configs for user-principal 'nobody'"
    assert set(rates.split(", ")) == {"producer_byte_rate=1024.0", "consumer_byte_rate=2048.0"}
    assert printed["quota-removed"] == ("Completed updating config for user nobody.\n", 0)
    assert printed["quota-after"] == ("", 0)
    assert printed["quota-wrong"].status == 1
    assert "InvalidRequestException" in printed["quota-wrong"].text
    assert printed["quota-ip"] == ("Completed updating config for ip 192.0.2.1.\n", 0)
    assert printed["quota-ip-shown"] == ("Quota configs for ip '192.0.2.1' are connection_creation_rate=1000.0\n", 0)
