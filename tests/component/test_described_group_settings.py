"""Settings of groups through a broker: where their values come from, and which groups have some of their own."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from actors.broker.images import with_dynamic
from actors.settings import Source
from actors.wire.messages import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from placement.records import METADATA_VERSION, FeatureLevelRecord, GroupConfigsRecord
from tests.support.handler_helpers import Broker

TOPIC, BROKER, GROUP = 2, 4, 32
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SHARE_SESSION = "share.session.timeout.ms"
INTERVAL = "consumer.assignment.interval.ms"


def upgraded(path: Path, **settings: str) -> Broker:
    """A broker of a cluster whose metadata may hold settings of groups."""
    broker = Broker(path, **settings)
    broker.metadata.apply(FeatureLevelRecord(METADATA_VERSION, 2))
    return broker


def altered(broker: Broker, kind: int, name: str, *operations: tuple[str, int, str | None]) -> int:
    r = IncrementalAlterConfigsRequest
    configs = [r.AlterableConfig(name=key, config_operation=code, value=value) for key, code, value in operations]
    resource = r.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return int(broker.ask(r(resources=[resource]), 1).responses[0].error_code)


def entries(broker: Broker, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    r = DescribeConfigsRequest
    resource = r.DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=keys)
    result = broker.ask(r(resources=[resource], include_synonyms=True), 4).results[0]
    assert (result.error_code, result.error_message) == (0, None)
    return {entry.name: entry for entry in result.configs}


def shown(entry: Any) -> tuple[Any, ...]:
    """The value, its source, and the synonyms."""
    return entry.value, entry.config_source, [(each.name, each.value, each.source) for each in entry.synonyms]


@pytest.mark.conformance("K-B-115")
def test_a_setting_of_a_groups_own_goes_before_the_brokers_and_the_default(tmp_path: Path) -> None:
    broker = upgraded(tmp_path, group_consumer_heartbeat_interval_ms="6000")
    assert altered(broker, GROUP, "g", (HEARTBEAT, 0, "7000")) == 0
    found = entries(broker, "g")
    static, default = Source.STATIC_BROKER_CONFIG, Source.DEFAULT_CONFIG
    brokers = [(f"group.{HEARTBEAT}", "6000", static), (f"group.{HEARTBEAT}", "5000", default)]
    assert shown(found[HEARTBEAT]) == ("7000", 8, [(HEARTBEAT, "7000", 8), *brokers])
    assert shown(found[SESSION]) == ("45000", 5, [(f"group.{SESSION}", "45000", 5)])
    assert shown(entries(broker, "another")[HEARTBEAT]) == ("6000", 4, brokers)
    assert not any(entry.read_only for entry in found.values())


@pytest.mark.conformance("K-B-115")
def test_an_internal_setting_of_groups_is_shown_where_it_is_set(tmp_path: Path) -> None:
    broker, offload = upgraded(tmp_path), "consumer.assignor.offload.enable"
    assert altered(broker, GROUP, "g", (offload, 0, "false")) == 0
    assert shown(entries(broker, "g")[offload])[:2] == ("false", 8)
    assert entries(broker, "g", [offload]).keys() == {offload}
    assert offload not in entries(broker, "another")


@pytest.mark.conformance("K-B-115")
def test_a_setting_of_a_group_that_is_not_known_here_counts_as_a_secret(tmp_path: Path) -> None:
    """A newer version may have set it."""
    broker = upgraded(tmp_path)
    broker.metadata.apply(GroupConfigsRecord("g", {"wings.password": "swordfish"}))
    told = entries(broker, "g")["wings.password"]
    assert (told.value, told.is_sensitive, told.config_source) == (None, True, 8)


@pytest.mark.conformance("K-B-116")
def test_a_setting_that_a_group_has_not_set_follows_the_brokers_also_beside_others(tmp_path: Path) -> None:
    broker = upgraded(tmp_path)
    assert altered(broker, GROUP, "g", (SESSION, 0, "50000")) == 0
    for text in ("0", "7000"):
        assert altered(broker, BROKER, "", (f"group.{INTERVAL}", 0, text)) == 0
        broker.context.config = with_dynamic(broker.config, broker.metadata, 0)
        found = entries(broker, "g")
        assert shown(found[INTERVAL])[:2] == (text, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
        assert shown(found[SESSION])[:2] == ("50000", 8)


@pytest.mark.conformance("K-B-113")
def test_groups_with_settings_of_their_own_are_listed(tmp_path: Path) -> None:
    broker = upgraded(tmp_path)
    for name in ("b", "a"):
        assert altered(broker, GROUP, name, (SESSION, 0, "50000")) == 0

    def listed(*types: int) -> list[tuple[int, str]]:
        answer = broker.ask(ListConfigResourcesRequest(resource_types=list(types)), 1)
        return [(each.resource_type, each.resource_name) for each in answer.config_resources]

    assert listed(GROUP) == [(GROUP, "a"), (GROUP, "b")]
    assert listed(TOPIC) == []
    assert altered(broker, GROUP, "a", (SESSION, 1, None)) == 0
    assert listed() == [(BROKER, "0"), (8, "0"), (GROUP, "b")]


def test_a_groups_setting_is_said_to_have_no_effect_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = upgraded(tmp_path)
    with caplog.at_level(logging.WARNING):
        for value in ("50000", "51000"):
            assert altered(broker, GROUP, "g", (SHARE_SESSION, 0, value)) == 0
            assert altered(broker, GROUP, "g", (SESSION, 0, value)) == 0, "this one has an effect"
    assert [record.getMessage() for record in caplog.records] == [f"accepted, but without effect here: {SHARE_SESSION}"]
