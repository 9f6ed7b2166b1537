"""The settings table: Kafka's defaults and ranges, what errors say, and where a topic's values come from."""

from __future__ import annotations

import pickle

import pytest

from actors.settings import (
    SECTION_OF,
    SECTIONS,
    SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    SettingError,
    SettingType,
    Source,
    broker_config_names,
    broker_config_value,
    offsets_topic_configs,
    parse_topic_configs,
    topic_config_names,
    topic_config_synonyms,
    topic_config_value,
    topic_value,
    topic_values,
)

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

GROUP_DEFAULTS = {
    "group.initial.rebalance.delay.ms": 3000,
    "group.min.session.timeout.ms": 6000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.max.size": MAX_INT,
    "offsets.topic.num.partitions": 50,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.segment.bytes": 104_857_600,
    "offsets.topic.compression.codec": 0,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
    "offset.metadata.max.bytes": 4096,
    "offsets.commit.timeout.ms": 5000,
    "offsets.load.buffer.size": 5_242_880,
    "group.coordinator.threads": 1,
    "group.coordinator.append.linger.ms": -1,
    "group.coordinator.rebalance.protocols": ("classic", "consumer"),
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.min.session.timeout.ms": 45_000,
    "group.consumer.max.session.timeout.ms": 60_000,
    "group.consumer.heartbeat.interval.ms": 5000,
    "group.consumer.min.heartbeat.interval.ms": 5000,
    "group.consumer.max.heartbeat.interval.ms": 15_000,
    "group.consumer.max.size": MAX_INT,
    "group.consumer.assignors": ("uniform", "range"),
    "group.consumer.migration.policy": "bidirectional",
}
BROKER_DEFAULTS = {
    "socket.request.max.bytes": 104_857_600,
    "max.connections": MAX_INT,
    "connections.max.idle.ms": 600_000,
    "num.partitions": 1,
    "default.replication.factor": 1,
    "auto.create.topics.enable": True,
    "message.max.bytes": 1_048_588,
    "log.segment.bytes": 1_073_741_824,
    "log.roll.ms": None,
    "log.roll.hours": 168,
    "log.retention.ms": None,
    "log.retention.hours": 168,
    "log.retention.bytes": -1,
    "log.retention.check.interval.ms": 300_000,
    "log.index.interval.bytes": 4096,
    "log.cleanup.policy": ("delete",),
    "log.flush.interval.messages": MAX_LONG,
    "min.insync.replicas": 1,
    "compression.type": "producer",
    "unclean.leader.election.enable": False,
    "producer.id.expiration.ms": 86_400_000,
    "fetch.max.bytes": 57_671_680,
    "broker.rack": None,
    "broker.session.timeout.ms": 6000,
    "coterie.spare.shards": 2,
    "coterie.group.request.max.bytes": 8_388_608,
    "coterie.relay.queue.max.bytes": 8_388_608,
    "coterie.shard.idle.ms": 120_000,
    "coterie.shard.silence.ms": 1000,
}
OUT_OF_RANGE = [
    ("group.initial.rebalance.delay.ms", str(MAX_INT + 1)),
    ("group.min.session.timeout.ms", "six"),
    ("group.max.session.timeout.ms", str(MAX_INT + 1)),
    ("group.max.size", "0"),
    ("offsets.topic.num.partitions", "0"),
    ("offsets.topic.replication.factor", "0"),
    ("offsets.topic.segment.bytes", "0"),
    ("offsets.topic.compression.codec", "5"),
    ("offsets.retention.minutes", "0"),
    ("offsets.retention.check.interval.ms", "0"),
    ("offset.metadata.max.bytes", str(MAX_INT + 1)),
    ("offsets.commit.timeout.ms", "0"),
    ("offsets.load.buffer.size", "0"),
    ("group.coordinator.threads", "0"),
    ("group.coordinator.append.linger.ms", "-2"),
    ("group.coordinator.rebalance.protocols", "classic,raft"),
    ("group.coordinator.rebalance.protocols", "consumer"),
    ("group.consumer.session.timeout.ms", "60001"),
    ("group.consumer.session.timeout.ms", "44999"),
    ("group.consumer.heartbeat.interval.ms", "4999"),
    ("group.consumer.heartbeat.interval.ms", "15001"),
    ("group.consumer.max.size", "0"),
    ("group.consumer.assignors", ""),
    ("group.consumer.assignors", "sticky"),
    ("group.consumer.migration.policy", "sideways"),
    ("num.partitions", "0"),
    ("min.insync.replicas", "0"),
    ("message.max.bytes", "-1"),
    ("message.max.bytes", "2147483648"),
    ("log.segment.bytes", "1048575"),
    ("log.cleanup.policy", "delete,"),
    ("log.cleanup.policy", ","),
    ("log.cleanup.policy", "delete,delete"),
    ("group.coordinator.rebalance.protocols", "classic,,consumer"),
    ("log.cleaner.max.compaction.lag.ms", "0"),
    ("log.retention.ms", "-2"),
    ("log.cleaner.min.cleanable.ratio", "1.01"),
    ("log.cleaner.min.cleanable.ratio", "nan"),
    ("log.cleanup.policy", "shred"),
    ("compression.type", "brotli"),
    ("auto.create.topics.enable", "yes"),
    ("max.connections", "1_000"),
    ("listeners", "SSL://host"),
    ("listeners", "CONTROLLER://:9093"),
    ("coterie.spare.shards", "65"),
]


@pytest.mark.conformance("G-01")
@pytest.mark.parametrize(("name", "value"), (GROUP_DEFAULTS | BROKER_DEFAULTS).items())
def test_default_is_kafkas(name: str, value: object) -> None:
    read = BrokerConfig.from_mapping({})[name]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.conformance("G-01")
@pytest.mark.parametrize(("name", "text"), OUT_OF_RANGE)
def test_value_out_of_range_is_rejected(name: str, text: str) -> None:
    with pytest.raises(SettingError) as caught:
        BrokerConfig.from_mapping({name: text})
    message = str(caught.value)
    assert name in message
    assert text in message
    assert "\n" not in message


@pytest.mark.conformance("G-01")
@pytest.mark.parametrize("name", [n for n, s in SETTINGS.items() if s.low is not None])
def test_lowest_value_is_taken_and_the_next_below_is_not(name: str) -> None:
    setting = SETTINGS[name]
    assert setting.low is not None
    assert setting.parse(str(setting.low)) == setting.low
    with pytest.raises(SettingError, match="must be"):
        setting.parse(str(setting.low - 1))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"group.min.session.timeout.ms": "1800001"}, "must not exceed group.max.session.timeout.ms=1800000"),
        ({"broker.heartbeat.interval.ms": "6000"}, "must be below broker.session.timeout.ms=6000"),
        (
            {"group.consumer.min.session.timeout.ms": "5000", "group.consumer.session.timeout.ms": "5000"},
            "must be below group.consumer.session.timeout.ms=5000",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_rejected(texts: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        BrokerConfig.from_mapping(texts)


def test_unknown_setting_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(SettingError, match=r"unknown setting 'group.max.sise'; did you mean group.max.size\?"):
        BrokerConfig.from_mapping({"group.max.sise": "3"})


def test_setting_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(SettingError) as caught:
        BrokerConfig.from_mapping({"zzz": "3"})
    assert str(caught.value) == "unknown setting 'zzz'"
    assert caught.value.key == "zzz"


def test_values_are_typed_and_what_was_set_is_known() -> None:
    config = BrokerConfig.from_mapping(
        {"num.partitions": " 12 ", "auto.create.topics.enable": "FALSE", "log.cleanup.policy": "compact, delete"}
    )
    assert config.integer("num.partitions") == 12
    assert config.boolean("auto.create.topics.enable") is False
    assert config.items_of("log.cleanup.policy") == ("compact", "delete")
    assert config.number("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.text("broker.rack") is None
    assert config.explicit == {"num.partitions", "auto.create.topics.enable", "log.cleanup.policy"}


def test_config_survives_a_pickle() -> None:
    config = BrokerConfig.from_mapping({"num.partitions": "3", "log.cleanup.policy": "compact,delete"})
    assert pickle.loads(pickle.dumps(config)) == config


def test_dynamic_change_holds_and_taking_it_back_restores_the_start() -> None:
    started = BrokerConfig.from_mapping({"message.max.bytes": "2000"})
    changed = started.with_dynamic({"message.max.bytes": "3000"})
    assert (changed["message.max.bytes"], changed.dynamic) == (3000, {"message.max.bytes"})
    assert started["message.max.bytes"] == 2000
    back = changed.with_dynamic({"message.max.bytes": None})
    assert (back["message.max.bytes"], back.dynamic) == (2000, frozenset())


@pytest.mark.parametrize(("name", "words"), [("num.partitions", "read-only"), ("num.partition", "did you mean")])
def test_dynamic_change_of_what_cannot_change_is_rejected(name: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        BrokerConfig.from_mapping({}).with_dynamic({name: "3"})


def test_every_default_is_within_its_own_range() -> None:
    for setting in [*SETTINGS.values(), *TOPIC_SETTINGS.values()]:
        text = setting.format(setting.default)
        assert setting.parse(text or "") == setting.default, setting.name


def test_every_setting_says_what_it_does_in_a_known_section() -> None:
    for name, setting in SETTINGS.items():
        assert setting.doc.endswith("."), name
        assert SECTION_OF[name] in SECTIONS


# --- topics ---


def test_topic_defaults_follow_the_brokers_settings() -> None:
    for name, entry in TOPIC_SETTINGS.items():
        assert topic_value(name, {}, BrokerConfig.from_mapping({})) == entry.default, name


@pytest.mark.parametrize(
    ("texts", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_takes_the_finest_unit_that_is_set(texts: dict[str, str], retention_ms: int) -> None:
    assert topic_value("retention.ms", {}, BrokerConfig.from_mapping(texts)) == retention_ms


def test_topic_value_names_its_source_and_synonyms() -> None:
    broker = BrokerConfig.from_mapping({"log.segment.bytes": "1100000"})
    own = topic_config_value("segment.bytes", {"segment.bytes": "1200000"}, broker)
    assert (own.value, own.source, own.type_code) == ("1200000", 1, SettingType.INT)
    assert [(s.name, s.value, s.source) for s in own.synonyms] == [
        ("segment.bytes", "1200000", Source.DYNAMIC_TOPIC_CONFIG),
        ("log.segment.bytes", "1100000", Source.STATIC_BROKER_CONFIG),
    ]
    inherited = topic_config_value("segment.bytes", {}, broker)
    assert (inherited.value, inherited.source, inherited.is_default) == ("1100000", 4, False)
    default = topic_config_value("segment.bytes", {}, BrokerConfig.from_mapping({}))
    assert (default.value, default.source, default.is_default) == ("1073741824", 5, True)


def test_setting_that_inherits_from_none_has_its_own_default_as_source() -> None:
    synonyms = topic_config_synonyms("remote.log.copy.disable", {}, BrokerConfig.from_mapping({}))
    assert [(s.name, s.value, s.source) for s in synonyms] == [
        ("remote.log.copy.disable", "false", Source.DEFAULT_CONFIG)
    ]


def test_dynamic_broker_change_is_a_topics_source() -> None:
    broker = BrokerConfig.from_mapping({}).with_dynamic({"compression.type": "zstd"})
    value = topic_config_value("compression.type", {}, broker)
    assert (value.value, value.source) == ("zstd", Source.DYNAMIC_BROKER_CONFIG)


def test_a_log_without_a_size_limit_has_one_name_for_it() -> None:
    broker = BrokerConfig.from_mapping({"log.retention.bytes": "-5"})
    assert topic_values({}, broker)["retention.bytes"] == -1


def test_broker_value_is_described_with_its_default() -> None:
    broker = BrokerConfig.from_mapping({"num.partitions": "4"})
    value = broker_config_value("num.partitions", broker)
    assert (value.value, value.source, value.read_only) == ("4", Source.STATIC_BROKER_CONFIG, True)
    assert [s.value for s in value.synonyms] == ["4", "1"]


def test_topic_configs_are_parsed_and_unknown_ones_named() -> None:
    assert parse_topic_configs({"retention.ms": "5"}) == {"retention.ms": 5}
    with pytest.raises(SettingError, match=r"unknown topic setting 'retention\.m'; did you mean retention\.ms"):
        parse_topic_configs({"retention.m": "5"})
    with pytest.raises(SettingError, match=r"invalid value '0' for segment\.ms"):
        parse_topic_configs({"segment.ms": "0"})
    with pytest.raises(SettingError, match=r"for max\.message\.bytes: must be an integer from 0 to 2147483647"):
        parse_topic_configs({"max.message.bytes": "2147483648"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("segment.bytes", "many"),
        ("segment.bytes", "-2147483649"),
        ("segment.bytes", "2147483648"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", "delete;compact"),
        ("compression.type", "none"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("message.timestamp.type", "createtime"),
        ("unclean.leader.election.enable", "yes"),
    ],
)
def test_errors_name_key_and_value(key: str, value: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_topic_configs({"retention.bytes": "5", key: value})
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("size", [0, 104857600, 104857601, 2**31 - 1])
def test_a_batch_may_be_as_large_as_an_int_says_whatever_a_request_may_be(size: int) -> None:
    assert BrokerConfig.from_mapping({"message.max.bytes": str(size)}).integer("message.max.bytes") == size
    assert parse_topic_configs({"max.message.bytes": str(size)}) == {"max.message.bytes": size}


def test_every_topic_setting_has_a_value_of_its_type() -> None:
    values = topic_values({"cleanup.policy": "compact"}, BrokerConfig.from_mapping({}))
    assert set(values) == set(TOPIC_SETTINGS) - {"internal.segment.bytes"}
    assert values["cleanup.policy"] == ("compact",)
    assert values["unclean.leader.election.enable"] is False


@pytest.mark.parametrize(
    ("policy", "items"),
    [("", ()), (" ", ()), ("delete,delete", ("delete",)), (" delete , compact ", ("delete", "compact"))],
)
def test_a_topics_cleanup_policy_may_be_empty_and_name_one_twice(policy: str, items: tuple[str, ...]) -> None:
    assert parse_topic_configs({"cleanup.policy": policy}) == {"cleanup.policy": items}
    described = topic_config_value("cleanup.policy", {"cleanup.policy": policy}, BrokerConfig.from_mapping({}))
    assert described.value == ",".join(items)


@pytest.mark.parametrize("policy", ["compact,", ",", "delete,,compact", "shred"])
def test_an_empty_item_is_no_cleanup_policy(policy: str) -> None:
    with pytest.raises(SettingError, match=r"cleanup\.policy: must be a comma-separated list of delete, compact"):
        parse_topic_configs({"cleanup.policy": policy})


def test_brokers_may_have_no_cleanup_policy() -> None:
    assert topic_values({}, BrokerConfig.from_mapping({"log.cleanup.policy": ""}))["cleanup.policy"] == ()


@pytest.mark.parametrize("size_bytes", ["1048576", "2147483647"])
def test_segments_have_a_mebibyte_or_more(size_bytes: str) -> None:
    assert parse_topic_configs({"segment.bytes": size_bytes}) == {"segment.bytes": int(size_bytes)}
    assert BrokerConfig.from_mapping({"log.segment.bytes": size_bytes})["log.segment.bytes"] == int(size_bytes)


def test_a_smaller_segment_size_is_refused() -> None:
    with pytest.raises(SettingError, match=r"segment\.bytes: must be an integer from 1048576 to 2147483647"):
        parse_topic_configs({"segment.bytes": "1048575"})


@pytest.mark.parametrize(
    ("name", "stored", "text", "value"),
    [
        ("segment.bytes", "14", "14", 14),
        ("segment.bytes", "1000", "1000", 1000),
        ("cleanup.policy", "compact,", "compact", ("compact",)),
        ("cleanup.policy", "delete,,delete", "delete", ("delete",)),
    ],
)
def test_values_that_an_older_release_stored_hold_on(name: str, stored: str, text: str, value: object) -> None:
    own, broker = {name: stored}, BrokerConfig.from_mapping({})
    assert topic_values(own, broker)[name] == value
    assert topic_config_value(name, own, broker).value == text
    changed = broker.with_dynamic({f"log.{name}": stored})
    assert topic_values({}, changed)[name] == value
    assert broker_config_value(f"log.{name}", changed).value == text


def test_lags_that_an_older_release_stored_hold_on() -> None:
    lags = {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"}
    config = BrokerConfig.from_mapping({}).with_dynamic(lags)
    assert topic_values({}, config)["min.compaction.lag.ms"] == 10
    with pytest.raises(SettingError, match=r"min\.compaction\.lag\.ms=10 .* log\.cleaner\.max\.compaction\.lag\.ms=5"):
        BrokerConfig.from_mapping(lags)


def test_a_segment_size_for_tests_is_described_where_it_is_set_alone() -> None:
    assert "internal.segment.bytes" not in topic_config_names({})
    own, broker = {"internal.segment.bytes": "2000"}, BrokerConfig.from_mapping({})
    assert "internal.segment.bytes" in topic_config_names(own)
    described = topic_config_value("internal.segment.bytes", own, broker)
    assert (described.value, described.source) == ("2000", Source.DYNAMIC_TOPIC_CONFIG)
    assert topic_config_value("segment.bytes", own, broker).value == "1073741824"
    assert topic_values(own, broker)["internal.segment.bytes"] == 2000


def test_brokers_may_set_it_for_the_topics_of_a_test() -> None:
    small, usual = BrokerConfig.from_mapping({"internal.segment.bytes": "2000"}), BrokerConfig.from_mapping({})
    assert topic_values({}, small)["internal.segment.bytes"] == 2000
    assert topic_values({"internal.segment.bytes": "300"}, small)["internal.segment.bytes"] == 300
    assert "internal.segment.bytes" not in topic_values({"segment.bytes": "2000000"}, small)
    assert "internal.segment.bytes" not in topic_config_names({})
    assert "internal.segment.bytes" in broker_config_names(small)
    assert "internal.segment.bytes" not in broker_config_names(usual)


def test_offsets_topic_is_compacted_with_its_own_segment_size() -> None:
    assert offsets_topic_configs(BrokerConfig.from_mapping({"offsets.topic.segment.bytes": "7"})) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "7",
        "min.insync.replicas": "2",
    }
