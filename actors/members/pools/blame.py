"""Deaths of members, counted against the records that were in hand, and what members and pool tell each other of it.

`deaths` has the notes, and what follows from them. This module says which deaths count, and tells members of the notes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from actors.links.member_counts import Committing
from actors.links.member_deaths import Committed, InHand, Note, Notes
from actors.members.logs.journal import Journal
from actors.members.pools.deaths import Deaths
from actors.members.pools.slots import Slot, Started

_HOW_SECONDS: Final = 5.0  # Ray knows of a process's death within a hundredth of that
_NAMED: Final = 5  # places of records in one line
_OVER: Final = ("Stopped", "Failed")
_LEASE_OVER: Final = (
    "its supervisor had not reached it for some seconds, so it has ended itself: that counts against no record"
)


class Blame:
    """The deaths of one pool's members. `changed` guards them and the slots; `slots` are those there are."""

    def __init__(
        self,
        notes: Iterable[Note],
        changed: threading.Condition,
        slots: Callable[[], Iterable[Slot]],
        journal: Journal,
        monotonic: Callable[[], float],
    ) -> None:
        self._deaths = Deaths(notes)
        self._changed = changed
        self._slots = slots
        self._journal = journal
        self._monotonic = monotonic

    @property
    def notes(self) -> Notes:
        """All present notes."""
        with self._changed:
            return self._deaths.notes

    def count(self, slot: Slot) -> bool:
        """Count the death of a slot's member. Returns whether it had records in hand that it counts against.

        A death that no record can cause, such as that of a node, does not count; nor does one that nobody can tell from
        such a death, nor a kill for a hook that took too long.
        """
        now_s = self._monotonic()
        with self._changed:
            in_hand, actor = slot.in_hand, slot.actor
            by_hook = bool(slot.killed and slot.report.in_hook)
            expected = slot.retired or slot.renewing or slot.lost or slot.report.state in _OVER
        if expected or by_hook or actor is None or not in_hand.spans:
            return False
        how = f"its pool killed it: {slot.killed}" if slot.killed else self._how(slot, actor, now_s)
        if how is None:
            return False
        with self._changed:
            self._deaths.count(in_hand, f"pid {slot.pid} on node {slot.node_id[:12]}: {how}")
        self._journal.note(slot.number, _said(in_hand, how))
        self._tell()
        return True

    def _how(self, slot: Slot, actor: Started, now_s: float) -> str | None:
        """The end of the process in words; None if that says nothing of its records."""
        if slot.lease.may_have_ended(now_s):
            self._journal.note(slot.number, _LEASE_OVER)
            return None
        try:
            return actor.how_it_died(_HOW_SECONDS)
        except TimeoutError as error:
            self._journal.note(slot.number, f"{error}: its death counts against no record")
            return None

    def forget(self) -> None:
        """All records are as good as any again: there is another handler."""
        with self._changed:
            self._deaths.forget()
        self._tell()

    def hear(self, slot: Slot, said: InHand | Committed | Committing) -> None:
        """A member says which records it has in hand, how many it commits, or which noted ones do not come again."""
        with self._changed:
            if isinstance(said, Committing):
                slot.commits(said.done)
                return
            if isinstance(said, InHand):
                slot.in_hand = said
                slot.report = replace(slot.report, handled=said.handled, dead_letters=said.dead_letters)
                return
            passed = self._deaths.passed(said)
        if passed:
            self._tell()

    def _tell(self) -> None:
        """Have all members know what is noted."""
        with self._changed:
            notes = self._deaths.notes
            links = [slot.link for slot in self._slots() if slot.link is not None]
        for link in links:
            link.learn(notes)


def _said(in_hand: InHand, how: str) -> str:
    named = [f"{s.topic}-{s.partition} offsets {s.first} to {s.next_offset - 1}" for s in in_hand.spans[:_NAMED]]
    more = len(in_hand.spans) - len(named)
    places = ", ".join(named) + (f" and {more} more" if more else "")
    return f"{how}; it had in hand{', and nothing else' if in_hand.alone else ''}: {places}"
