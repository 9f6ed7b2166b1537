"""The rows of the metrics about pools and their members' handlers, as the pools have told them. No clock, no I/O.

A pool tells every cluster on its Ray. It is shown by the one whose group has its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from actors.coordinator.groups.durable import Persisted
from actors.links.pools import MemberFigures, PoolFigures
from actors.monitor.metric_table import Row

Family = tuple[str, Iterable[Row]]
_FIGURES: Final[tuple[tuple[str, Callable[[MemberFigures], float]], ...]] = (
    ("coterie_pool_member_handled_total", lambda each: each.handled),
    ("coterie_pool_member_dead_letters_total", lambda each: each.dead_letters),
    ("coterie_pool_member_restarts_total", lambda each: each.restarts),
    ("coterie_pool_member_busy_seconds_total", lambda each: each.busy_ms / 1000),
    ("coterie_pool_member_handling_seconds", lambda each: each.handling_ms / 1000),
)


def pool_families(pools: Iterable[PoolFigures], groups: Mapping[str, Persisted | None]) -> Iterator[Family]:
    """All about the pools that have members in one of these groups."""
    shown = [(pool, present) for pool in pools if (present := _present(pool, groups.get(pool.group_id)))]
    sizes: dict[str, int] = {}
    for pool, _ in shown:
        sizes[pool.group_id] = sizes.get(pool.group_id, 0) + len(pool.members)
    yield "coterie_pool_members", [((group,), float(size)) for group, size in sizes.items()]
    for name, figure in _FIGURES:
        yield (
            name,
            [((pool.group_id, each.instance_id), float(figure(each))) for pool, present in shown for each in present],
        )


def _present(pool: PoolFigures, group: Persisted | None) -> list[MemberFigures]:
    """Those of its members that the group has."""
    if group is None:
        return []
    known = {member.group_instance_id for member in group.members}
    return [each for each in pool.members if each.instance_id in known]
