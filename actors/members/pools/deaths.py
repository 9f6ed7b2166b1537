"""A pool's notes of records that were in hand when a member's process died. No I/O, no clock.

Deaths count against records, and not against members: a rebalance may have taken the records elsewhere. One death may
be anybody's fault, and so may two, by chance. After two (`ALONE_AFTER`) the records are tried one by one, with nothing
else in hand; only a record that was tried so, and whose process died again, is set aside. A note ends when the group's
offset has passed its records, or when their topic was deleted: one that is made anew under its name has another id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from actors.links.member_deaths import ALONE_AFTER, Committed, InHand, Note, Notes, Span

_TEXT_MAX: Final = 500
_Place = tuple[str, int, bytes]
"""A topic, a partition, and the topic's id."""


class Deaths:
    """The notes of one pool. `number` rises with each change."""

    def __init__(self, notes: Iterable[Note] = ()) -> None:
        self.number = 0
        self._notes: dict[_Place, list[Note]] = {}
        for note in filter(_sensible, notes):
            self._notes.setdefault(_place(note.span), []).append(note)

    @property
    def notes(self) -> Notes:
        """All of them, by partition and offset."""
        return Notes(self.number, tuple(note for place in sorted(self._notes) for note in self._notes[place]))

    def count(self, in_hand: InHand, how: str) -> None:
        """A process has died with these records in hand, and `how` says in words how."""
        for span in in_hand.spans:
            place = _place(span)
            self._drop_namesakes(place)
            self._notes[place] = _counted(self._notes.get(place, []), span, how[:_TEXT_MAX] if in_hand.alone else None)
        self.number += 1

    def passed(self, committed: Committed) -> bool:
        """These records do not come again. Returns whether anything was noted of them."""
        place = (committed.topic, committed.partition, committed.topic_id)
        dropped = self._drop_namesakes(place)
        before = self._notes.get(place, [])
        after = [cut for note in before if (cut := _from(note, committed.offset)) is not None]
        if after:
            self._notes[place] = after
        else:
            self._notes.pop(place, None)
        changed = dropped or after != before
        self.number += changed
        return changed

    def _drop_namesakes(self, place: _Place) -> bool:
        """Drop what is noted of other topics that had this one's name. Returns whether that was anything."""
        over = [each for each in self._notes if each[:2] == place[:2] and each != place]
        for each in over:
            del self._notes[each]
        return bool(over)

    def forget(self) -> None:
        """Everything begins anew: there is another handler, most likely."""
        if self._notes:
            self._notes.clear()
            self.number += 1


def _sensible(note: Note) -> bool:
    return 0 <= note.span.first < note.span.next_offset and note.deaths > 0


def _place(span: Span) -> _Place:
    return span.topic, span.partition, span.topic_id


def _from(note: Note, offset: int) -> Note | None:
    """The rest of a note from this offset on; None if nothing is left of it."""
    if note.span.next_offset <= offset:
        return None
    return note if note.span.first >= offset else replace(note, span=replace(note.span, first=offset))


def _counted(notes: Sequence[Note], span: Span, alone: str | None) -> list[Note]:
    """The notes of a partition with one more death for the records of a span.

    `alone` says how the process died that had nothing else in hand. A record that was not to be tried so is not blamed.
    """
    edges = {span.first, span.next_offset}
    for note in notes:
        edges |= {note.span.first, note.span.next_offset}
    ordered = sorted(edges)
    found: list[Note] = []
    for first, after in pairwise(ordered):
        before = next((n for n in notes if n.span.first <= first < n.span.next_offset), None)
        more = span.first <= first < span.next_offset
        if before is not None or more:
            deaths, died = (before.deaths, before.died) if before is not None else (0, None)
            died = alone if more and alone is not None and deaths >= ALONE_AFTER else died
            _append(found, Note(replace(span, first=first, next_offset=after), deaths + more, died))
    return found


def _append(notes: list[Note], note: Note) -> None:
    """Append it, or have the last one reach as far if it says the same."""
    last = notes[-1] if notes else None
    if last is None or last.span.next_offset != note.span.first or last.deaths != note.deaths or last.died or note.died:
        notes.append(note)
    else:
        notes[-1] = replace(last, span=replace(last.span, next_offset=note.span.next_offset))
