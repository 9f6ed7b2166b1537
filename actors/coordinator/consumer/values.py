"""The members of a consumer group, as its records have them. Values: nothing here changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. No topic is there without any."""

Held = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with its assignment epoch: the group's when it entered the member's assigned set."""

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

CONSUMER = "consumer"
"""The type's name, and the protocol type of its groups."""


class MemberState(IntEnum):
    """The stages of a member on its way to its target. The numbers are those of its record."""

    STABLE = 0
    """It has what its target says, or begins to go there with its next heartbeat. Ends when the target changes."""
    UNREVOKED_PARTITIONS = 1
    """It has been told to give partitions back. Ends when it says that it has, or with its rebalance timer."""
    UNRELEASED_PARTITIONS = 2
    """Others still hold partitions of its target. Ends when these have been given back."""
    UNKNOWN = 127
    """Written by a later version. Ends when the member says that it holds nothing."""


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The further metadata of a member that speaks the classic protocol."""

    session_timeout_ms: int = 0
    protocols: tuple[tuple[str, bytes], ...] = ()
    """Names and metadata, in the member's order."""


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """The metadata that a member has sent."""

    client_id: str = ""
    client_host: str = ""
    """As Java writes addresses: `/127.0.0.1`."""
    instance_id: str | None = None
    rack_id: str | None = None
    names: frozenset[str] = frozenset()
    regex: str = ""
    """Empty: it has none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    """The server assignor that it wishes for."""
    classic: ClassicMetadata | None = None
    """None for a member of the new protocol."""


@dataclass(frozen=True, slots=True)
class Current:
    """The partitions that a member holds, and its epochs."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    """The partitions that it may use."""
    pending: Held = field(default_factory=dict)
    """The partitions that were taken from it, and that it has not given back yet."""


NEW = Current()
"""A member before its first record."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that a regular expression matched."""

    topics: frozenset[str]
    version: int
    """Of the cluster's metadata."""
    timestamp_ms: int
    """The time at which its resolution began."""


def count_of(partitions: Partitions | Held) -> int:
    """The number of these partitions."""
    return sum(map(len, partitions.values()))


def partitions_of(held: Held) -> dict[bytes, frozenset[int]]:
    """The partitions without their assignment epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in held.items()}


def held_at(held: Held, epoch: int) -> dict[bytes, dict[int, int]]:
    """The same partitions, all with one assignment epoch."""
    return {topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in held.items()}
