"""The tables of settings have what Kafka's list of keys has, but for the fields named here.

Names and types are tested in test_known_settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import actors.settings
from actors.settings import SETTINGS, TOPIC_SETTINGS, Setting, SettingError

KEYS: Final = json.loads(Path(actors.settings.__file__).with_name("kafka_keys.json").read_text())

RANGES: Final = [
    "default.replication.factor",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "offsets.topic.compression.codec",
    "replica.lag.time.max.ms",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.server.max.receive.size",
]
"""Kafka checks these elsewhere, or not at all."""
NEED_A_RESTART: Final = [
    "listener.security.protocol.map",
    "listeners",
    "sasl.enabled.mechanisms",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.protocol",
]
OTHER_DEFAULTS: Final = [
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "group.coordinator.rebalance.protocols",
    "group.coordinator.threads",
    "max.incremental.fetch.session.cache.slots",
    "sasl.enabled.mechanisms",
    "socket.listen.backlog.size",
    "ssl.keystore.type",
    "ssl.truststore.type",
]
OTHERS: Final = {
    ("broker.heartbeat.interval.ms", "range"),
    ("broker.session.timeout.ms", "range"),
    ("group.consumer.assignors", "choices"),  # Kafka's are classes, of anybody
    ("group.consumer.migration.policy", "choices"),  # Kafka checks them when it reads them
}
OURS: Final = (
    OTHERS
    | {(name, "range") for name in RANGES}
    | {(name, "dynamic") for name in NEED_A_RESTART}
    | {(name, "default") for name in OTHER_DEFAULTS}
)


def differences(setting: Setting, key: Mapping[str, Any]) -> set[tuple[str, str]]:
    pairs = {
        "default": (setting.default, _default(setting, key)),
        "range": ((setting.low, setting.high), (key.get("low"), key.get("high"))),
        "choices": (set(setting.choices), set(key.get("choices", ()))),
        "dynamic": (setting.dynamic, key.get("dynamic", False)),
        "internal": (setting.internal, key.get("internal", False)),
    }
    return {(setting.name, field) for field, (own, theirs) in pairs.items() if own != theirs}


def _default(setting: Setting, key: Mapping[str, Any]) -> object:
    """Kafka's default as a value of ours, or its text where that is none."""
    try:
        return setting.parse(key["default"]) if "default" in key else None
    except SettingError:
        return key["default"]


def test_settings_of_brokers_are_kafkas_but_for_these() -> None:
    theirs = KEYS["broker"]
    found = [differences(setting, theirs[name]) for name, setting in SETTINGS.items() if name in theirs]
    assert set().union(*found) == OURS


def test_settings_of_topics_are_kafkas() -> None:
    theirs = {name: {**key, "dynamic": True} for name, key in KEYS["topic"].items()}
    found = [differences(setting, theirs[name]) for name, setting in TOPIC_SETTINGS.items()]
    assert set().union(*found) == {("retention.bytes", "range")}  # Kafka takes any negative number for no limit
