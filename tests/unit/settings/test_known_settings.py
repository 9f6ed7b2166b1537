"""Every key of Kafka 4.4 is known: with effect, or accepted without one; other keys are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.controller.preparation import effective_config
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
    topic_values,
)
from actors.settings.known import without_effect
from tools.generate_docs import settings_page

# Some of each kind and type, with the defaults of Kafka 4.4's documentation.
KAFKAS = {
    "num.io.threads": ("INT", "8"),
    "num.network.threads": ("INT", "3"),
    "queued.max.requests": ("INT", "500"),
    "log.dir": ("LIST", "/tmp/kafka-logs"),
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


KEYS = Path(__file__).parents[3] / "actors" / "settings" / "kafka_keys.json"
ANOTHER_TYPE = {
    "listener.security.protocol.map": SettingType.LIST,  # Kafka splits it itself
}


def test_a_setting_with_effect_has_kafkas_type() -> None:
    keys = json.loads(KEYS.read_text())["broker"]
    theirs = {name: SettingType[key["type"]] for name, key in keys.items()} | ANOTHER_TYPE
    differing = {name for name, setting in SETTINGS.items() if setting.type is not theirs.get(name, setting.type)}
    assert not differing, "actors/settings/kafka_keys.json has the types of Kafka's keys"


def test_all_of_kafkas_keys_are_known() -> None:
    without_kafkas = {name for name in SETTINGS if name.startswith("coterie.")}
    without_kafkas.add("leader.imbalance.per.broker.percentage")  # Kafka had it until 4.0
    without_kafkas.add("internal.segment.bytes")  # in Kafka a key of topics alone
    without_kafkas |= {"super.users", "allow.everyone.if.no.acl.found"}  # those of Kafka's authorizer
    assert len(SETTINGS.keys() - without_kafkas) + len(accepted_settings()) == 379 + 3  # and the rates of throttling
    assert len(TOPIC_SETTINGS) + len(accepted_topic_settings()) == 38
    assert (len(group_settings()), len(client_metrics_settings())) == (27, 3)
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
    secrets = {"listener.name.inner.plain.sasl.jaas.config": None, "rsm.config.bucket": None}
    assert {name: broker_config_value(name, config).value for name in texts} == {**texts, **secrets}
    assert config.with_dynamic({"num.io.threads": "32"})["num.io.threads"] == 32
    topic = {"preallocate": "true", "follower.replication.throttled.replicas": "*"}
    assert parse_topic_configs(topic) == {"preallocate": True, "follower.replication.throttled.replicas": ("*",)}


def test_a_file_for_kafka_is_taken_as_it_is() -> None:
    """The file that Kafka 4.4 comes with for a node that is broker and controller."""
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


@pytest.mark.conformance("XE-31")
def test_starting_a_cluster_says_which_settings_have_no_effect() -> None:
    """The processes get no secret."""
    secret = "delegation.token.secret.key"
    given = {secret: "x", "num.io.threads": "2", "group.max.size": "9", "listener.name.a.ssl.protocol": "TLSv1.2"}
    settings, notes = effective_config(given, 3)
    assert settings == given | {secret: ""}
    assert notes == ["accepted, but without effect here: delegation.token.secret.key, num.io.threads"]


@pytest.mark.conformance("XE-33")
@pytest.mark.parametrize("name", ["ssl.key.password", "listener.name.a.ssl.key.password"])
def test_a_secret_that_brokers_would_need_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(
        SettingError, match=f"{name} is a secret.* name a file .* coterie.ssl.key.password.file"
    ) as error:
        effective_config({name: "hidden"}, 3)
    assert "hidden" not in str(error.value)


@pytest.mark.parametrize("name", ["ssl.keystore.location", "listener.name.a.ssl.truststore.location"])
def test_stores_have_absolute_paths(name: str) -> None:
    """A broker's process has a working directory of its own."""
    assert BrokerConfig.from_mapping({name: "/k.pem"})[name] == "/k.pem"
    with pytest.raises(SettingError, match="must be an absolute path"):
        BrokerConfig.from_mapping({name: "k.pem"})


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
    ("texts", "jitter_ms"), [({}, 0), ({"log.roll.jitter.hours": "2"}, 7_200_000), ({"log.roll.jitter.ms": "5"}, 5)]
)
def test_a_topics_jitter_is_the_brokers(texts: dict[str, str], jitter_ms: int) -> None:
    assert topic_values({}, BrokerConfig.from_mapping(texts))["segment.jitter.ms"] == jitter_ms


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


@pytest.mark.conformance("XA-08")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inter.broker.listener.name", "INTERNAL"),
        ("security.inter.broker.protocol", "SASL_SSL"),
        ("sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-512"),
    ],
)
def test_what_kafkas_brokers_need_for_each_other_is_taken_and_has_no_effect(name: str, value: str) -> None:
    plain, with_it = BrokerConfig.from_mapping({}), BrokerConfig.from_mapping({name: value})
    assert without_effect(name)
    assert (with_it.listeners, with_it.link_security) == (plain.listeners, plain.link_security)
    _, _, said = settings_page().partition("by a listener, which ")
    assert f"`{name}`" in said.partition("links of their own")[0]
