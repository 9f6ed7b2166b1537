"""The settings of consumer groups, as a broker makes them of its own and of those that groups have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from actors.coordinator.consumer.settings import OVERRIDES, ConsumerSettings

if TYPE_CHECKING:  # a shard's process reads no settings
    from actors.settings import BrokerConfig
    from placement.metadata import ClusterMetadata

_OF_GROUPS: Final = {f"consumer.{field.replace('_', '.')}": field for field in OVERRIDES}
"""The fields by the names that these settings of a group have."""


def consumer_settings(config: BrokerConfig, metadata: ClusterMetadata) -> ConsumerSettings:
    """Those in force at a broker."""
    named = {field.name: f"group.consumer.{field.name.replace('_', '.')}" for field in fields(ConsumerSettings)}
    values: dict[str, Any] = {field: config[name] for field, name in named.items() if field != "overrides"}
    values["assignors"] = tuple(values["assignors"])
    made = {group_id: _overrides(own) for group_id, own in metadata.group_configs.items()}
    return ConsumerSettings(**values, overrides={group_id: own for group_id, own in made.items() if own})


def _overrides(own: Mapping[str, str]) -> dict[str, int]:
    return {field: int(own[name]) for name, field in _OF_GROUPS.items() if name in own}
