"""Every key that can be set: those that have an effect, and all others of Kafka 4.4, which are accepted without one.

kafka_keys.json has Kafka's keys, as tools/KafkaKeys.java prints them. The file is read when somebody asks for a key
without effect, or for all keys. A broker whose settings all have an effect starts without reading it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from actors.settings.broker import SETTINGS
from actors.settings.kinds import Inherited, Setting, SettingType, Value, unknown_setting
from actors.settings.topic import TOPIC_SETTINGS

WITHOUT_EFFECT: Final = "Accepted as Kafka accepts it, without effect."
_FILE: Final = Path(__file__).with_name("kafka_keys.json")
_PLUGINS: Final = ("metrics.context.", "rlmm.config.", "rsm.config.")
"""Beginnings of keys that Kafka hands on to plugins. Their values may be secrets."""
_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(?P<key>.+)")
_REPLICA: Final = re.compile(r"\d+:\d+")


def _no_remote_storage(wanted: bool) -> str | None:
    return "there is no remote storage" if wanted else None


def _throttled(replicas: tuple[str, ...]) -> str | None:
    if replicas == ("*",) or all(_REPLICA.fullmatch(replica) for replica in replicas):
        return None
    return "must be * or a list of PARTITION:BROKER"


_OF_GROUPS: Final = {
    "consumer.assignment.interval.ms": "Shortest interval between two assignments of the group; 0: at each change.",
    "consumer.heartbeat.interval.ms": "Heartbeat interval that the group's members are told.",
    "consumer.session.timeout.ms": "Session timeout of the group's members.",
}
"""The meanings of groups' settings, of those that have an effect here."""

_CHECKS: Final[dict[str, Callable[[Any], str | None]]] = {
    "remote.storage.enable": _no_remote_storage,
    "leader.replication.throttled.replicas": _throttled,
    "follower.replication.throttled.replicas": _throttled,
}


@cache
def _kafka_keys() -> Any:
    return json.loads(_FILE.read_text())


def _setting(name: str, key: Mapping[str, Any]) -> Setting:
    setting = Setting(
        name=name,
        type=SettingType[key["type"]],
        default=None,
        doc=WITHOUT_EFFECT,
        low=key.get("low"),
        high=key.get("high"),
        choices=tuple(key.get("choices", ())),
        nullable="default" not in key,
        dynamic=key.get("dynamic", False),
        internal=key.get("internal", False),
        check=_CHECKS.get(name),
    )
    return setting if setting.nullable else replace(setting, default=setting.parse(key["default"]))


@cache
def accepted_settings() -> Mapping[str, Setting]:
    """Kafka's broker settings that have no effect here, by name."""
    keys = _kafka_keys()["broker"]
    return MappingProxyType({name: _setting(name, key) for name, key in keys.items() if name not in SETTINGS})


@cache
def accepted_topic_settings() -> Mapping[str, Setting]:
    """Kafka's topic settings that have no effect here, by name."""
    keys = _kafka_keys()["topic"]
    return MappingProxyType(
        {name: _topic_setting(name, key) for name, key in keys.items() if name not in TOPIC_SETTINGS}
    )


def _topic_setting(name: str, key: Mapping[str, Any]) -> Setting:
    return replace(_inheriting_setting(name, key), dynamic=True)


def _inheriting_setting(name: str, key: Mapping[str, Any]) -> Setting:
    inherits = (Inherited(broker, negative_is_no_limit=False) for broker in key.get("inherits", ()))
    return replace(_setting(name, key), inherits=tuple(inherits))


@cache
def group_settings() -> Mapping[str, Setting]:
    """Kafka's group settings, by name. Those that are not about consumer groups have no effect here."""
    return MappingProxyType({name: _group_setting(name, key) for name, key in _kafka_keys()["group"].items()})


def _group_setting(name: str, key: Mapping[str, Any]) -> Setting:
    return replace(_inheriting_setting(name, key), doc=_OF_GROUPS.get(name, WITHOUT_EFFECT))


@cache
def client_metrics_settings() -> Mapping[str, Setting]:
    """Kafka's settings of client-metrics subscriptions (KIP-714), by name."""
    return MappingProxyType({name: _setting(name, key) for name, key in _kafka_keys()["client_metrics"].items()})


def broker_setting(name: str) -> Setting:
    """A broker setting, with or without effect. Raises SettingError for a name Kafka does not know either."""
    found = SETTINGS.get(name) or accepted_settings().get(name) or _named_by_form(name)
    if found is None:
        raise unknown_setting(name, [*SETTINGS, *accepted_settings()])
    return found


def without_effect(name: str) -> bool:
    """True if a broker setting is accepted only because Kafka accepts it. Raises SettingError."""
    return broker_setting(name).doc == WITHOUT_EFFECT


def _named_by_form(name: str) -> Setting | None:
    """The setting of a key that is about one listener or its SASL mechanism, or that a plugin reads; else None."""
    if name.startswith(_PLUGINS):
        return Setting(name=name, type=SettingType.PASSWORD, default=None, doc=WITHOUT_EFFECT, nullable=True)
    if match := _LISTENER.fullmatch(name):
        key = match["key"]
        for candidate in (key, key.partition(".")[2]):
            base = SETTINGS.get(candidate)
            if base is not None and base.per_listener:
                return replace(base, name=name)
            if base := base or accepted_settings().get(candidate):
                return replace(base, name=name, doc=WITHOUT_EFFECT)
    return None


def topic_setting(name: str) -> Setting:
    """A topic setting, with or without effect. Raises SettingError for a name Kafka does not know either."""
    found = TOPIC_SETTINGS.get(name) or accepted_topic_settings().get(name)
    if found is None:
        raise unknown_setting(name, [*TOPIC_SETTINGS, *accepted_topic_settings()], "topic setting")
    return found


def parse_topic_configs(configs: Mapping[str, str]) -> dict[str, Value]:
    """The typed values of a topic's own settings. Raises SettingError."""
    settings = {name: topic_setting(name) for name in configs}
    return {name: settings[name].parse(text) for name, text in configs.items()}
