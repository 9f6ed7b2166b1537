"""The settings of consumer groups: the broker's, and those that a group has for itself.

By Kafka's names without `group.consumer.`. Ranges and documentation stand in `actors.settings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

MAX_INT: Final = 2_147_483_647

OVERRIDES: Final = ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms")
"""The settings that a group may have for itself, by `consumer.session.timeout.ms` and so on."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings that hold for one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class Moved(NamedTuple):
    """A value of a group's own, and the one that is used instead."""

    group_id: str
    name: str
    value: int
    used: int


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of a broker. A host hands in others when they change (`messages.NoteSettingsRequest`)."""

    session_timeout_ms: int = 45_000
    min_session_timeout_ms: int = 45_000
    max_session_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 5_000
    min_heartbeat_interval_ms: int = 5_000
    max_heartbeat_interval_ms: int = 15_000
    assignment_interval_ms: int = 1_000
    min_assignment_interval_ms: int = 0
    max_assignment_interval_ms: int = 15_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = MAX_INT
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is that of groups whose members wish for none."""
    overrides: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By group id, its own values of OVERRIDES. A value outside the bounds is moved to the nearest one."""
    migration_policy: str = "bidirectional"
    """The direction in which a group that has members may change its protocol: also `upgrade`, `downgrade` or
    `disabled`.
    """

    @property
    def may_upgrade(self) -> bool:
        """True if a classic group becomes a consumer group when a member of the new protocol joins."""
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """True if a consumer group becomes a classic group when its last member of the new protocol goes."""
        return self.migration_policy in ("bidirectional", "downgrade")

    def moved(self) -> Iterator[Moved]:
        """Values that groups have for themselves, and that are not used, because they lie outside the bounds."""
        for group_id, own in self.overrides.items():
            for name, value in own.items():
                used = self._value(name, own)
                if used != value:
                    yield Moved(group_id, name, value, used)

    def of_group(self, group_id: str) -> GroupSettings:
        """The settings that hold for a group. A key that it does not have follows the broker's."""
        own = self.overrides.get(group_id)
        if own is None:  # nearly always, and each heartbeat asks
            return _kept(self.session_timeout_ms, self.heartbeat_interval_ms, self.assignment_interval_ms)
        return _kept(*(self._value(name, own) for name in OVERRIDES))

    def _value(self, name: str, own: Mapping[str, int]) -> int:
        value: int = getattr(self, name)
        if name not in own:
            return value
        low: int = getattr(self, f"min_{name}")
        high: int = getattr(self, f"max_{name}")
        return max(low, min(own[name], high))


_kept = lru_cache(maxsize=256)(GroupSettings)
