"""The controller's rules: settings of topics and brokers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.decisions import Cluster


def test_settings_are_set_unset_and_changed_item_by_item() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"retention.ms": "1"}})
    assert cluster.alter("t", ["segment.bytes", 0, "2000"], ["retention.ms", 1, None]) == 0
    assert cluster.alter("t", ["cleanup.policy", 2, "compact"]) == 0
    assert cluster.metadata.topics["t"].configs == {"segment.bytes": "2000", "cleanup.policy": "delete,compact"}
    assert cluster.alter("t", ["cleanup.policy", 3, "delete"]) == 0
    assert cluster.metadata.topics["t"].configs["cleanup.policy"] == "compact"


def test_replacing_forgets_what_is_not_named() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"retention.ms": "1", "segment.bytes": "2000"}})
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
        ([["cleanup.policy", 3, "delete"]], 40, "cleanup.policy"),
    ],
)
def test_a_refused_change_is_told_why_and_changes_nothing(operations: list[Any], code: int, text: str) -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"segment.bytes": "2000"}})
    assert cluster.alter("t", *operations) == code
    assert text in cluster.result["error_message"]
    assert cluster.metadata.topics["t"].configs == {"segment.bytes": "2000"}


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
