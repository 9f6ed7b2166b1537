"""Where partitions that exist already should be: even over brokers and racks, with few moves. Pure rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from placement.assignment import NotEnoughBrokersError

Key: TypeAlias = tuple[str, int]
Racks: TypeAlias = Mapping[int, str | None]


def spread(
    placed: Mapping[Key, Sequence[int]],
    topics: Collection[str],
    brokers: Sequence[tuple[int, str | None]],
    factor: int | None = None,
) -> dict[Key, tuple[int, ...]]:
    """New replicas, the preferred leader first, for those partitions of `topics` that are not where they should be.

    `placed` are the replicas of all partitions by (topic, index): those of other topics stay, and count as load.
    `brokers` are the (id, rack) that may hold replicas. `factor` is the number of replicas; None keeps each
    partition's. A partition is in as many racks as it can be. The replicas of a topic, and those of all, differ by one
    at most from broker to broker where racks allow it; so do preferred leaders, as far as exchanging the first replica
    of a partition for another one of its own leads to it.
    Raises NotEnoughBrokersError if a partition is to have more replicas than there are brokers.
    """
    racks = dict(brokers)
    held = Counter(broker for replicas in placed.values() for broker in replicas)
    found: dict[Key, list[int]] = {}
    chosen: list[_Topic] = []
    for name in sorted(topics):
        topic = _Topic(racks, held)
        for key in sorted(key for key in placed if key[0] == name):
            count = len(placed[key]) if factor is None else factor
            if not 0 < count <= len(racks):
                raise NotEnoughBrokersError(f"{name}-{key[1]}: {count} replica(s) on {len(racks)} broker(s)")
            found[key] = topic.add(placed[key], count)
        chosen.append(topic)
    while any(_even_out(topic.own, held, racks, topic.exchange) for topic in chosen):
        pass  # what a topic has moved may be uneven with what others have
    led = Counter(found.get(key, replicas)[0] for key, replicas in placed.items())
    while any(_even_out(topic.led(), led, racks, topic.exchange_first) for topic in chosen):
        pass
    return {key: tuple(replicas) for key, replicas in found.items() if replicas != list(placed[key])}


class _Topic:
    """The partitions of one topic, on their way to where they should be."""

    def __init__(self, racks: Racks, held: Counter[int]) -> None:
        self._racks = racks
        self._held = held
        self._partitions: list[list[int]] = []
        self.own: Counter[int] = Counter()
        """Replicas of this topic by broker, as `held` of all topics."""

    def led(self) -> Counter[int]:
        """Preferred leaders by broker."""
        return Counter(replicas[0] for replicas in self._partitions)

    def add(self, placed: Sequence[int], count: int) -> list[int]:
        """A partition with `count` replicas, in as many racks as can be, and where it is as far as it may be."""
        racks = self._racks
        replicas = [broker for broker in placed if broker in racks]
        self._partitions.append(replicas)
        self.own.update(replicas)

        def rank(broker: int) -> tuple[int, int, int, int]:
            """Low for brokers that should get a replica, high for those that should give theirs up."""
            beside = [racks[other] for other in replicas if other != broker]
            return beside.count(racks[broker]), self.own[broker], self._held[broker], broker

        def leave(broker: int) -> None:
            replicas.remove(broker)
            self.own[broker] -= 1
            self._held[broker] -= 1

        def join() -> None:
            broker = min((broker for broker in racks if broker not in replicas), key=rank)
            replicas.append(broker)
            self.own[broker] += 1
            self._held[broker] += 1

        while len(replicas) > count:
            leave(max(replicas[1:], key=rank))  # the first one leads, as a rule
        while len(replicas) < count:
            join()
        while len({racks[broker] for broker in replicas}) < min(count, len(set(racks.values()))):
            leave(max(replicas, key=rank))
            join()
        return replicas

    def exchange(self, source: int, target: int) -> bool:
        """Have a partition leave `source` for `target`, if any may; one that it leads only if there is no other."""
        can = (r for r in self._partitions if source in r and target not in r and self._stays_spread(r, source, target))
        first = None
        for replicas in can:
            if replicas[0] != source:
                break
            first = first or replicas
        else:
            if first is None:
                return False
            replicas = first
        replicas[replicas.index(source)] = target
        return True

    def _stays_spread(self, replicas: list[int], source: int, target: int) -> bool:
        others = {self._racks[broker] for broker in replicas if broker != source}
        return self._racks[source] in others or self._racks[target] not in others

    def exchange_first(self, source: int, target: int) -> bool:
        """Have `target` be the first of a partition that both are on, and of which `source` is the first, if any is."""
        for replicas in self._partitions:
            if replicas[0] == source and target in replicas:
                at = replicas.index(target)
                replicas[0], replicas[at] = target, source
                return True
        return False


def _even_out(
    own: Counter[int], total: Counter[int], brokers: Collection[int], move: Callable[[int, int], bool]
) -> bool:
    """Have `move(source, target)`, which says whether it could, make it even. Returns whether anything has moved.

    What a topic has of its own goes before the total. The sums of their squares fall, the former first: it ends.
    """

    def uneven(source: int, target: int) -> bool:
        more = own[source] - own[target]
        return more > 1 or (more == 1 and total[source] - total[target] > 1)

    moved = False
    while True:
        ranked = sorted(brokers, key=lambda broker: (own[broker], total[broker], broker))
        pairs = product(ranked, reversed(ranked))
        found = next(((s, t) for t, s in pairs if uneven(s, t) and move(s, t)), None)
        if found is None:
            return moved
        moved = True
        for load in (own, total):
            load[found[0]] -= 1
            load[found[1]] += 1
