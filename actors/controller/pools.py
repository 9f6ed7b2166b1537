"""The pools that have said what their members do, until the Monitor asks. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from actors.links.pools import PoolFigures

POOLS_MAX: Final = 200
MEMBERS_MAX: Final = 1_000
"""Of each pool."""
KEPT_SECONDS: Final = 30.0
"""A pool that has said nothing for this long has ended."""


class Pools:
    """The last figures of each pool."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[float, PoolFigures]] = {}

    def told(self, figures: PoolFigures, now: float) -> None:
        """A pool has said this. Of too many pools, those are forgotten that have been silent for longest."""
        key = (figures.group_id, figures.pool)
        self._told.pop(key, None)
        self._told[key] = (now, replace(figures, members=figures.members[:MEMBERS_MAX]))
        self._forget(now)

    def present(self, now: float) -> tuple[PoolFigures, ...]:
        """Those that live."""
        self._forget(now)
        return tuple(figures for _, figures in self._told.values())

    def _forget(self, now: float) -> None:
        for key in list(self._too_old(now)):
            del self._told[key]

    def _too_old(self, now: float) -> Iterator[tuple[str, str]]:
        surplus = len(self._told) - POOLS_MAX
        for number, (key, (at, _)) in enumerate(self._told.items()):  # the order is that of `told`
            if number >= surplus and now - at <= KEPT_SECONDS:
                return
            yield key
