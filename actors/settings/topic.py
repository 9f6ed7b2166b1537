"""Topic settings: Kafka's keys, and the broker setting each inherits from. What a log does with them is the log's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from actors.settings.broker import SETTINGS
from actors.settings.kinds import MAX_LONG, Setting, SettingType, Value, unknown_setting

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Inherited:
    """A broker setting a topic setting falls back to, and the factor between their units."""

    name: str
    factor: int = 1

    def scale(self, value: Value) -> Value:
        """The broker's value in the topic's unit; negative numbers mean "no limit" in every unit."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value * self.factor if value > 0 else max(value, -1)
        return value


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A topic setting; `inherits` lists the broker settings it falls back to, the first that has a value winning."""

    setting: Setting
    inherits: tuple[Inherited, ...]


def _like(name: str, broker: str, *more: Inherited, **changes: object) -> TopicSetting:
    """A topic setting with the type, range and meaning of a broker setting."""
    source = SETTINGS[broker]
    fields: dict[str, object] = {"name": name, "nullable": False, "dynamic": True, **changes}
    return TopicSetting(replace(source, **fields), (Inherited(broker), *more))  # type: ignore[arg-type]


def _alone(name: str, kind: SettingType, default: Value, low: int, high: int, doc: str) -> TopicSetting:
    return TopicSetting(
        Setting(name=name, type=kind, default=default, low=low, high=high, doc=doc, dynamic=True),
        (),
    )


_ALL: Final = (
    _like("cleanup.policy", "log.cleanup.policy"),
    _like("compression.type", "compression.type"),
    _like("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _like("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    _like("flush.messages", "log.flush.interval.messages"),
    _like("flush.ms", "log.flush.interval.ms", Inherited("log.flush.scheduler.interval.ms"), default=MAX_LONG, low=0),
    _like("index.interval.bytes", "log.index.interval.bytes"),
    _like("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _like("max.message.bytes", "message.max.bytes"),
    _like("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    _like("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _like("message.timestamp.type", "log.message.timestamp.type"),
    _like("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    _like("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    _like("min.insync.replicas", "min.insync.replicas"),
    _like("retention.bytes", "log.retention.bytes", low=-1),
    _like(
        "retention.ms",
        "log.retention.ms",
        Inherited("log.retention.minutes", _MINUTE_MS),
        Inherited("log.retention.hours", _HOUR_MS),
        default=168 * _HOUR_MS,
    ),
    _like("segment.bytes", "log.segment.bytes"),
    _like("segment.index.bytes", "log.index.size.max.bytes"),
    _alone("segment.jitter.ms", SettingType.LONG, 0, 0, MAX_LONG, "How much earlier than segment.ms, at most."),
    _like(
        "segment.ms",
        "log.roll.ms",
        Inherited("log.roll.hours", _HOUR_MS),
        default=168 * _HOUR_MS,
        doc="Age at which a new segment is begun.",
    ),
    _like("unclean.leader.election.enable", "unclean.leader.election.enable"),
)
TOPIC_SETTINGS: Final[Mapping[str, TopicSetting]] = MappingProxyType({each.setting.name: each for each in _ALL})


def parse_topic_configs(configs: Mapping[str, str | None]) -> dict[str, Value]:
    """A topic's own settings, typed. None stands for "not set" and is left out. Raises SettingError."""
    parsed: dict[str, Value] = {}
    for name, text in configs.items():
        entry = TOPIC_SETTINGS.get(name)
        if entry is None:
            raise unknown_setting(name, list(TOPIC_SETTINGS), "topic setting")
        if text is not None:
            parsed[name] = entry.setting.parse(text)
    return parsed
