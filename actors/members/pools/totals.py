"""Counts the work of all members of a pool, those included whose places have gone."""

from __future__ import annotations

from collections.abc import Iterable

from actors.links.member_counts import Done
from actors.members.pools.slots import Slot


class Totals:
    """Takes the count of places that go. A place whose thread still hears of its member counts until that has ended."""

    def __init__(self) -> None:
        self._leaving: set[Slot] = set()
        self._done = Done()
        self._handlings = Done()
        self._busy_ms = 0

    def drop(self, slot: Slot) -> None:
        """The place has gone."""
        if slot.heard:
            self._leaving.add(slot)
        else:
            self._keep(slot)

    def heard_out(self, slot: Slot) -> None:
        """Nothing more is heard of the member of this place."""
        slot.heard = False
        if slot in self._leaving:
            self._leaving.discard(slot)
            self._keep(slot)

    def _keep(self, slot: Slot) -> None:
        self._done += slot.done
        self._handlings += slot.handlings
        self._busy_ms += slot.busy_ms

    def done(self, slots: Iterable[Slot]) -> int:
        """The records that are handled or set aside, each once; `slots` are the places there are."""
        return (self._done + sum((slot.done for slot in (*slots, *self._leaving)), Done())).records

    def work(self, slots: Iterable[Slot]) -> tuple[int, float]:
        """The records handled, as often as they were, and the seconds their handlers took."""
        found = (*slots, *self._leaving)
        handled = self._handlings.handled + sum(slot.handlings.handled for slot in found)
        return handled, (self._busy_ms + sum(slot.busy_ms for slot in found)) / 1000
