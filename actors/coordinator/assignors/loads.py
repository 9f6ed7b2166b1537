"""The loads of members, in partitions, and the subscribers of a topic with the fewest and the most.

The order among members that have equally many is Kafka's. Its subscribers of a topic stand in a row by their number of
partitions, then by member. `Lightest` gives one partition each to those that have fewest, from left to right; when all
of these have one more, they and those that had as many already take turns again from the left. `Heaviest` takes from
those that have most in the same way, from right to left, and passes over those that have none of the topic to give.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import chain

from actors.coordinator.assignors.subscribers import Subscribers


class Loads:
    """The number of partitions of each member. `places` have it for sorting: number * members + member."""

    __slots__ = ("_base", "_places", "_subscribers", "sizes")

    def __init__(self, subscribers: Subscribers, sizes: list[int]) -> None:
        self._subscribers = subscribers
        self.sizes = sizes
        self._base = len(sizes)
        self._places = [sorted(map(self._place, members)) for members in subscribers.classes]

    def row(self, topic: bytes) -> Row:
        """The subscribers of a topic, those with fewest partitions first."""
        places = [self._places[number] for number in self._subscribers.by_topic[topic]]
        return Row(sorted(chain.from_iterable(places)), self._base)

    def spread(self, topic: bytes) -> int:
        """The difference between the loads of a topic's subscribers."""
        places = [self._places[number] for number in self._subscribers.by_topic[topic]]
        return max(each[-1] for each in places) // self._base - min(each[0] for each in places) // self._base

    def moved(self, changes: Iterable[tuple[int, int]]) -> None:
        """Members have so many partitions more, or fewer."""
        totals: dict[int, int] = {}
        for member, change in changes:
            totals[member] = totals.get(member, 0) + change
        for member, change in totals.items():
            places = self._places[self._subscribers.class_of[member]]
            del places[bisect_left(places, self._place(member))]
            self.sizes[member] += change
            insort(places, self._place(member))

    def _place(self, member: int) -> int:
        return self.sizes[member] * self._base + member


class Row:
    """The subscribers of one topic by their number of partitions, as it was when the row was made."""

    __slots__ = ("_base", "_places")

    def __init__(self, places: list[int], base: int) -> None:
        self._places = places
        self._base = base

    def __len__(self) -> int:
        return len(self._places)

    def member(self, index: int) -> int:
        return self._places[index] % self._base

    def size(self, index: int) -> int:
        return self._places[index] // self._base

    def swap(self, one: int, other: int) -> None:
        self._places[one], self._places[other] = self._places[other], self._places[one]


class Lightest:
    """Chooses the member that gets the next partition."""

    __slots__ = ("_end", "_next", "_row", "level")

    def __init__(self, row: Row) -> None:
        self._row = row
        self._next = self._end = 0
        self.level = row.size(0) - 1
        """The number of partitions that those who take turns had before this round."""

    def take(self) -> int:
        if self._next >= self._end:
            self.level += 1
            while self._end < len(self._row) and self._row.size(self._end) == self.level:
                self._end += 1
            self._next = 0
        self._next += 1
        return self._row.member(self._next - 1)


class Heaviest:
    """Chooses the member that gives up the next partition."""

    __slots__ = ("_end", "_next", "_row", "_start", "level")

    def __init__(self, row: Row) -> None:
        self._row = row
        self._start = self._end = len(row)
        self._next = len(row) - 1
        self.level = row.size(len(row) - 1) + 1
        """The number of partitions that those who take turns had before this round."""

    def take(self) -> int | None:
        """None if nobody is left that has anything to give."""
        if self._next < self._start:
            self._widen()
        if self._next < 0:
            return None
        self._next -= 1
        return self._row.member(self._next + 1)

    def exclude(self) -> None:
        """The member that was taken last has nothing to give."""
        self._end -= 1
        self._row.swap(self._next + 1, self._end)

    def _widen(self) -> None:
        nobody = self._end <= self._start
        self.level = self._row.size(self._start - 1) if nobody and self._start else self.level - 1
        while self._start and self._row.size(self._start - 1) == self.level:
            self._start -= 1
        self._next = self._end - 1
