"""The happenings that a process remembers until a Monitor asks: numbered, and only so many of them.

A process begins with number 1. The last number never falls while it runs, and what is dropped is counted by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from actors.coordinator.groups.reports import RebalanceView
from actors.links.observations import ANSWER_MAX, Happenings, NumberedRebalance
from actors.links.views import Event

KEPT_MAX: Final = 4_096


class Chronicle:
    """The last happenings of one process. `wall_ms` is its wall clock; what it says first names the run."""

    def __init__(self, wall_ms: Callable[[], int], kept_max: int = KEPT_MAX) -> None:
        self._wall_ms = wall_ms
        self.run = wall_ms()
        self.last = 0
        """The number of the newest."""
        self._kept: deque[Event | NumberedRebalance] = deque(maxlen=kept_max)

    def note(self, kind: str, subject: str, text: str) -> None:
        """Something has happened now. `Event` says what the words mean."""
        self.last += 1
        self._kept.append(Event(self.last, self._wall_ms(), kind, subject, text))

    def note_rebalance(self, rebalance: RebalanceView) -> None:
        """A rebalance is over."""
        self.last += 1
        self._kept.append(NumberedRebalance(self.last, rebalance))

    def since(self, run: int, after: int) -> Happenings:
        """The happenings after `after`, if that is a number of this run; else all that are kept. At most ANSWER_MAX."""
        first = self.last - len(self._kept) + 1
        begin = min(after, self.last) if run == self.run else 0
        found = list(islice(self._kept, max(begin + 1 - first, 0), max(begin + 1 - first, 0) + ANSWER_MAX))
        return Happenings(
            self.run,
            upto=found[-1].number if found else self.last,
            last=self.last,
            missed=max(first - begin - 1, 0),
            events=tuple(each for each in found if isinstance(each, Event)),
            rebalances=tuple(each for each in found if isinstance(each, NumberedRebalance)),
        )
