"""Batches in a log's files that are no longer what was written: what is known of each, and that it is not read.

Disks flip bits and lose sectors, and say nothing. `checking` finds such batches when they are read; here they are
remembered, so that a read ends before one, and one that begins there is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from actors.log.segment import Segment
from actors.log.segments import Place
from actors.log.walking import BatchAt
from actors.records.errors import CorruptBatchError


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment's file that are not sound batches, and the offsets that they should have."""

    path: Path
    position: int
    size_bytes: int
    first_offset: int
    last_offset: int
    why: str

    @property
    def end(self) -> int:
        """The position after it: the next sound batch, or the end of the file."""
        return self.position + self.size_bytes

    def as_batch(self) -> BatchAt:
        """It, as a batch would be found."""
        return BatchAt(self.position, self.size_bytes, self.first_offset, self.last_offset)

    def __str__(self) -> str:
        offsets = f"offsets {self.first_offset} to {self.last_offset}"
        return f"{offsets} are damaged in {self.path}, {self.size_bytes} bytes at byte {self.position}: {self.why}"


class DamagedBatchError(CorruptBatchError):
    """A read that begins at a damaged batch."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


def tell_nobody(_damage: Damage) -> None:
    """For a log whose owner wants to hear of no damage."""


class Damages:
    """The damages of one log that are known. `on_damage` is called with each new one, in whichever thread finds it.

    They belong to the segments in which they are, and go with these, or with the end that is cut off.
    """

    def __init__(self, on_damage: Callable[[Damage], None] = tell_nobody) -> None:
        self._on_damage = on_damage
        self._known: WeakKeyDictionary[Segment, dict[int, Damage]] = WeakKeyDictionary()

    def __iter__(self) -> Iterator[tuple[Segment, Damage]]:
        """Each that is still there, in no order."""
        return iter([(segment, each) for segment in list(self._known) for each in self._of(segment)])

    def __bool__(self) -> bool:
        return bool(self._known)

    def has(self, segment: Segment, damage: Damage) -> bool:
        """True if a segment still has this damage."""
        return damage in self._of(segment)

    def add(self, segment: Segment, damage: Damage, *, tell: bool = True) -> None:
        """A batch was found to be damaged, perhaps not for the first time."""
        known = self._known.setdefault(segment, {})
        before = known.get(damage.position) if damage.position in segment.damaged else None
        known[damage.position] = damage
        segment.damaged = {**segment.damaged, damage.position: damage.as_batch()}
        if before is None and tell:
            self._on_damage(damage)

    def forget(self, segment: Segment, damage: Damage) -> None:
        """It has been mended."""
        known = self._known.get(segment, {})
        known.pop(damage.position, None)
        segment.damaged = {at: each for at, each in segment.damaged.items() if at != damage.position}
        if not known:
            self._known.pop(segment, None)

    def undamaged(self, place: Place) -> Place:
        """The part of a place before the first known damage in it. DamagedBatchError if there is none."""
        known = self._known.get(place.segment)
        if not known:
            return place
        begin, end = place.position, place.position + place.size_bytes
        for each in self._of(place.segment):
            if each.position <= begin < each.end:
                raise DamagedBatchError(each)
            if begin < each.position < end:
                return place._replace(size_bytes=each.position - begin, next_offset=each.first_offset)
        return place

    def _of(self, segment: Segment) -> list[Damage]:
        """In the order of the file, without those that were cut off with its end."""
        known = self._known.get(segment, {})
        return [known[position] for position in sorted(known) if position in segment.damaged]
