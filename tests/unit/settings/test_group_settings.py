"""Settings of the consumer protocol: the brokers' and, within bounds, those of a group."""

from __future__ import annotations

import pytest

from actors.coordinator_kinds.groups.consumer_settings import consumer_settings
from actors.settings import (
    BrokerConfig,
    SettingError,
    broker_config_names,
    broker_setting,
    check_group_configs,
    group_setting,
    group_value,
)
from placement.metadata import ClusterMetadata

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
CLASSES = "org.apache.kafka.coordinator.group.assignor"
DEFAULTS = BrokerConfig.from_mapping({})


@pytest.mark.conformance("K-B-105", "K-B-106", "K-B-107", "K-B-108", "K-B-109", "K-B-110")
@pytest.mark.conformance("K-B-111", "K-B-112", "K-B-118", "K-B-119", "K-B-120")
def test_kafkas_defaults() -> None:
    expected = {
        "group.consumer.session.timeout.ms": "45000",
        "group.consumer.min.session.timeout.ms": "45000",
        "group.consumer.max.session.timeout.ms": "60000",
        "group.consumer.heartbeat.interval.ms": "5000",
        "group.consumer.min.heartbeat.interval.ms": "5000",
        "group.consumer.max.heartbeat.interval.ms": "15000",
        "group.consumer.max.size": "2147483647",
        "group.consumer.assignors": "uniform,range",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.regex.refresh.interval.ms": "600000",
        "group.consumer.assignment.interval.ms": "1000",
        "group.consumer.min.assignment.interval.ms": "0",
        "group.consumer.max.assignment.interval.ms": "15000",
        "group.consumer.assignor.offload.enable": "true",
    }
    assert {name: broker_setting(name).format(DEFAULTS[name]) for name in expected} == expected


@pytest.mark.conformance("K-B-104", "K-B-105", "K-B-106", "K-B-107", "K-B-108", "K-B-109")
@pytest.mark.conformance("K-B-110", "K-B-111", "K-B-112", "K-B-118", "K-B-119")
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("group.coordinator.rebalance.protocols", "consumer"),
        ("group.consumer.session.timeout.ms", "44999"),
        ("group.consumer.session.timeout.ms", "60001"),
        ("group.consumer.min.session.timeout.ms", "0"),
        ("group.consumer.min.session.timeout.ms", "45001"),
        ("group.consumer.max.session.timeout.ms", "44999"),
        ("group.consumer.heartbeat.interval.ms", "4999"),
        ("group.consumer.heartbeat.interval.ms", "15001"),
        ("group.consumer.min.heartbeat.interval.ms", "5001"),
        ("group.consumer.max.heartbeat.interval.ms", "4999"),
        ("group.consumer.max.size", "0"),
        ("group.consumer.assignors", ""),
        ("group.consumer.assignors", "sticky"),
        ("group.consumer.assignors", "Uniform"),
        ("group.consumer.assignors", f"uniform,{CLASSES}.UniformAssignor"),
        ("group.consumer.assignors", f"{CLASSES}.SimpleAssignor"),
        ("group.consumer.migration.policy", "sideways"),
        ("group.consumer.regex.refresh.interval.ms", "9999"),
        ("group.consumer.assignment.interval.ms", "-1"),
        ("group.consumer.assignment.interval.ms", "15001"),
        ("group.consumer.min.assignment.interval.ms", "1001"),
        ("group.consumer.max.assignment.interval.ms", "999"),
    ],
)
def test_a_value_outside_kafkas_bounds_is_refused_at_the_start(key: str, text: str) -> None:
    with pytest.raises(SettingError, match=key):
        BrokerConfig.from_mapping({key: text})


@pytest.mark.conformance("K-B-83", "K-B-110")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"{CLASSES}.UniformAssignor", ("uniform",)),
        (f"{CLASSES}.RangeAssignor,uniform", ("range", "uniform")),
        (f" {CLASSES}.UniformAssignor , {CLASSES}.RangeAssignor ", ("uniform", "range")),
    ],
)
def test_assignors_may_be_named_by_kafkas_classes(text: str, names: tuple[str, ...]) -> None:
    """A file of Kafka's that names them so did not start a broker."""
    config = BrokerConfig.from_mapping({"group.consumer.assignors": text})
    assert consumer_settings(config, ClusterMetadata()).assignors == names
    shown = broker_setting("group.consumer.assignors").format(config["group.consumer.assignors"])
    assert shown == text.replace(" ", "")


@pytest.mark.conformance("K-B-111")
@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
def test_the_case_of_the_migration_policy_does_not_matter(policy: str) -> None:
    """Kafka takes it in any, and shows it as it was given."""
    for text in (policy, policy.upper(), policy.title()):
        config = BrokerConfig.from_mapping({"group.consumer.migration.policy": text})
        assert config["group.consumer.migration.policy"] == text
        assert consumer_settings(config, ClusterMetadata()).migration_policy == policy


@pytest.mark.conformance("K-B-107")
def test_the_heartbeat_interval_is_below_the_session_timeout() -> None:
    wide = {"group.consumer.max.heartbeat.interval.ms": "50000"}
    with pytest.raises(SettingError, match="must be below"):
        BrokerConfig.from_mapping({**wide, "group.consumer.heartbeat.interval.ms": "45000"})


@pytest.mark.conformance("K-B-112")
def test_the_refresh_of_regular_expressions_is_shown_only_where_it_is_set() -> None:
    key = "group.consumer.regex.refresh.interval.ms"
    assert key not in broker_config_names(DEFAULTS)
    assert key in broker_config_names(BrokerConfig.from_mapping({key: "20000"}))


def test_a_broker_that_has_changed_its_interval_beyond_its_bounds_starts() -> None:
    """The bounds are read at the start, the interval may have been changed before."""
    changes = {"group.consumer.assignment.interval.ms": "15000"}
    config = BrokerConfig.from_mapping({"group.consumer.max.assignment.interval.ms": "2000"})
    assert config.with_dynamic(changes)["group.consumer.assignment.interval.ms"] == 15_000


@pytest.mark.conformance("K-B-114")
@pytest.mark.parametrize(
    ("stored", "used"), [("44999", 45_000), ("45000", 45_000), ("59000", 59_000), ("60001", 60_000)]
)
def test_a_stored_value_outside_the_bounds_counts_as_the_nearest_within(stored: str, used: int) -> None:
    assert group_value(SESSION, {SESSION: stored}, DEFAULTS) == used


@pytest.mark.conformance("K-B-116")
def test_what_a_group_has_not_set_is_the_brokers() -> None:
    config = BrokerConfig.from_mapping({f"group.{HEARTBEAT}": "6000"})
    own = {SESSION: "50000"}
    assert (group_value(SESSION, own, config), group_value(HEARTBEAT, own, config)) == (50_000, 6_000)
    changed = config.with_dynamic({f"group.{INTERVAL}": "3"})
    assert (group_value(INTERVAL, own, config), group_value(INTERVAL, own, changed)) == (1_000, 3)


@pytest.mark.conformance("K-B-114")
@pytest.mark.parametrize(
    ("key", "text", "bounds"),
    [
        ("streams.num.standby.replicas", "3", "at most 2,"),
        ("streams.task.offset.interval.ms", "1", "at least 15000,"),
        ("share.record.lock.duration.ms", "1000000000", "at least 15000 and at most 60000,"),
    ],
)
def test_other_protocols_keys_have_bounds_too(key: str, text: str, bounds: str) -> None:
    with pytest.raises(SettingError, match=f"must be {bounds}"):
        check_group_configs({key: text}, {}, DEFAULTS)


def test_an_unknown_group_setting_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(SettingError, match=r"did you mean consumer\.session\.timeout\.ms"):
        group_setting("consumer.session.timeout")
