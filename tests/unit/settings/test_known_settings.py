"""Every key of Kafka 4.1 is known: with effect, or accepted without one; what Kafka does not know is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.broker.images import with_dynamic
from actors.preparation import effective_config
from actors.settings import (
    SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    SettingError,
    SettingType,
    Source,
    accepted_settings,
    accepted_topic_settings,
    broker_config_value,
    broker_setting,
    client_metrics_settings,
    group_settings,
    parse_topic_configs,
    topic_config_synonyms,
    topic_config_value,
    topic_configs,
)
from actors.settings.known import _kafka_keys
from actors.wire.messages import CreateTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tests.support.handler_helpers import Broker

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET = 0

# Some of each kind and type, with the defaults of Kafka 4.1's documentation.
KAFKAS = {
    "num.io.threads": ("INT", "8"),
    "num.network.threads": ("INT", "3"),
    "queued.max.requests": ("INT", "500"),
    "log.dir": ("STRING", "/tmp/kafka-logs"),
    "log.cleaner.dedupe.buffer.size": ("LONG", "134217728"),
    "log.cleaner.io.buffer.load.factor": ("DOUBLE", "0.9"),
    "log.preallocate": ("BOOLEAN", "false"),
    "controller.quorum.voters": ("LIST", ""),
    "ssl.enabled.protocols": ("LIST", "TLSv1.2,TLSv1.3"),
    "sasl.login.refresh.buffer.seconds": ("SHORT", "300"),
    "authorizer.class.name": ("STRING", ""),
    "create.topic.policy.class.name": ("CLASS", None),
    "replica.fetch.max.bytes": ("INT", "1048576"),
    "transaction.state.log.replication.factor": ("SHORT", "3"),
    "remote.log.storage.system.enable": ("BOOLEAN", "false"),
    "group.share.record.lock.duration.ms": ("INT", "30000"),
    "group.streams.num.standby.replicas": ("INT", "0"),
    "unstable.api.versions.enable": ("BOOLEAN", "false"),
    "leader.replication.throttled.rate": ("LONG", str(2**63 - 1)),
    "ssl.keystore.password": ("PASSWORD", None),
}
WRONG = [
    ("num.io.threads", "ten"),
    ("num.io.threads", "0"),
    ("num.io.threads", str(2**31)),
    ("sasl.login.refresh.buffer.seconds", "32768"),
    ("log.preallocate", "maybe"),
    ("log.cleaner.io.buffer.load.factor", "most"),
    ("remote.log.manager.task.retry.jitter", "0.6"),
    ("ssl.client.auth", "perhaps"),
    ("process.roles", "broker,observer"),
    ("listener.name.inner.num.io.threads", "ten"),
]
WRONG_OF_TOPICS = [
    ("preallocate", "maybe"),
    ("compression.zstd.level", "23"),
    ("local.retention.ms", "-3"),
    ("remote.storage.enable", "true"),
    ("leader.replication.throttled.replicas", "0:1,one"),
]


@pytest.mark.parametrize(("name", "expected"), KAFKAS.items())
def test_a_key_without_effect_has_kafkas_type_and_default(name: str, expected: tuple[str, str | None]) -> None:
    setting = broker_setting(name)
    assert (setting.type.name, setting.format(setting.default)) == expected
    value = broker_config_value(name, BrokerConfig.from_mapping({}))
    assert (value.value, value.type_code, value.source) == (expected[1], setting.type, Source.DEFAULT_CONFIG)


ANOTHER_TYPE = {
    "advertised.listeners": SettingType.LIST,  # Kafka splits them itself
    "listeners": SettingType.LIST,
    "leader.imbalance.check.interval.seconds": SettingType.INT,
    "offsets.topic.replication.factor": SettingType.INT,
}


def test_a_setting_with_effect_has_kafkas_type() -> None:
    theirs = {name: SettingType[key["type"]] for name, key in _kafka_keys()["broker"].items()} | ANOTHER_TYPE
    differing = {name for name, setting in SETTINGS.items() if setting.type is not theirs.get(name, setting.type)}
    assert not differing, "actors/settings/kafka_keys.json has the types of Kafka's keys"


def test_all_of_kafkas_keys_are_known() -> None:
    without_kafkas = {name for name in SETTINGS if name.startswith("coterie.")}
    without_kafkas.add("leader.imbalance.per.broker.percentage")  # Kafka had it until 4.0
    assert len(SETTINGS.keys() - without_kafkas) + len(accepted_settings()) == 336 + 3  # and the rates of throttling
    assert len(TOPIC_SETTINGS) + len(accepted_topic_settings()) == 34
    assert (len(group_settings()), len(client_metrics_settings())) == (10, 3)
    for setting in accepted_settings().values():
        assert setting.default == setting.parse(setting.format(setting.default) or ""), setting.name


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_a_wrong_value_of_a_key_without_effect_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingError) as caught:
        BrokerConfig.from_mapping({name: text})
    assert name in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(("name", "text"), WRONG_OF_TOPICS)
def test_a_wrong_value_of_a_topics_key_without_effect_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=name) as caught:
        parse_topic_configs({name: text})
    assert repr(text) in str(caught.value)


def test_values_of_keys_without_effect_are_taken() -> None:
    texts = {
        "num.io.threads": "16",
        "log.dirs": "/data",
        "listener.name.inner.ssl.client.auth": "required",
        "listener.name.inner.plain.sasl.jaas.config": "secret",
        "rsm.config.bucket": "b",
    }
    config = BrokerConfig.from_mapping(texts)
    assert config.explicit == texts.keys()
    assert (config["num.io.threads"], config["num.network.threads"]) == (16, 3)
    assert BrokerConfig.from_mapping(config.to_mapping()) == config
    assert config.with_dynamic({"num.io.threads": "32"})["num.io.threads"] == 32
    topic = {"preallocate": "true", "follower.replication.throttled.replicas": "*"}
    assert parse_topic_configs(topic) == {"preallocate": True, "follower.replication.throttled.replicas": ("*",)}


def test_a_file_for_kafka_is_taken_as_it_is() -> None:
    """What Kafka 4.1 comes with for a node that is broker and controller."""
    config = BrokerConfig.from_mapping(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400",
            "socket.request.max.bytes": "104857600",
            "log.dirs": "/tmp/kraft-combined-logs",
            "num.partitions": "1",
            "num.recovery.threads.per.data.dir": "1",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.retention.hours": "168",
            "log.segment.bytes": "1073741824",
            "log.retention.check.interval.ms": "300000",
            "group.coordinator.rebalance.protocols": "classic,consumer,streams",
        }
    )
    assert config["process.roles"] == ("broker", "controller")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("num.io.thread", "did you mean num.io.threads"),
        ("zookeeper.connect", "unknown setting"),  # gone since Kafka 4.0
        ("listener.name.inner.no.such", "unknown setting"),
        ("listener.name.inner", "unknown setting"),
    ],
)
def test_a_key_that_kafka_does_not_know_is_refused(name: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        BrokerConfig.from_mapping({name: "1"})
    with pytest.raises(KeyError):
        BrokerConfig.from_mapping({})[name]


def test_starting_a_cluster_says_which_settings_have_no_effect() -> None:
    settings, notes = effective_config({"ssl.key.password": "secret", "num.io.threads": "2", "group.max.size": "9"}, 3)
    assert settings == {"ssl.key.password": "", "num.io.threads": "2", "group.max.size": "9"}
    assert notes == ["accepted, but without effect here: num.io.threads, ssl.key.password"]


def test_nobody_reads_the_long_table_who_needs_no_key_of_it() -> None:
    probe = (
        "import sys; import actors.offsets_partition.process; assert 'actors.settings' not in sys.modules\n"
        "from actors.settings import BrokerConfig, known, topic_configs\n"
        "topic_configs({'retention.ms': '5'}, BrokerConfig.from_mapping({'num.partitions': '3'}))\n"
        "assert known._kafka_keys.cache_info().currsize == 0"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- where topics have their values from ---


@pytest.mark.parametrize(
    ("name", "inherited", "hours"),
    [("retention.ms", "log.retention.hours", 168), ("segment.ms", "log.roll.hours", 168)],
)
def test_no_milliseconds_stand_under_the_name_for_hours(name: str, inherited: str, hours: int) -> None:
    value = topic_config_value(name, {}, BrokerConfig.from_mapping({}))
    assert (value.value, value.source) == (str(hours * 3_600_000), Source.DEFAULT_CONFIG)
    assert [(s.name, s.value) for s in value.synonyms] == [(inherited, str(hours))]


@pytest.mark.parametrize(
    ("texts", "jitter_ms"), [({}, "0"), ({"log.roll.jitter.hours": "2"}, "7200000"), ({"log.roll.jitter.ms": "5"}, "5")]
)
def test_a_topics_jitter_is_the_brokers(texts: dict[str, str], jitter_ms: str) -> None:
    assert topic_configs({}, BrokerConfig.from_mapping(texts))["segment.jitter.ms"] == jitter_ms


def test_a_topics_key_without_effect_says_where_it_comes_from() -> None:
    broker = BrokerConfig.from_mapping({"log.preallocate": "true"})
    value = topic_config_value("preallocate", {}, broker)
    assert (value.value, value.source, value.type_code) == ("true", 4, SettingType.BOOLEAN)
    own = topic_config_synonyms("preallocate", {"preallocate": "false"}, broker)
    assert [(s.name, s.value, s.source) for s in own] == [("preallocate", "false", 1), ("log.preallocate", "true", 4)]


@pytest.mark.parametrize(
    ("name", "inherited", "value"),
    [
        ("local.retention.ms", "log.local.retention.ms", "-2"),
        ("compression.zstd.level", "compression.zstd.level", "-7"),
        ("retention.bytes", "log.retention.bytes", "-1"),
    ],
)
def test_a_negative_number_stays_what_it_means(name: str, inherited: str, value: str) -> None:
    assert topic_config_value(name, {}, BrokerConfig.from_mapping({inherited: value})).value == value


# --- through the protocol ---


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
    broker.clients.listener = ("0.0.0.0", 19092)
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
    broker.clients.listener = ("::1", 9092)
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


@pytest.mark.parametrize("key", ["ssl.keystore.password", "sasl.jaas.config", "listener.name.in.ssl.key.password"])
def test_a_secret_is_never_shown(tmp_path: Path, key: str) -> None:
    broker = Broker(tmp_path, **{key: "swordfish"})
    (told,) = [entry for entry in described(broker, BROKER, "0").configs if entry.name == key]
    assert (told.value, told.is_sensitive, told.config_type) == (None, True, SettingType.PASSWORD)
    assert [synonym.value for synonym in told.synonyms] == [None]
    assert not entries(broker, BROKER, "0")["num.io.threads"].is_sensitive


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    assert altered(broker, BROKER, "0", ssl_key_password="swordfish").error_code == 0
    assert broker.metadata.broker_configs["0"] == {"ssl.key.password": ""}
    broker.context.config = with_dynamic(broker.config, broker.metadata, 0)
    told = entries(broker, BROKER, "0")["ssl.key.password"]
    assert (told.value, told.config_source) == (None, Source.DYNAMIC_BROKER_CONFIG)


def test_settings_of_a_group_are_described(tmp_path: Path) -> None:
    broker = Broker(tmp_path, group_consumer_heartbeat_interval_ms="6000", group_share_session_timeout_ms="46000")
    found = entries(broker, GROUP, "any group")
    assert {name: entry.value for name, entry in found.items()} == {
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.session.timeout.ms": "45000",
        "share.auto.offset.reset": "latest",
        "share.heartbeat.interval.ms": "5000",
        "share.isolation.level": "read_uncommitted",
        "share.record.lock.duration.ms": "30000",
        "share.session.timeout.ms": "46000",
        "streams.heartbeat.interval.ms": "5000",
        "streams.num.standby.replicas": "0",
        "streams.session.timeout.ms": "45000",
    }
    assert {entry.config_source for entry in found.values()} == {Source.DEFAULT_CONFIG}


def test_settings_of_a_subscription_to_metrics_are_described(tmp_path: Path) -> None:
    found = entries(Broker(tmp_path), CLIENT_METRICS, "m")
    assert {name: entry.value for name, entry in found.items()} == {"interval.ms": "300000", "match": "", "metrics": ""}


@pytest.mark.parametrize(("kind", "name"), [(GROUP, ""), (CLIENT_METRICS, ""), (BROKER_LOGGER, "0")])
def test_what_has_no_settings_says_so(tmp_path: Path, kind: int, name: str) -> None:
    result = described(Broker(tmp_path), kind, name)
    assert (result.error_code, result.configs) == (42, [])
    assert result.error_message


@pytest.mark.parametrize(
    ("kind", "words"), [(GROUP, "cannot be changed"), (CLIENT_METRICS, "not collected"), (BROKER_LOGGER, "loggers")]
)
def test_only_settings_of_topics_and_brokers_can_be_changed(tmp_path: Path, kind: int, words: str) -> None:
    result = altered(Broker(tmp_path), kind, "0", interval_ms="1000")
    assert result.error_code == 42
    assert words in result.error_message


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
