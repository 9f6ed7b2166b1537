"""The types of groups that a shard of `__consumer_offsets` knows. A new type is a room, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.type import Classic
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.type import DEFAULTS, Consumer
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.coordinator import GroupCoordinator
from actors.coordinator.groups.offset_records import OFFSET_RECORDS
from actors.coordinator.groups.types import GroupType
from actors.coordinator.migration.bridge import migration
from actors.coordinator.records import RecordTypes
from actors.coordinator.runtime import Runtime
from actors.coordinator.shard import Shard


def group_types(consumer: ConsumerSettings = DEFAULTS) -> Sequence[GroupType]:
    """The types, with the settings that a shard begins with."""
    return (Classic(), Consumer(settings=consumer))


GROUP_TYPES: Sequence[GroupType] = group_types()

GROUP_RECORDS = RecordTypes((*OFFSET_RECORDS, *(each for known in GROUP_TYPES for each in known.record_types)))
"""The types of the records of `__consumer_offsets`, with their decoders."""

GroupShard = Shard[GroupCoordinator]


def group_shard(
    config: CoordinatorConfig, new_id: Callable[[], str], types: Sequence[GroupType] = GROUP_TYPES
) -> GroupShard:
    """Make a shard of `__consumer_offsets`. `new_id` makes UUIDs for member ids."""

    def make(host: Runtime) -> GroupCoordinator:
        return GroupCoordinator(host, config, new_id, types, ClassicGroup, (migration,))

    return Shard(config.write_limits, make)
