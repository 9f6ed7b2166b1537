"""Reports of shards on groups, by type: the classes that go over the relay and the control link.

Kafka's protocol has no place for this. The status of a group is asked for by `Kind.DESCRIBE` on the relay, and by
`LookAtGroup` on the control link; rebalances come by themselves (`rebalances`).

A type of group that tells no more than all types do needs nothing here. The classes of one that does have a tag each,
in `GROUP_CLASSES`. Classic groups' have none: they travel as they did when there was no other type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from actors.coordinator.classic.reports import ClassicRebalanceView
from actors.coordinator.classic.reports import ClassicStatus as ClassicStatus
from actors.coordinator.groups.reports import GroupStatus as GroupStatus
from actors.coordinator.groups.reports import PlainRebalanceView, RebalanceView
from actors.coordinator.groups.reports import PlainStatus as PlainStatus
from actors.coordinator.groups.reports import RebalanceEvent as RebalanceEvent

GroupReport: TypeAlias = GroupStatus | RebalanceView

GROUP_CLASSES: Final[Mapping[int, type[GroupReport]]] = {
    300: PlainStatus,
    301: PlainRebalanceView,
}
"""The tags on both links, beside those of their messages. A type that tells more adds its classes."""

GROUP_CLASSES_SINCE: Final[Mapping[type, int]] = dict.fromkeys(GROUP_CLASSES.values(), 1)
"""The version of our protocols that each of them came with (`versions`)."""

WITHOUT_TAG: Final[Mapping[type, type]] = {RebalanceView: ClassicRebalanceView}
"""The class of a value without a tag, by the class of the field that holds it."""
