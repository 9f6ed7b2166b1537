"""The controller's rules: settings of topics and brokers."""

from __future__ import annotations

from typing import Any

import pytest

from placement.records import BrokerConfigsRecord, TopicConfigsRecord
from tests.support.decisions import Cluster


def test_settings_are_set_unset_and_changed_item_by_item() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"retention.ms": "1"}})
    assert cluster.alter("t", ["segment.bytes", 0, "2000000"], ["retention.ms", 1, None]) == 0
    assert cluster.alter("t", ["cleanup.policy", 2, "compact"]) == 0
    assert cluster.metadata.topics["t"].configs == {"segment.bytes": "2000000", "cleanup.policy": "delete,compact"}
    assert cluster.alter("t", ["cleanup.policy", 3, "delete"]) == 0
    assert cluster.metadata.topics["t"].configs["cleanup.policy"] == "compact"


def test_replacing_forgets_what_is_not_named() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"retention.ms": "1", "segment.bytes": "2000000"}})
    assert cluster.alter("t", ["retention.ms", 0, "5"], replace=True) == 0
    assert cluster.metadata.topics["t"].configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("operations", "code", "text"),
    [
        ([["no.such", 0, "1"]], 40, "no.such"),
        ([["retention.ms", 0, "soon"]], 40, "'soon'"),
        ([["retention.ms", 0, None]], 42, "retention.ms"),
        ([["retention.ms", 2, "1"]], 40, "no list"),
        ([["retention.ms", 9, "1"]], 42, "9"),
        ([["retention.ms", 0, "1"], ["retention.ms", 1, None]], 42, "more than once"),
        ([["cleanup.policy", 2, ""]], 40, "cleanup.policy"),
        ([["cleanup.policy", 2, "shred"]], 40, "cleanup.policy"),
        ([["cleanup.policy", 3, None]], 42, "cleanup.policy"),
        ([["segment.bytes", 0, "1048575"]], 40, "1048576"),
    ],
)
def test_a_refused_change_is_told_why_and_changes_nothing(operations: list[Any], code: int, text: str) -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"segment.bytes": "2000000"}})
    assert cluster.alter("t", *operations) == code
    assert text in cluster.result["error_message"]
    assert cluster.metadata.topics["t"].configs == {"segment.bytes": "2000000"}


def test_settings_of_one_broker_and_of_all() -> None:
    cluster = Cluster()
    assert cluster.alter("", ["log.retention.ms", 0, "1000"], kind=4) == 0
    assert cluster.alter("1", ["log.retention.ms", 0, "2000"], kind=4) == 0
    assert cluster.metadata.broker_configs == {"": {"log.retention.ms": "1000"}, "1": {"log.retention.ms": "2000"}}
    assert cluster.alter("1", ["log.retention.ms", 1, None], kind=4) == 0
    assert cluster.metadata.broker_configs["1"] == {}


@pytest.mark.parametrize(
    ("name", "kind", "operation", "code", "text"),
    [
        ("9", 4, ["log.retention.ms", 0, "1"], 42, "'9'"),
        ("x", 4, ["log.retention.ms", 0, "1"], 42, "'x'"),
        ("1", 4, ["group.max.size", 0, "1"], 42, "read-only"),
        ("1", 4, ["no.such", 0, "1"], 40, "no.such"),
        ("1", 4, ["log.retention.ms", 0, "-9"], 40, "'-9'"),
        ("u", 2, ["retention.ms", 0, "1"], 3, "'u'"),
        ("1", 8, ["retention.ms", 0, "1"], 42, "8"),
    ],
)
def test_what_cannot_be_altered(name: str, kind: int, operation: list[Any], code: int, text: str) -> None:
    cluster = Cluster()
    assert cluster.alter(name, operation, kind=kind) == code
    assert text in cluster.result["error_message"]
    assert cluster.metadata.broker_configs == {}


def test_validation_alone_alters_nothing() -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    assert cluster.alter("t", ["retention.ms", 0, "1"], validate_only=True) == 0
    assert cluster.metadata.topics["t"].configs == {}


def test_a_resource_named_twice_is_refused() -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    resource = {"type": 2, "name": "t", "replace": False, "operations": [["retention.ms", 0, "1"]]}
    results = cluster.do("alter_configs", resources=[resource, resource])
    assert [result["error_code"] for result in results] == [42, 42]


@pytest.mark.parametrize(
    ("start", "operation", "value", "end"),
    [
        (None, 3, "delete", ""),
        ("delete,compact", 3, "delete,compact", ""),
        ("compact", 3, "delete", "compact"),
        ("", 3, "delete", ""),
        ("delete", 3, "", "delete"),
        ("", 2, "compact", "compact"),
        (None, 2, "delete", "delete"),
        (None, 2, "compact,compact", "delete,compact"),
        ("compact", 2, " delete ", "compact,delete"),
    ],
)
def test_a_list_is_added_to_once_and_subtracted_from_down_to_nothing(
    start: str | None, operation: int, value: str, end: str
) -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {} if start is None else {"cleanup.policy": start}})
    assert cluster.alter("t", ["cleanup.policy", operation, value]) == 0
    assert cluster.metadata.topics["t"].configs == {"cleanup.policy": end}


def test_a_brokers_list_is_changed_from_the_value_that_it_was_given() -> None:
    cluster = Cluster()
    assert cluster.alter("", ["log.cleanup.policy", 0, "compact"], kind=4) == 0
    assert cluster.alter("", ["log.cleanup.policy", 2, "delete"], kind=4) == 0
    assert cluster.metadata.broker_configs[""] == {"log.cleanup.policy": "compact,delete"}
    assert cluster.alter("1", ["log.cleanup.policy", 3, "compact,delete"], kind=4) == 0
    assert cluster.metadata.broker_configs["1"] == {"log.cleanup.policy": ""}


MIN, MAX = "min.compaction.lag.ms", "max.compaction.lag.ms"


def test_a_topic_whose_lags_exclude_each_other_is_not_made() -> None:
    cluster = Cluster()
    assert cluster.create({"name": "t", "configs": {MIN: "10", MAX: "5"}}) == [40]
    text = cluster.results[0]["error_message"]
    assert all(part in text for part in (f"{MIN}=10", f"{MAX}=5"))
    assert cluster.create({"name": "t", "configs": {MIN: "10", MAX: "10"}}) == [0]


@pytest.mark.parametrize(
    ("present", "operations"),
    [
        ({MAX: "5"}, [[MIN, 0, "10"]]),
        ({MIN: "10"}, [[MAX, 0, "5"]]),
        ({}, [[MIN, 0, "10"], [MAX, 0, "5"]]),
    ],
)
@pytest.mark.parametrize("replace", [False, True])
def test_a_lag_is_not_set_against_the_other(present: dict[str, str], operations: list[Any], replace: bool) -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": present})
    given = [*operations, *([key, 0, value] for key, value in present.items())] if replace else operations
    assert cluster.alter("t", *given, replace=replace) == 40
    assert f"{MIN}=10" in cluster.result["error_message"]
    assert f"{MAX}=5" in cluster.result["error_message"]
    assert cluster.metadata.topics["t"].configs == present


@pytest.mark.parametrize("later", [False, True])
def test_a_topics_lag_is_not_set_against_that_of_the_brokers(later: bool) -> None:
    most = {"log_cleaner_max_compaction_lag_ms": "5"}
    cluster = Cluster() if later else Cluster(**most)
    if later:
        assert cluster.alter("", ["log.cleaner.max.compaction.lag.ms", 0, "5"], kind=4) == 0
    assert cluster.create({"name": "t", "configs": {MIN: "10"}}) == [40]
    assert cluster.create({"name": "t", "configs": {MIN: "10", MAX: "20"}}) == [0]
    assert cluster.alter("t", [MAX, 1, None]) == 40, "the brokers' lag would hold again"
    assert cluster.alter("t", [MAX, 1, None], [MIN, 1, None]) == 0


@pytest.mark.parametrize("name", ["", "1"])
def test_the_brokers_lags_do_not_exclude_each_other(name: str) -> None:
    cluster = Cluster()
    assert cluster.alter("", ["log.cleaner.max.compaction.lag.ms", 0, "5"], kind=4) == 0
    assert cluster.alter(name, ["log.cleaner.min.compaction.lag.ms", 0, "10"], kind=4) == 40
    assert "max.compaction.lag.ms=5" in cluster.result["error_message"]


@pytest.mark.parametrize(("kind", "name", "key"), [(2, "t", "segment.bytes"), (4, "", "log.segment.bytes")])
def test_a_value_that_an_older_release_stored_keeps_no_other_from_being_changed(kind: int, name: str, key: str) -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    stored = {key: "2000", **({MIN: "10", MAX: "5"} if kind == 2 else {})}
    cluster.metadata.apply(TopicConfigsRecord(name, stored) if kind == 2 else BrokerConfigsRecord(name, stored))
    other = "retention.ms" if kind == 2 else "log.retention.ms"
    assert cluster.alter(name, [other, 0, "1"], kind=kind) == 0
    held = cluster.metadata.topics["t"].configs if kind == 2 else cluster.metadata.broker_configs[""]
    assert held == {**stored, other: "1"}
    assert cluster.alter(name, [key, 0, "3000"], kind=kind) == 40
    assert cluster.alter(name, [key, 1, None], kind=kind) == 0


def test_a_segment_size_of_all_brokers_keeps_one_brokers_settings_from_no_change() -> None:
    cluster = Cluster()
    cluster.metadata.apply(BrokerConfigsRecord("", {"log.segment.bytes": "2000"}))
    assert cluster.alter("1", ["log.retention.ms", 0, "1"], kind=4) == 0


@pytest.mark.parametrize("size_bytes", ["1", "13", "2000"])
def test_tests_may_have_smaller_segments_than_users(size_bytes: str) -> None:
    cluster = Cluster()
    assert cluster.create({"name": "t", "configs": {"internal.segment.bytes": size_bytes}}) == [0]
    assert cluster.alter("t", ["segment.bytes", 0, "2000000"]) == 0
    assert cluster.alter("t", ["internal.segment.bytes", 0, "many"]) == 40
