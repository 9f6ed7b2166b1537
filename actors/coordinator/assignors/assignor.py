"""The input and the result of an assignor.

A topic is its 16-byte id throughout. Nothing here knows groups, epochs or records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

Target = Mapping[str, Mapping[bytes, frozenset[int]]]
"""The partitions of each member, by topic. Every member of the group is in it, also one that gets nothing."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as an assignor sees it."""

    rack: str | None
    instance_id: str | None
    topics: frozenset[bytes]
    """The topics that it subscribes, of those that exist."""
    assigned: Mapping[bytes, frozenset[int]]
    """Its previous target, which is not necessarily what it holds."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[bytes, int]
    """The number of partitions of each topic that any member subscribes."""
    homogeneous: bool
    """True if all members subscribe the same topics."""
    leaders: Mapping[bytes, tuple[str, ...]] = field(default_factory=dict)
    """The rack of each partition's leader by topic, empty where it is not known; no topics if racks do not count."""


class Assignor(Protocol):
    """Decides which member shall have which partitions."""

    name: str

    def assign(self, group: GroupSpec) -> Target:
        """The target. It depends on nothing but the group, and not on the order of its mappings."""
