"""Time and chance of one run, and the parameters that its seed has chosen."""

from __future__ import annotations

import heapq
import itertools
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random


class ViolationError(Exception):
    """Something that must hold does not."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters that differ from run to run."""

    voters: int
    """With so many the quorum begins."""
    nodes: int
    lost: float
    """The share of messages that is lost, and of those that come twice."""
    delay_s: float
    straggling: float
    """The share of messages that come seconds late."""
    faults_s: float
    between_faults_s: float
    snapshot_every: int
    most_entries: int
    changes: bool
    """Voters that could stay are removed, too."""
    ambushes: float
    """The share of elections after which all goes wrong for the new leader."""


def scenario_of(random: Random) -> Scenario:
    return _ambushed(random) if random.random() < 0.25 else _any(random)


def _ambushed(random: Random) -> Scenario:
    """Few faults but those of new leaders: one leader follows the other, each with entries that few nodes have."""
    return Scenario(
        *(5, 5),
        lost=0.0,
        delay_s=0.03,
        straggling=0.0,
        faults_s=60,
        between_faults_s=8.0,
        snapshot_every=random.choice((20, 1000)),
        most_entries=1,
        changes=False,
        ambushes=0.95,
    )


def _any(random: Random) -> Scenario:
    voters = random.choice((1, 3, 3, 3, 5, 5))
    return Scenario(
        voters,
        min(voters + random.randint(0, 2), 6),
        lost=random.choice((0.0, 0.02, 0.1)),
        delay_s=random.choice((0.005, 0.03, 0.1)),
        straggling=random.choice((0.0, 0.01, 0.05)),
        faults_s=random.uniform(20, 50),
        between_faults_s=random.choice((0.4, 1.0, 2.5)),
        snapshot_every=random.choice((5, 20, 1000)),
        most_entries=random.choice((1, 3, 500)),
        changes=random.random() < 0.6,
        ambushes=random.choice((0.0, 0.3, 0.7)),
    )


class World:
    """The one true time (s), the queue of events, and chance. All events go into `digest`."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.random = Random(seed)
        self.scenario = scenario_of(self.random)
        self.now = 0.0
        self.digest = 0
        self.figures: Counter[str] = Counter()
        self._trace = trace
        self._numbers = itertools.count()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, delay_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_s, next(self._numbers), do))

    def every(self, least_s: float, most_s: float, do: Callable[[], None]) -> None:
        """Do something again and again, for as long as the run lasts."""

        def again() -> None:
            do()
            self.after(self.random.uniform(least_s, most_s), again)

        self.after(self.random.uniform(least_s, most_s), again)

    def run_until(self, until: float, done: Callable[[], bool] | None = None) -> bool:
        """Let time pass until then, or until it is done; True if it is."""
        looked_at = self.now
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heapq.heappop(self._queue)
            do()
            if done is not None and self.now - looked_at > 0.05:
                looked_at = self.now
                if done():
                    return True
        self.now = until
        return done is not None and done()

    def say(self, text: str) -> None:
        self.digest = zlib.crc32(text.encode(), self.digest)
        if self._trace:
            sys.stdout.write(f"{self.now:9.4f} {text}\n")

    def note(self, figure: str) -> None:
        self.figures[figure] += 1
