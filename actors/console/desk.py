"""A visitor's work at the brokers: looking at records, and moving the offsets of groups. It is done as him."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from actors import OutsideError
from actors.client.admin.offset_plans import Log
from actors.client.records import ConsumerRecord, TopicPartition

Aim = Literal["earliest", "latest", "offset", "shift", "time", "duration"]


class DeskError(OutsideError):
    """It cannot be done, or he may not. The text is for people."""


class LoggedOutError(DeskError):
    """The brokers do not accept his name and password any more."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A reset that somebody wants: of these topics (none: all that have offsets), to `aim`, which `value` completes."""

    group_id: str
    topics: tuple[str, ...]
    aim: Aim
    value: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a reset: the present and the new offset of each partition, and its log."""

    wish: Wish
    offsets: dict[TopicPartition, int]
    committed: dict[TopicPartition, int]
    logs: dict[TopicPartition, Log]
    warnings: tuple[str, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Rights:
    """A visitor's rights to see: None stands for everything there is."""

    groups: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    cluster: bool = True
    """True if he sees the processes of the cluster, and what happens to them."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a partition as they came, and the ends of its log."""

    log: Log
    records: tuple[ConsumerRecord, ...]


class Desk(Protocol):
    """A visitor's own way to the brokers. All methods raise DeskError."""

    async def rights(self) -> Rights:
        """The views that he may see. Raises LoggedOutError once he is no user any more."""
        ...

    async def sees_settings(self, topic: str) -> bool:
        """True if he may describe the settings of a topic."""
        ...

    async def records(self, partition: TopicPartition, start: int | None, count: int) -> Records:
        """At most `count` records from `start` on, or the last ones if it is None."""
        ...

    async def preview(self, wish: Wish) -> Preview:
        """The effect that a reset would have now."""
        ...

    async def reset(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        """Commit these offsets for a group that has no members."""
        ...

    async def close(self) -> None:
        """Close his connections."""
        ...
