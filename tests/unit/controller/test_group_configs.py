"""The controller's rules: settings that groups have for themselves."""

from __future__ import annotations

from typing import Any

import pytest

from placement.metadata import ClusterMetadata
from placement.records import METADATA_VERSION, FeatureLevelRecord
from tests.support.decisions import Cluster

GROUP, BROKER = 32, 4
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"


@pytest.mark.conformance("K-B-113")
def test_a_group_that_need_not_exist_has_its_settings_set_and_taken_back() -> None:
    cluster = Cluster()
    assert cluster.alter("g", [SESSION, 0, "50000"], [HEARTBEAT, 0, "6000"], [INTERVAL, 0, "0"], kind=GROUP) == 0
    assert cluster.metadata.group_configs == {"g": {SESSION: "50000", HEARTBEAT: "6000", INTERVAL: "0"}}
    assert cluster.alter("g", [SESSION, 1, None], [HEARTBEAT, 1, None], kind=GROUP) == 0
    assert cluster.metadata.group_configs == {"g": {INTERVAL: "0"}}
    assert cluster.alter("g", [INTERVAL, 1, None], kind=GROUP) == 0
    assert cluster.metadata.group_configs == {}


@pytest.mark.conformance("K-B-113")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer.assignor.offload.enable", "false"),
        ("share.auto.offset.reset", "earliest"),
        ("streams.num.standby.replicas", "1"),
        ("errors.deadletterqueue.topic.name", "dead"),
    ],
)
def test_kafkas_other_keys_are_taken(key: str, value: str) -> None:
    cluster = Cluster()
    assert cluster.alter("g", [key, 0, value], kind=GROUP) == 0
    assert cluster.metadata.group_configs == {"g": {key: value}}


@pytest.mark.conformance("K-B-113", "K-B-114", "K-B-115")
@pytest.mark.parametrize(
    ("name", "operations", "code", "text"),
    [
        ("g", [["consumer.wings", 0, "1"]], 40, "unknown group setting 'consumer.wings'"),
        ("g", [["group.consumer.session.timeout.ms", 0, "50000"]], 40, "unknown group setting"),
        ("g", [[SESSION, 0, "soon"]], 40, "'soon'"),
        ("g", [[SESSION, 0, "0"]], 40, "from 1"),
        ("g", [[HEARTBEAT, 0, "0"]], 40, "from 1"),
        ("g", [[INTERVAL, 0, "-1"]], 40, "from 0"),
        ("g", [[SESSION, 0, "44999"]], 40, "at least 45000 and at most 60000"),
        ("g", [[SESSION, 0, "60001"]], 40, "at least 45000 and at most 60000"),
        ("g", [[HEARTBEAT, 0, "4999"]], 40, "at least 5000 and at most 15000"),
        ("g", [[INTERVAL, 0, "15001"]], 40, "at least 0 and at most 15000"),
        ("g", [["share.session.timeout.ms", 0, "1"]], 40, "at least 45000 and at most 60000"),
        ("g", [[SESSION, 0, None]], 42, "needs a value"),
        ("g", [[SESSION, 2, "50000"]], 40, "no list"),
        ("g", [[SESSION, 0, "50000"], [SESSION, 0, "50001"]], 42, "more than once"),
        ("", [[SESSION, 0, "50000"]], 42, "must not be empty"),
    ],
)
def test_a_refused_change_of_a_group_is_told_why_and_changes_nothing(
    name: str, operations: list[Any], code: int, text: str
) -> None:
    cluster = Cluster()
    cluster.alter("g", [INTERVAL, 0, "2000"], kind=GROUP)
    assert cluster.alter(name, *operations, kind=GROUP) == code
    assert text in cluster.result["error_message"]
    assert cluster.metadata.group_configs == {"g": {INTERVAL: "2000"}}


CLOSE = {
    "group_consumer_min_session_timeout_ms": "1",
    "group_consumer_session_timeout_ms": "10000",
    "group_consumer_min_heartbeat_interval_ms": "1",
}


@pytest.mark.conformance("K-B-114")
@pytest.mark.parametrize(
    "operations",
    [
        [[SESSION, 0, "5000"]],  # the brokers' heartbeats
        [[HEARTBEAT, 0, "10000"]],  # the brokers' session
        [[SESSION, 0, "7000"], [HEARTBEAT, 0, "7000"]],
    ],
)
def test_a_session_that_is_not_above_the_heartbeat_interval_is_refused(operations: list[Any]) -> None:
    cluster = Cluster(**CLOSE)
    assert cluster.alter("g", *operations, kind=GROUP) == 40
    assert "must be below" in cluster.result["error_message"]
    assert cluster.metadata.group_configs == {}


@pytest.mark.conformance("K-B-114")
def test_session_and_heartbeat_are_compared_as_they_are_after_the_change() -> None:
    cluster = Cluster(**CLOSE)
    assert cluster.alter("g", [SESSION, 0, "3000"], [HEARTBEAT, 0, "1000"], kind=GROUP) == 0
    assert cluster.alter("g", [HEARTBEAT, 1, None], kind=GROUP) == 40
    assert cluster.alter("g", [HEARTBEAT, 1, None], [SESSION, 0, "6000"], kind=GROUP) == 0
    assert cluster.metadata.group_configs == {"g": {SESSION: "6000"}}


@pytest.mark.conformance("K-B-114")
def test_a_stored_value_outside_bounds_that_changed_does_not_stand_in_the_way_of_others() -> None:
    cluster = Cluster()
    cluster.alter("g", [SESSION, 0, "60000"], kind=GROUP)
    narrower = Cluster(group_consumer_max_session_timeout_ms="50000")
    narrower.metadata = ClusterMetadata.from_wire(cluster.metadata.to_wire())
    assert narrower.alter("g", [INTERVAL, 0, "500"], kind=GROUP) == 0
    assert narrower.metadata.group_configs == {"g": {SESSION: "60000", INTERVAL: "500"}}
    assert narrower.alter("g", [SESSION, 0, "59000"], kind=GROUP) == 40


def test_the_brokers_own_bounds_count_as_they_were_changed_for_all() -> None:
    """The controller's copy of a setting that is dynamic."""
    cluster = Cluster()
    assert cluster.alter("", ["group.consumer.assignment.interval.ms", 0, "0"], kind=BROKER) == 0
    assert cluster.alter("g", [INTERVAL, 0, "15000"], kind=GROUP) == 0


def test_alterconfigs_replaces_all_settings_of_a_group() -> None:
    cluster = Cluster()
    cluster.alter("g", [SESSION, 0, "50000"], kind=GROUP)
    assert cluster.alter("g", [INTERVAL, 0, "5"], kind=GROUP, replace=True) == 0
    assert cluster.metadata.group_configs == {"g": {INTERVAL: "5"}}
    assert cluster.alter("g", kind=GROUP, replace=True, validate_only=True) == 0
    assert cluster.metadata.group_configs == {"g": {INTERVAL: "5"}}
    assert cluster.alter("g", kind=GROUP, replace=True) == 0
    assert cluster.metadata.group_configs == {}


def test_settings_of_groups_are_not_written_before_the_metadata_has_their_level() -> None:
    cluster = Cluster()
    cluster.metadata.apply(FeatureLevelRecord(METADATA_VERSION, 1))
    assert cluster.alter("g", [SESSION, 0, "50000"], kind=GROUP) == 35
    assert "come with level 2" in cluster.result["error_message"]
    assert cluster.metadata.group_configs == {}


@pytest.mark.conformance("K-B-118", "K-B-119")
@pytest.mark.parametrize("value", ["-1", "15001"])
def test_an_assignment_interval_outside_its_bounds_is_refused(value: str) -> None:
    cluster = Cluster()
    assert cluster.alter("", ["group.consumer.assignment.interval.ms", 0, value], kind=BROKER) == 40
    assert cluster.alter("1", ["group.consumer.assignment.interval.ms", 0, value], kind=BROKER) == 40
    assert cluster.metadata.broker_configs == {}


@pytest.mark.conformance("K-B-118")
@pytest.mark.parametrize(
    "key",
    [
        "group.coordinator.rebalance.protocols",
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.size",
        "group.consumer.assignors",
        "group.consumer.migration.policy",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.coordinator.threads",
    ],
)
def test_only_the_assignment_interval_changes_while_a_broker_runs(key: str) -> None:
    cluster = Cluster()
    assert cluster.alter("1", ["group.consumer.assignment.interval.ms", 0, "0"], kind=BROKER) == 0
    assert cluster.alter("1", ["group.consumer.assignor.offload.enable", 0, "false"], kind=BROKER) == 0
    assert cluster.alter("1", [key, 0, "45000"], kind=BROKER) == 42
    assert "read-only" in cluster.result["error_message"]
