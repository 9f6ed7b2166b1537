"""What a setting's value is and where it comes from: the content of DescribeConfigs. No message is built here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from actors.settings.broker import SETTINGS
from actors.settings.config import BrokerConfig
from actors.settings.kinds import Setting, Value
from actors.settings.topic import TOPIC_SETTINGS


class Source(IntEnum):
    """Where a value was set, with its code in DescribeConfigs (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the places a value can come from; the first of a list is the one that holds."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One entry of a DescribeConfigs answer; `value` is text, `type_code` KIP-226's."""

    name: str
    value: str | None
    source: Source
    type_code: int
    doc: str
    read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT_CONFIG


def topic_value(name: str, own: Mapping[str, str], broker: BrokerConfig) -> Any:
    """A topic setting's value as it holds, typed: the topic's own, else the broker's, else the default.

    `own` are the topic's settings as text, already checked. Raises KeyError for a name that does not exist.
    """
    entry = TOPIC_SETTINGS[name]
    if name in own:
        return entry.setting.parse(own[name])
    for inherited in entry.inherits:
        value: Value = broker[inherited.name]
        if value is not None:
            return inherited.scale(value)
    return entry.setting.default


def topic_configs(own: Mapping[str, str], broker: BrokerConfig) -> dict[str, str]:
    """Every topic setting of one topic as it holds, as text: what a log is opened with."""
    values = {name: entry.setting.format(topic_value(name, own, broker)) for name, entry in TOPIC_SETTINGS.items()}
    return {name: value for name, value in values.items() if value is not None}


def topic_config_value(name: str, own: Mapping[str, str], broker: BrokerConfig) -> ConfigValue:
    """A topic setting for DescribeConfigs. Raises KeyError for a name that does not exist."""
    return _described(TOPIC_SETTINGS[name].setting, topic_config_synonyms(name, own, broker), read_only=False)


def topic_config_synonyms(name: str, own: Mapping[str, str], broker: BrokerConfig) -> tuple[Synonym, ...]:
    """Everywhere a topic setting has a value, the one that holds first."""
    entry = TOPIC_SETTINGS[name]
    found = []
    if name in own:
        text = entry.setting.format(entry.setting.parse(own[name]))
        found.append(Synonym(name, text, Source.DYNAMIC_TOPIC_CONFIG))
    for inherited in entry.inherits:
        value = broker[inherited.name]
        if value is not None:
            text = entry.setting.format(inherited.scale(value))
            found.append(Synonym(inherited.name, text, _source(inherited.name, broker)))
    if not found:
        found.append(Synonym(name, entry.setting.format(entry.setting.default), Source.DEFAULT_CONFIG))
    return tuple(found)


def broker_config_value(name: str, broker: BrokerConfig) -> ConfigValue:
    """A broker setting for DescribeConfigs. Raises KeyError for a name that does not exist."""
    setting = SETTINGS[name]
    synonyms = [Synonym(name, setting.format(broker[name]), _source(name, broker))]
    if synonyms[0].source is not Source.DEFAULT_CONFIG and setting.default is not None:
        synonyms.append(Synonym(name, setting.format(setting.default), Source.DEFAULT_CONFIG))
    return _described(setting, tuple(synonyms), read_only=not setting.dynamic)


def offsets_topic_configs(broker: BrokerConfig) -> dict[str, str]:
    """The topic settings `__consumer_offsets` is created with.

    With three replicas or more a commit has to be on two of them, unless `min.insync.replicas` is set: Kafka's 1
    would let an acknowledged commit be lost with a single machine.
    """
    needs_two = (
        int(str(broker["offsets.topic.replication.factor"])) >= 3 and "min.insync.replicas" not in broker.explicit
    )
    return {
        **({"min.insync.replicas": "2"} if needs_two else {}),
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(broker["offsets.topic.segment.bytes"]),
    }


def _described(setting: Setting, synonyms: tuple[Synonym, ...], *, read_only: bool) -> ConfigValue:
    holds = synonyms[0]
    return ConfigValue(setting.name, holds.value, holds.source, setting.type, setting.doc, read_only, synonyms)


def _source(name: str, broker: BrokerConfig) -> Source:
    if name in broker.dynamic:
        return Source.DYNAMIC_BROKER_CONFIG
    return Source.STATIC_BROKER_CONFIG if name in broker.explicit else Source.DEFAULT_CONFIG
