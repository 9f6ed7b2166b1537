"""Brokers that give up all they hold: who takes it over, with one move for each replica. Pure rules.

`spread` moves whatever makes brokers even; here nothing else moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from placement.spread import Key, Racks


def vacated(
    placed: Mapping[Key, Sequence[int]], gone: Collection[int], takers: Collection[int], racks: Racks
) -> dict[Key, tuple[int, ...]]:
    """New replicas, the preferred leader first, of each partition that has one of those `gone` in its replicas.

    `placed` are the replicas of all partitions, `takers` the brokers that can take replicas over now, `racks` those of
    all brokers; if one has none, none counts. A replica goes to a rack in which the partition has none, if it can; then
    to the broker with the fewest of the topic, then with the fewest in all. Others keep their order; a partition whose
    first replica goes is to be led by the one of the others that leads the fewest. Partitions for which there are too
    few takers are left out, and those that would be in fewer racks only because a broker that stays is no taker now.
    """
    plan = _Plan(placed, gone, sorted(set(takers) - set(gone)), racks)
    found: dict[Key, tuple[int, ...]] = {}
    for key in sorted(placed):
        if not set(gone).isdisjoint(placed[key]):
            replicas = plan.moved(key)
            if replicas is not None:
                found[key] = replicas
    return found


class _Plan:
    """The load of the brokers that may take replicas over, while the plan is made."""

    def __init__(
        self, placed: Mapping[Key, Sequence[int]], gone: Collection[int], takers: Sequence[int], racks: Racks
    ) -> None:
        self._placed = placed
        self._gone = gone
        self._takers = takers
        self._racks = dict.fromkeys(racks) if None in racks.values() else racks
        self._staying = [broker for broker in self._racks if broker not in gone]
        self._held = Counter(broker for replicas in placed.values() for broker in replicas)
        self._held_of = Counter((key[0], broker) for key, replicas in placed.items() for broker in replicas)
        self._led = Counter(replicas[0] for replicas in placed.values())
        self._led_of = Counter((key[0], replicas[0]) for key, replicas in placed.items())

    def moved(self, key: Key) -> tuple[int, ...] | None:
        """The new replicas of a partition; None if those that it needs cannot take one over now."""
        former, gone = self._placed[key], self._gone
        replicas = [broker for broker in former if broker not in gone]
        wanted = min(self._racks_of(former), self._racks_at_best(replicas, len(former)))
        while len(replicas) < len(former):
            left = [broker for broker in self._takers if broker not in replicas]
            if not left:
                return None
            replicas.append(min(left, key=lambda broker: self._rank(key[0], broker, replicas)))
        if self._racks_of(replicas) < wanted:
            return None
        if former[0] in gone:
            first = min(replicas, key=lambda broker: (self._led_of[key[0], broker], self._led[broker]))
            replicas = [first, *(broker for broker in replicas if broker != first)]
            self._led.update((first,))
            self._led_of.update(((key[0], first),))
        new = [broker for broker in replicas if broker not in former]
        self._held.update(new)
        self._held_of.update((key[0], broker) for broker in new)
        return tuple(replicas)

    def _racks_of(self, replicas: Sequence[int]) -> int:
        return len({self._racks.get(broker) for broker in replicas})

    def _racks_at_best(self, rest: Sequence[int], count: int) -> int:
        """The number of racks for a partition with `count` replicas on brokers that stay, `rest` among them."""
        own = {self._racks.get(broker) for broker in rest}
        others = {self._racks[broker] for broker in self._staying if broker not in rest} - own
        return len(own) + min(len(others), count - len(rest))

    def _rank(self, topic: str, broker: int, replicas: Sequence[int]) -> tuple[int, int, int, int]:
        beside = [self._racks.get(other) for other in replicas]
        return beside.count(self._racks.get(broker)), self._held_of[topic, broker], self._held[broker], broker
