"""The table of topic settings: Kafka's keys, and the broker settings that each falls back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from actors.settings.broker import SETTINGS
from actors.settings.kinds import MAX_LONG, Inherited, Setting

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


def _like(name: str, broker: str, *more: Inherited, **changes: object) -> Setting:
    """A topic setting with the type, range and meaning of a broker setting."""
    source = SETTINGS[broker]
    inherits = (Inherited(broker), *more)
    fields: dict[str, object] = {"name": name, "nullable": False, "dynamic": True, "inherits": inherits, **changes}
    return replace(source, **fields)  # type: ignore[arg-type]


_ALL: Final = (
    _like("cleanup.policy", "log.cleanup.policy", drops_repeats=True),
    _like("compression.type", "compression.type"),
    _like("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _like("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    _like("flush.messages", "log.flush.interval.messages"),
    _like("flush.ms", "log.flush.interval.ms", Inherited("log.flush.scheduler.interval.ms"), default=MAX_LONG, low=0),
    _like("index.interval.bytes", "log.index.interval.bytes"),
    _like("internal.segment.bytes", "internal.segment.bytes", nullable=True),
    _like("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _like("max.decompressed.message.bytes", "max.decompressed.message.bytes"),
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
    _like(
        "segment.jitter.ms",
        "log.roll.jitter.ms",
        Inherited("log.roll.jitter.hours", _HOUR_MS),
        default=0,
        doc="The most by which a segment may end earlier than segment.ms.",
    ),
    _like(
        "segment.ms",
        "log.roll.ms",
        Inherited("log.roll.hours", _HOUR_MS),
        default=168 * _HOUR_MS,
        doc="Age at which a new segment is begun.",
    ),
    _like("unclean.leader.election.enable", "unclean.leader.election.enable"),
)
TOPIC_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType({each.name: each for each in _ALL})
