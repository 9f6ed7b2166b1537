"""Settings through the protocol: how a broker describes what it knows, and what of it may be changed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from actors.broker.images import with_dynamic
from actors.settings import TOPIC_SETTINGS, Setting, SettingType, Source, describe, known
from actors.settings.secret import Secret
from actors.wire.messages import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from placement.metadata import Endpoint
from tests.support.handler_helpers import Broker

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET = 0


def described(broker: Broker, kind: int, name: str, version: int = 4) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return broker.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), version).results[0]


def entries(broker: Broker, kind: int, name: str, version: int = 4) -> dict[str, Any]:
    result = described(broker, kind, name, version)
    assert (result.error_code, result.error_message) == (0, None)
    return {entry.name: entry for entry in result.configs}


def altered(broker: Broker, kind: int, name: str, **values: str) -> Any:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), config_operation=SET, value=text)
            for key, text in values.items()
        ],
    )
    return broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]


@pytest.mark.parametrize("version", range(1, 5))
def test_a_broker_is_described_as_it_is(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, log_dirs="/elsewhere", broker_id="7", advertised_listeners="PLAINTEXT://public:9092")
    broker.clients.listening = (Endpoint("PLAINTEXT", "0.0.0.0", 19092),)
    found = entries(broker, BROKER, "0", version)
    expected = {
        "advertised.listeners": "PLAINTEXT://host0:9092",
        "broker.id": "0",
        "listeners": "PLAINTEXT://0.0.0.0:19092",
        "log.dirs": str(tmp_path / "data"),
        "node.id": "0",
        "process.roles": "broker",
    }
    assert {name: found[name].value for name in expected} == expected
    assert {found[name].config_source for name in expected} == {Source.STATIC_BROKER_CONFIG}


def test_a_change_for_all_brokers_is_told_from_one_for_this_broker(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    assert altered(broker, BROKER, "", min_insync_replicas="2", message_max_bytes="2000").error_code == 0
    assert altered(broker, BROKER, "0", message_max_bytes="3000").error_code == 0
    broker.context.config = with_dynamic(broker.config, broker.metadata, 0)
    found = entries(broker, BROKER, "0")
    told = {name: (entry.value, entry.config_source) for name, entry in found.items()}
    assert told["min.insync.replicas"] == ("2", Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert told["message.max.bytes"] == ("3000", Source.DYNAMIC_BROKER_CONFIG)
    assert entries(broker, TOPIC, "t")["min.insync.replicas"].config_source == Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert {name: (entry.value, entry.config_source) for name, entry in entries(broker, BROKER, "").items()} == {
        "min.insync.replicas": ("2", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        "message.max.bytes": ("2000", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
    }
    survived = pickle.loads(pickle.dumps(broker.context.config))
    assert survived.cluster_wide == {"min.insync.replicas"}


def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.clients.listening = (Endpoint("PLAINTEXT", "::1", 9092),)
    assert entries(broker, BROKER, "0")["listeners"].value == "PLAINTEXT://[::1]:9092"


def test_a_broker_describes_what_has_no_effect_as_kafka_does(tmp_path: Path) -> None:
    found = entries(Broker(tmp_path, num_io_threads="16", internal_metadata_delete_delay_millis="5"), BROKER, "0")
    threads = found["num.io.threads"]
    assert (threads.value, threads.config_source, threads.read_only) == ("16", Source.STATIC_BROKER_CONFIG, False)
    assert [(s.value, s.source) for s in threads.synonyms] == [("16", 4), ("8", 5)]
    assert found["num.network.threads"].value == "3"
    assert found["controller.quorum.voters"].read_only
    # Kafka's internal keys are shown where they are set, as Kafka shows them.
    assert found["internal.metadata.delete.delay.millis"].value == "5"
    assert "unstable.api.versions.enable" not in found


@pytest.mark.conformance("XE-31")
@pytest.mark.parametrize("key", ["ssl.keystore.password", "sasl.jaas.config", "listener.name.in.ssl.key.password"])
def test_a_secret_is_never_shown(tmp_path: Path, key: str) -> None:
    broker = Broker(tmp_path, **{key: "swordfish"})
    (told,) = [entry for entry in described(broker, BROKER, "0").configs if entry.name == key]
    assert (told.value, told.is_sensitive, told.config_type) == (None, True, SettingType.PASSWORD)
    assert [synonym.value for synonym in told.synonyms] == [None]
    assert not entries(broker, BROKER, "0")["num.io.threads"].is_sensitive


@pytest.mark.conformance("XE-31")
def test_a_setting_of_a_topic_that_is_not_known_here_counts_as_a_secret(tmp_path: Path) -> None:
    """A newer version may have set it."""
    broker = Broker(tmp_path)
    broker.topic("t")
    broker.metadata.topics["t"].configs["wings.key"] = "swordfish"
    result = described(broker, TOPIC, "t")
    (told,) = [entry for entry in result.configs if entry.name == "wings.key"]
    assert (told.value, told.is_sensitive, told.config_type) == (None, True, 0)
    assert [(synonym.name, synonym.value) for synonym in told.synonyms] == [("wings.key", None)]
    assert "swordfish" not in repr(result)


@pytest.mark.conformance("XE-31")
def test_a_secret_is_not_in_the_answer_to_its_topics_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No topic setting of Kafka's is a secret, so that this one is made up."""
    made_up = Setting(name="wings.key", type=SettingType.PASSWORD, default=Secret("default"), doc="", dynamic=True)
    for module in (known, describe):
        monkeypatch.setattr(module, "TOPIC_SETTINGS", {**TOPIC_SETTINGS, "wings.key": made_up})
    own = [CreateTopicsRequest.CreatableTopicConfig(name="wings.key", value="swordfish")]
    for configs in ([], own):
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"t{len(configs)}", num_partitions=1, replication_factor=1, configs=configs
        )
        created = Broker(tmp_path / topic.name).ask(CreateTopicsRequest(topics=[topic]), 7).topics[0]
        (told,) = [entry for entry in created.configs if entry.name == "wings.key"]
        assert (created.error_code, told.value, told.is_sensitive) == (0, None, True)
        assert [entry.name for entry in created.configs if entry.is_sensitive] == ["wings.key"]


@pytest.mark.conformance("XE-32")
def test_a_secret_cannot_be_set_while_brokers_run(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    incremental = altered(broker, BROKER, "0", ssl_key_password="swordfish", num_io_threads="16")
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="0",
        configs=[AlterConfigsRequest.AlterableConfig(name="ssl.key.password", value="swordfish")],
    )
    whole = broker.ask(AlterConfigsRequest(resources=[resource]), 2).responses[0]
    for refused in (incremental, whole):
        assert refused.error_code == 40
        assert "name a file" in refused.error_message
        assert "swordfish" not in refused.error_message
    assert altered(broker, BROKER, "0", ssl_keystore_location="/etc/k.pem").error_code == 0
    assert broker.metadata.broker_configs["0"] == {"ssl.keystore.location": "/etc/k.pem"}


def test_settings_of_a_group_are_described(tmp_path: Path) -> None:
    broker = Broker(tmp_path, group_consumer_heartbeat_interval_ms="6000", group_share_session_timeout_ms="46000")
    found = entries(broker, GROUP, "any group")
    values = {name: entry.value for name, entry in found.items()}
    assert (
        values.items()
        >= {
            "consumer.heartbeat.interval.ms": "6000",
            "consumer.session.timeout.ms": "45000",
            "share.auto.offset.reset": "latest",
            "share.session.timeout.ms": "46000",
            "streams.assignor.name": "sticky",
            "streams.num.standby.replicas": "0",
        }.items()
    )
    assert not any(setting.internal for name, setting in known.group_settings().items() if name in found)
    assert len(found) == len(values) == 21


def test_a_groups_setting_hid_the_brokers_that_it_comes_from(tmp_path: Path) -> None:
    broker = Broker(tmp_path, group_consumer_heartbeat_interval_ms="6000")
    found = entries(broker, GROUP, "any group")
    asked = {
        "consumer.heartbeat.interval.ms": [
            ("group.consumer.heartbeat.interval.ms", "6000", Source.STATIC_BROKER_CONFIG),
            ("group.consumer.heartbeat.interval.ms", "5000", Source.DEFAULT_CONFIG),
        ],
        "streams.assignor.name": [("group.streams.assignors", "sticky", Source.DEFAULT_CONFIG)],
        "share.isolation.level": [("share.isolation.level", "read_uncommitted", Source.DEFAULT_CONFIG)],
    }
    for name, synonyms in asked.items():
        assert [(each.name, each.value, each.source) for each in found[name].synonyms] == synonyms
        assert found[name].config_source == synonyms[0][2]


def test_settings_of_a_subscription_to_metrics_are_described(tmp_path: Path) -> None:
    found = entries(Broker(tmp_path), CLIENT_METRICS, "m")
    assert {name: entry.value for name, entry in found.items()} == {"interval.ms": "300000", "match": "", "metrics": ""}


@pytest.mark.parametrize(("kind", "name"), [(GROUP, ""), (CLIENT_METRICS, "")])
def test_what_has_no_settings_says_so(tmp_path: Path, kind: int, name: str) -> None:
    result = described(Broker(tmp_path), kind, name)
    assert (result.error_code, result.configs) == (42, [])
    assert result.error_message


def test_settings_of_clients_metrics_cannot_be_changed(tmp_path: Path) -> None:
    result = altered(Broker(tmp_path), CLIENT_METRICS, "0", interval_ms="1000")
    assert result.error_code == 42
    assert "not collected" in result.error_message


def test_a_change_without_effect_is_kept_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    for value in ("true", "false"):
        assert altered(broker, TOPIC, "t", preallocate=value, retention_ms="5").error_code == 0
    assert altered(broker, BROKER, "", num_io_threads="16").error_code == 0
    created = CreateTopicsRequest.CreatableTopic(
        name="u",
        num_partitions=1,
        replication_factor=1,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name="local.retention.ms", value="7")],
    )
    assert broker.ask(CreateTopicsRequest(topics=[created]), 7).topics[0].error_code == 0
    found = entries(broker, TOPIC, "t")["preallocate"]
    assert (found.value, found.config_source) == ("false", Source.DYNAMIC_TOPIC_CONFIG)
    assert broker.metadata.broker_configs[""] == {"num.io.threads": "16"}
    told = [record.getMessage() for record in caplog.records if "without effect" in record.getMessage()]
    assert [line.rpartition(": ")[2] for line in told] == ["preallocate", "num.io.threads", "local.retention.ms"]


def test_a_change_that_is_refused_is_not_told_to_be_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(tmp_path)
    broker.topic("t")
    result = altered(broker, TOPIC, "t", preallocate="maybe")
    assert result.error_code == 40
    assert "'maybe' for preallocate" in result.error_message
    assert altered(broker, BROKER, "0", process_roles="broker").error_code == 42
    assert not [record for record in caplog.records if "without effect" in record.getMessage()]
