"""The value of each setting and where it was set: the content of DescribeConfigs. Its messages are built elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from actors.settings.config import BrokerConfig
from actors.settings.kinds import Setting, SettingError, Value
from actors.settings.known import (
    accepted_settings,
    accepted_topic_settings,
    broker_setting,
    client_metrics_settings,
    group_settings,
    topic_setting,
)
from actors.settings.topic import TOPIC_SETTINGS

_UNKNOWN_TYPE: Final = 0
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""Kafka's key for tests, which want segments smaller than users may have."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Source(IntEnum):
    """The source of a value, with its code in DescribeConfigs (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the places where a value is set. Of a list of them the first one holds."""

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
    sensitive: bool = False
    """True if it is a secret; `value` is then None."""

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT_CONFIG


def topic_value(name: str, own: Mapping[str, str], broker: BrokerConfig) -> Any:
    """The typed value of a topic's setting: the topic's own, else the broker's, else the default.

    `own` are the topic's own settings as text, already checked. Raises SettingError for a name that does not exist.
    """
    setting = topic_setting(name)
    if name in own:
        return setting.restore(own[name])
    for inherited in setting.inherits:
        value: Value = broker[inherited.name]
        if value is not None:
            return inherited.scale(value)
    return setting.default


def topic_values(own: Mapping[str, str], broker: BrokerConfig) -> dict[str, Any]:
    """The typed values of all settings of one topic: what a log is opened with. Those that are unset are left out."""
    values = {name: topic_value(name, own, broker) for name in TOPIC_SETTINGS}
    if "segment.bytes" in own and INTERNAL_SEGMENT_BYTES not in own:  # a topic's own value goes before the brokers'
        del values[INTERNAL_SEGMENT_BYTES]
    return {name: value for name, value in values.items() if value is not None}


def topic_config_names(own: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the topic settings in DescribeConfigs: all, but Kafka's internal ones only if they are set."""
    known = {**TOPIC_SETTINGS, **accepted_topic_settings()}
    return tuple(dict.fromkeys((*(name for name, setting in known.items() if not setting.internal), *own)))


def topic_config_value(name: str, own: Mapping[str, str], broker: BrokerConfig) -> ConfigValue:
    """The entry of a topic setting in DescribeConfigs. Raises SettingError for a name that does not exist.

    A name of the topic's own that is not known here, as after a downgrade, counts as a secret: it may be one.
    """
    try:
        setting = topic_setting(name)
    except SettingError:
        if name not in own:
            raise
        return _unknown(name, Source.DYNAMIC_TOPIC_CONFIG)
    synonyms = topic_config_synonyms(name, own, broker)
    text = setting.format(topic_value(name, own, broker))
    return _described(setting, text, synonyms[0].source, synonyms, read_only=False)


def topic_config_synonyms(name: str, own: Mapping[str, str], broker: BrokerConfig) -> tuple[Synonym, ...]:
    """All places where a topic setting is set, the one that holds first; each value is in the unit of its own name."""
    setting = topic_setting(name)
    found = []
    if name in own:
        text = setting.format(setting.restore(own[name]))
        found.append(Synonym(name, text, Source.DYNAMIC_TOPIC_CONFIG))
    for inherited in setting.inherits:
        value = broker[inherited.name]
        if value is not None:
            text = broker_setting(inherited.name).format(value)
            found.append(Synonym(inherited.name, text, _source(inherited.name, broker)))
    if not found:
        found.append(Synonym(name, setting.format(setting.default), Source.DEFAULT_CONFIG))
    return tuple(found)


def broker_config_names(broker: BrokerConfig) -> tuple[str, ...]:
    """The names of the broker settings in DescribeConfigs: all, but Kafka's internal ones only if they are set."""
    accepted = (name for name, setting in accepted_settings().items() if not setting.internal)
    unset = {name for name in broker if broker_setting(name).internal} - broker.explicit - broker.dynamic
    return tuple(name for name in dict.fromkeys((*broker, *accepted)) if name not in unset)


def broker_config_value(name: str, broker: BrokerConfig, running: Mapping[str, str] = _NOTHING) -> ConfigValue:
    """The entry of a broker setting in DescribeConfigs. Raises SettingError for a name that does not exist.

    `running` has values that the running broker has not read from its settings, such as its id and where it listens.
    They are described as set at the start.
    """
    setting = broker_setting(name)
    text, source = setting.format(broker[name]), _source(name, broker)
    if name in running:
        text, source = running[name], Source.STATIC_BROKER_CONFIG
    synonyms = _with_default(setting, text, source)
    return _described(setting, text, source, synonyms, read_only=not setting.dynamic)


def _with_default(setting: Setting, text: str | None, source: Source) -> tuple[Synonym, ...]:
    synonym = Synonym(setting.name, text, source)
    if source is Source.DEFAULT_CONFIG or setting.default is None:
        return (synonym,)
    return synonym, Synonym(setting.name, setting.format(setting.default), Source.DEFAULT_CONFIG)


def group_config_names(own: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the group settings in DescribeConfigs: all, but Kafka's internal ones only if they are set."""
    return tuple(dict.fromkeys((*(name for name, each in group_settings().items() if not each.internal), *own)))


def group_config_value(name: str, own: Mapping[str, str], broker: BrokerConfig) -> ConfigValue:
    """The entry of a group setting in DescribeConfigs; `own` are the group's own settings.

    A name of its own that is not known here, as after a downgrade, counts as a secret: it may be one.
    """
    setting = group_settings().get(name)
    if setting is None:
        return _unknown(name, Source.DYNAMIC_GROUP_CONFIG)
    synonyms = _group_defaults(setting, broker)
    if name in own:
        synonyms = (Synonym(name, setting.format(setting.restore(own[name])), Source.DYNAMIC_GROUP_CONFIG), *synonyms)
    return _described(setting, synonyms[0].value, synonyms[0].source, synonyms, read_only=False)


def _group_defaults(setting: Setting, broker: BrokerConfig) -> tuple[Synonym, ...]:
    if not setting.inherits:
        return (Synonym(setting.name, setting.format(setting.default), Source.DEFAULT_CONFIG),)
    inherited = broker_setting(setting.inherits[0].name)
    text, source = inherited.format(broker[inherited.name]), _source(inherited.name, broker)
    return _with_default(inherited, text, source)


def client_metrics_config_value(name: str) -> ConfigValue:
    """The entry of a client-metrics setting in DescribeConfigs (KIP-714): Kafka's default, as it cannot be set."""
    setting = client_metrics_settings()[name]
    return _described(setting, setting.format(setting.default), Source.DEFAULT_CONFIG, (), read_only=True)


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


def _unknown(name: str, source: Source) -> ConfigValue:
    synonyms = (Synonym(name, None, source),)
    return ConfigValue(name, None, source, _UNKNOWN_TYPE, "", read_only=False, synonyms=synonyms, sensitive=True)


def _described(
    setting: Setting, text: str | None, source: Source, synonyms: tuple[Synonym, ...], *, read_only: bool
) -> ConfigValue:
    if setting.sensitive:
        text = None
        synonyms = tuple(replace(synonym, value=None) for synonym in synonyms)
    return ConfigValue(
        setting.name, text, source, setting.type, setting.doc, read_only, synonyms, sensitive=setting.sensitive
    )


def _source(name: str, broker: BrokerConfig) -> Source:
    if name in broker.dynamic:
        return Source.DYNAMIC_DEFAULT_BROKER_CONFIG if name in broker.cluster_wide else Source.DYNAMIC_BROKER_CONFIG
    return Source.STATIC_BROKER_CONFIG if name in broker.explicit else Source.DEFAULT_CONFIG
