"""The kinds of groups by their members: a pool's, a Spark job's, or other consumers. No clock, no I/O.

It is told by the members that are there, and by pools that tell of themselves. A group without members stays what it
was: a pool that sleeps, or is to be started again, is a pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.links.member_kinds import CONSUMER, POOL, SIMPLE, kind_of_members
from actors.links.pools import PoolFigures
from actors.monitor.offsets_log import FollowedGroup


def kind_of(group: FollowedGroup, known: Mapping[str, str]) -> str:
    """The kind of a group, by its members' client ids; `known` has the kinds of groups before members went."""
    if not group.protocol_type:
        return SIMPLE
    if not group.members:
        return known.get(group.group_id, CONSUMER)
    return kind_of_members(group.group_id, group.members)


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
        """All groups at a look. Other groups are forgotten."""
        told = {each.group_id for each in pools}
        found = {each.group_id: self._kind(each, told) for each in groups}
        self._known = {group_id: kind for group_id, kind in found.items() if kind}

    def _kind(self, group: FollowedGroup, pools: set[str]) -> str:
        if group.members:
            return kind_of(group, self._known)
        return POOL if group.group_id in pools else self._known.get(group.group_id, "")

    def unsafe(self) -> dict[str, str]:
        """The kinds that the history does not have yet; plain consumers need not be in it."""
        before = self._safe
        return {group_id: kind for group_id, kind in self._known.items() if before.get(group_id, CONSUMER) != kind}

    def written(self, kinds: Mapping[str, str]) -> None:
        """The history has these."""
        self._safe = {each: kind for each, kind in (self._safe | dict(kinds)).items() if each in self._known}
