"""The log names a group's setting once when it is out of the broker's bounds, and so not used."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.broker.coordinators.settings import SettingsNews
from actors.coordinator_kinds.groups import GROUPS
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata
from placement.records import GroupConfigsRecord


@pytest.mark.conformance("K-B-114")
def test_a_groups_value_that_is_not_used_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    wide = {"group.consumer.max.heartbeat.interval.ms": "20000"}
    context = cast("Any", SimpleNamespace(config=BrokerConfig.from_mapping(wide), metadata=ClusterMetadata()))
    news = SettingsNews(context, GROUPS, cast("Any", SimpleNamespace(links={})))
    own = {"consumer.heartbeat.interval.ms": "18000", "consumer.session.timeout.ms": "50000"}
    context.metadata.apply(GroupConfigsRecord("g", own))
    with caplog.at_level(logging.WARNING):
        news.tell()
        assert caplog.messages == [], "all is within the bounds"
        context.config = BrokerConfig.from_mapping({"group.consumer.min.session.timeout.ms": "45000"})
        news.tell()
        news.tell()
        context.metadata.apply(GroupConfigsRecord("h", {"consumer.assignment.interval.ms": "5"}))
        news.tell()
        assert caplog.messages == [
            "consumer.heartbeat.interval.ms of group g is 18000; 15000 is used, "
            "as group.consumer.max.heartbeat.interval.ms says"
        ]
        context.config = BrokerConfig.from_mapping({"group.consumer.min.assignment.interval.ms": "100"})
        news.tell()
    assert caplog.messages[1:] == [
        "consumer.assignment.interval.ms of group h is 5; 100 is used, "
        "as group.consumer.min.assignment.interval.ms says"
    ]
