"""The history of a broker's shards, and the counts of those that are gone.

A process says with each PONG what it has counted since it hosts its partition. When it gives up the partition or dies,
its last figures are kept here, so that the sums never fall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from actors.broker.coordinators.link import ShardLink
from actors.links.chronicle import Chronicle
from actors.links.rebalances import Rebalances, Rebalancing
from actors.links.relay import Figures

_MAXIMA: Final = ("replication_wait_max_ms", "load_time_ms")
"""Counters of which the largest counts, not the sum."""


class ShardHistory:
    """The events of all shards, and the sums of their counters."""

    def __init__(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle
        self._happened: Counter[str] = Counter()
        self._gone: Counter[str] = Counter()
        self._errors_gone: Counter[int] = Counter()

    # --- what has happened ---

    def loaded(self, link: ShardLink, *, woken: bool) -> None:
        """A process serves its partition."""
        self._happened["loads"] += 1
        self._happened["wakes"] += woken
        word = "wake" if woken else "load"
        self._note(word, link, f"Process {link.pid} has loaded the partition and serves.")

    def slept(self, link: ShardLink) -> None:
        """A partition falls asleep."""
        self._happened["sleeps"] += 1
        self._note("sleep", link, f"Nobody needs process {link.pid} now: the partition sleeps.")

    def died(self, link: ShardLink) -> None:
        """A process that hosted a partition has died. Its rebalances were cut short."""
        self._happened["deaths"] += 1
        self._note("death", link, f"The partition's process {link.pid} has ended.")
        self._cut_short(link)

    def left(self, link: ShardLink) -> None:
        """A process gives its partition up, which is led elsewhere now, or is loaded again."""
        self._note("unload", link, f"Process {link.pid} no longer serves the partition.")
        self._cut_short(link)

    def _note(self, event: str, link: ShardLink, text: str) -> None:
        topic = link.kind.topic if link.kind is not None else ""
        self._chronicle.note(event, f"{topic}-{link.partition}", text)

    def _cut_short(self, link: ShardLink) -> None:
        for each in link.rebalancing:
            self._chronicle.note_rebalance(each.rebalance)
        link.rebalancing = ()

    def take_rebalances(self, link: ShardLink, rebalances: Rebalances) -> None:
        """A process has told of rebalances."""
        if rebalances.dropped:
            text = f"{rebalances.dropped} rebalances before the next ones were not kept: there were too many at once."
            self._note("missed", link, text)
        for each in rebalances.over:
            self._chronicle.note_rebalance(each)
        link.rebalancing = rebalances.running

    # --- what was counted ---

    def fold(self, link: ShardLink) -> None:
        """Keep what a process has counted for the partition that it had."""
        figures, link.figures = link.figures, None
        if figures is not None:
            _add(self._gone, figures)
            self._errors_gone.update(_errors(figures))

    def counters(self, links: Iterable[ShardLink]) -> dict[str, int]:
        """The counters of all processes, those that are gone included, added up."""
        sums = Counter(self._gone)
        for link in links:
            if link.figures is not None:
                _add(sums, link.figures)
        return {**sums, **{f"shard_{name}": count for name, count in self._happened.items()}}

    def errors(self, links: Iterable[ShardLink]) -> Counter[int]:
        """Answers with errors by API key, likewise."""
        sums = Counter(self._errors_gone)
        for link in links:
            if link.figures is not None:
                sums.update(_errors(link.figures))
        return sums


def running(links: Iterable[ShardLink], most: int) -> tuple[Rebalancing, ...]:
    """The rebalances that run."""
    return tuple(each for link in links for each in link.rebalancing)[:most]


def parked(links: Iterable[ShardLink]) -> Counter[str]:
    """The members that wait at all shards."""
    sums: Counter[str] = Counter()
    for link in links:
        if link.figures is not None:
            sums.update(link.figures.parked)
    return sums


def _add(sums: Counter[str], figures: Figures) -> None:
    for name, count in figures.counters.items():
        sums[name] = max(sums[name], count) if name in _MAXIMA else sums[name] + count


def _errors(figures: Figures) -> Counter[int]:
    return Counter({int(key): count for key, count in figures.errors.items()})
