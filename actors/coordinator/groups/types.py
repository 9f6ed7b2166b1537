"""The parts of a type of group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.records import RecordType
from actors.coordinator.turn import Handle, Now


@dataclass(frozen=True, slots=True)
class Requests:
    """The handlers of requests, by the requests' types."""

    handlers: Mapping[type, Handle]
    entry_errors: Mapping[type, Callable[[Any], Error]] = field(default_factory=dict)
    """The error of a request that no group would take. It comes before the error that the shard does not serve."""
    while_loading: Mapping[type, Callable[[Any], Any]] = field(default_factory=dict)
    """The answer while the shard loads, where it is not COORDINATOR_LOAD_IN_PROGRESS."""
    parked: Mapping[str, type] = field(default_factory=dict)
    """The types of requests that members may have parked, with the names under which they are counted."""


class Operations(Protocol):
    """The work that one shard does for the groups of one type."""

    @property
    def requests(self) -> Requests:
        """The handlers of the type's own requests."""

    def resume(self, group_id: str, persisted: Any, now: Now) -> None:
        """Put the live group of what was loaded among the runtime's groups, and set its timers."""

    def forget(self) -> None:
        """The shard is unloaded, and may be loaded again. Drop all that is known beside groups, but for settings."""


class GroupType(Protocol):
    """One type of group."""

    @property
    def name(self) -> str:
        """Kafka's name, in lower case as ListGroups has it."""

    @property
    def record_types(self) -> Sequence[RecordType]:
        """The types of the records that describe its groups."""

    def operations(self, runtime: GroupRuntime) -> Operations:
        """The operations of a new shard for groups of this type."""


Bridge = Callable[[GroupRuntime, Mapping[str, Operations]], None]
"""Tells what a shard does for groups of some types, by their names, how the groups of one become those of another."""
