"""The settings of consumer groups, as a broker makes them of its own and of those that groups have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from actors.coordinator.consumer.settings import ConsumerSettings, Moved

if TYPE_CHECKING:  # a shard's process reads no settings
    from actors.settings import BrokerConfig
    from placement.metadata import ClusterMetadata

_OF_BROKERS: Final = {
    "session_timeout_ms": "group.consumer.session.timeout.ms",
    "min_session_timeout_ms": "group.consumer.min.session.timeout.ms",
    "max_session_timeout_ms": "group.consumer.max.session.timeout.ms",
    "heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms",
    "min_heartbeat_interval_ms": "group.consumer.min.heartbeat.interval.ms",
    "max_heartbeat_interval_ms": "group.consumer.max.heartbeat.interval.ms",
    "assignment_interval_ms": "group.consumer.assignment.interval.ms",
    "min_assignment_interval_ms": "group.consumer.min.assignment.interval.ms",
    "max_assignment_interval_ms": "group.consumer.max.assignment.interval.ms",
    "regex_refresh_interval_ms": "group.consumer.regex.refresh.interval.ms",
    "max_size": "group.consumer.max.size",
    "migration_policy": "group.consumer.migration.policy",
}
_OF_GROUPS: Final = {
    "session_timeout_ms": "consumer.session.timeout.ms",
    "heartbeat_interval_ms": "consumer.heartbeat.interval.ms",
    "assignment_interval_ms": "consumer.assignment.interval.ms",
}


def consumer_settings(config: BrokerConfig, metadata: ClusterMetadata) -> ConsumerSettings:
    """Those in force at a broker."""
    values: dict[str, Any] = {field: config[name] for field, name in _OF_BROKERS.items()}
    from actors.settings.assignors import assignor_names

    values["assignors"] = assignor_names(config["group.consumer.assignors"])
    values["migration_policy"] = values["migration_policy"].lower()
    made = {group_id: _overrides(own) for group_id, own in metadata.group_configs.items()}
    return ConsumerSettings(**values, overrides={group_id: own for group_id, own in made.items() if own})


def _overrides(own: Mapping[str, str]) -> dict[str, int]:
    return {field: int(own[name]) for field, name in _OF_GROUPS.items() if name in own}


def clamped(made: ConsumerSettings, before: ConsumerSettings | None) -> list[str]:
    """Sentences on the values of groups that are not used, because they lie outside the bounds, and were before."""
    known = set() if before is None else set(before.moved())
    return [_clamped(each) for each in made.moved() if each not in known]


def _clamped(moved: Moved) -> str:
    bound = _OF_BROKERS[f"{'max' if moved.used < moved.value else 'min'}_{moved.name}"]
    return f"{_OF_GROUPS[moved.name]} of group {moved.group_id} is {moved.value}; {moved.used} is used, as {bound} says"
