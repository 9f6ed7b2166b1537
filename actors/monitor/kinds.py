"""What the members of each group are: a pool's, a Spark job's, or other consumers. No clock, no I/O.

It is told by the members that are there, and by pools that tell of themselves. A group without members stays what it
was: a pool that sleeps, or is to be started again, is a pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from actors.coordinator.records import MemberMetadata
from actors.links.pools import PoolFigures
from actors.monitor.offsets_log import FollowedGroup

POOL: Final = "pool"
SPARK: Final = "spark"
CONSUMER: Final = "consumer"
SIMPLE: Final = "simple"
_POOL_CLIENT: Final = re.compile(r"coterie-\d+")
_SPARK_NAME: Final = 200  # characters of the group's name in the client ids of a Spark job
_SPARK_REST: Final = re.compile(r"-[0-9a-f]{8}-\d+")


def kind_of(group: FollowedGroup, known: Mapping[str, str]) -> str:
    """What its members are, as their client ids tell; `known` says what those of other groups were before they went."""
    metadata = group.metadata
    if metadata is None or not metadata.protocol_type:
        return SIMPLE
    if not metadata.members:
        return known.get(group.group_id, CONSUMER)
    return _of_members(group.group_id, metadata.members)


def _of_members(group_id: str, members: Iterable[MemberMetadata]) -> str:
    if all(_is_of_pool(each) for each in members):
        return POOL
    if all(_is_of_spark(each, group_id[:_SPARK_NAME]) for each in members):
        return SPARK
    return CONSUMER


def _is_of_spark(member: MemberMetadata, name: str) -> bool:
    return member.client_id.startswith(name) and bool(_SPARK_REST.fullmatch(member.client_id, len(name)))


def _is_of_pool(member: MemberMetadata) -> bool:
    return bool(member.group_instance_id and _POOL_CLIENT.fullmatch(member.client_id))


class Kinds:
    """The kinds of groups that have or had members. `safe` is what the history has of them."""

    def __init__(self, safe: Mapping[str, str] | None = None) -> None:
        self._known: dict[str, str] = dict(safe or {})
        self._safe: dict[str, str] = dict(safe or {})

    @property
    def known(self) -> Mapping[str, str]:
        """The kind of each group, by its id."""
        return self._known

    def seen(self, groups: Iterable[FollowedGroup], pools: Iterable[PoolFigures]) -> None:
        """All groups at a look. What is known of others is forgotten."""
        told = {each.group_id for each in pools}
        found = {each.group_id: self._kind(each, told) for each in groups}
        self._known = {group_id: kind for group_id, kind in found.items() if kind}

    def _kind(self, group: FollowedGroup, pools: set[str]) -> str:
        if group.metadata is not None and group.metadata.members:
            return kind_of(group, self._known)
        return POOL if group.group_id in pools else self._known.get(group.group_id, "")

    def unsafe(self) -> dict[str, str]:
        """What the history does not have yet; plain consumers need not be in it."""
        before = self._safe
        return {group_id: kind for group_id, kind in self._known.items() if before.get(group_id, CONSUMER) != kind}

    def written(self, kinds: Mapping[str, str]) -> None:
        """The history has these."""
        self._safe = {each: kind for each, kind in (self._safe | dict(kinds)).items() if each in self._known}
