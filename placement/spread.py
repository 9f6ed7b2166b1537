"""The brokers that partitions should be moved to: evenly over brokers and racks, with few moves. Pure rules."""

from __future__ import annotations

from collections import Counter, deque
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
    partition's. A partition is in as many racks as it can be; if a broker has none, none counts. Beyond that, what
    brokers hold of `topics` differs by one at most, and where that leaves a choice, what they hold in all, as far as
    moving one replica at a time leads there; of such moves those are made that leave each topic most even. Leaderships,
    which move at no cost, are made even for each topic, and then in all, in the same way.
    Raises NotEnoughBrokersError if a partition is to have more replicas than there are brokers.
    """
    racks = dict(brokers)
    if None in racks.values():
        racks = dict.fromkeys(racks)
    plan = _Plan(racks, Counter(broker for replicas in placed.values() for broker in replicas))
    mine = sorted(key for key in placed if key[0] in topics)
    for key in mine:
        plan.add(key, placed[key])
    for key in mine:
        count = len(placed[key]) if factor is None else factor
        if not 0 < count <= len(racks):
            raise NotEnoughBrokersError(f"{key[0]}-{key[1]}: {count} replica(s) do not fit on {len(racks)} broker(s)")
        plan.resize(key, count)
    _even_out(plan.held, plan.total, racks, plan.move)
    found = plan.partitions
    led = Counter(found.get(key, replicas)[0] for key, replicas in placed.items())
    leaders = [_Leaders([r for key, r in found.items() if key[0] == topic]) for topic in sorted(topics)]
    while sum(_even_out(each.led, led, racks, each.hand_on) for each in leaders):
        pass  # one topic's moves may have made the sums uneven for another
    return {key: tuple(replicas) for key, replicas in found.items() if replicas != list(placed[key])}


class _Plan:
    """The replicas of the partitions while the plan is made."""

    def __init__(self, racks: Racks, total: Counter[int]) -> None:
        self._racks = racks
        self.total = total
        """Replicas of all partitions, by broker."""
        self.held: Counter[int] = Counter()
        """Replicas of those that may move, by broker."""
        self.partitions: dict[Key, list[int]] = {}
        self._on: dict[int, dict[str, dict[Key, None]]] = {broker: {} for broker in racks}
        """Those that may move, by broker and topic."""

    def add(self, key: Key, placed: Sequence[int]) -> None:
        """Add a partition with those of its replicas that are on brokers that may hold them."""
        replicas = self.partitions[key] = [broker for broker in placed if broker in self._racks]
        self.held.update(replicas)
        for broker in replicas:
            self._note(key, broker, 1)

    def resize(self, key: Key, count: int) -> None:
        """Give a partition `count` replicas, in as many racks as possible."""
        racks, replicas = self._racks, self.partitions[key]

        def rank(broker: int) -> tuple[int, bool, int, int, int]:
            """The order of brokers: low for one that should get a replica, high for one that should give one up."""
            beside = [racks[other] for other in replicas if other != broker]
            leads = replicas[:1] == [broker]
            return beside.count(racks[broker]), not leads, self.held[broker], self.total[broker], broker

        def note(broker: int, by: int) -> None:
            self._note(key, broker, by)
            self.held[broker] += by
            self.total[broker] += by

        def leave(broker: int) -> None:
            replicas.remove(broker)
            note(broker, -1)

        def join() -> None:
            broker = min((broker for broker in racks if broker not in replicas), key=rank)
            replicas.append(broker)
            note(broker, 1)

        while len(replicas) > count:
            leave(max(replicas, key=rank))
        while len(replicas) < count:
            join()
        while len({racks[broker] for broker in replicas}) < min(count, len(set(racks.values()))):
            leave(max(replicas, key=rank))
            join()

    def _note(self, key: Key, broker: int, by: int) -> None:
        of_topic = self._on[broker].setdefault(key[0], {})
        if by > 0:
            of_topic[key] = None
        else:
            del of_topic[key]

    def move(self, source: int, target: int) -> bool:
        """Move a replica from `source` to `target`, if any may move; that of a partition that it leads comes last."""

        def surplus(topic: str) -> int:
            return len(self._on[source][topic]) - len(self._on[target].get(topic, ()))

        for topic in sorted(self._on[source], key=surplus, reverse=True):
            led = None
            for key in self._on[source][topic]:
                if self._may_move(key, source, target):
                    if self.partitions[key][0] != source:
                        return self._move(key, source, target)
                    led = led or key
            if led is not None:
                return self._move(led, source, target)
        return False

    def _move(self, key: Key, source: int, target: int) -> bool:
        replicas = self.partitions[key]
        replicas[replicas.index(source)] = target
        self._note(key, source, -1)
        self._note(key, target, 1)
        return True

    def _may_move(self, key: Key, source: int, target: int) -> bool:
        """True if the partition then has as many replicas, in as many racks, as before."""
        replicas = self.partitions[key]
        others = {self._racks[broker] for broker in replicas if broker != source}
        return target not in replicas and (self._racks[source] in others or self._racks[target] not in others)


class _Leaders:
    """The first replica of each partition of a topic."""

    def __init__(self, partitions: Sequence[list[int]]) -> None:
        self._partitions = partitions
        self.led = Counter(replicas[0] for replicas in partitions)

    def hand_on(self, source: int, target: int) -> bool:
        """Have `source` lead one partition less and `target` one more, perhaps by way of others. False if it cannot."""
        way: dict[int, tuple[int, list[int]]] = {}
        waiting = deque([source])
        while waiting and target not in way:
            broker = waiting.popleft()
            for replicas in self._partitions:
                if replicas[0] == broker:
                    new = [other for other in replicas if other != source and other not in way]
                    way |= dict.fromkeys(new, (broker, replicas))
                    waiting.extend(new)
        if target not in way:
            return False
        while target != source:
            broker, replicas = way[target]
            at = replicas.index(target)
            replicas[0], replicas[at] = target, broker
            target = broker
        return True


def _even_out(
    own: Counter[int], total: Counter[int], brokers: Collection[int], move: Callable[[int, int], bool]
) -> bool:
    """Call `move(source, target)`, which returns whether it has moved one, until `own` is even, and then `total`.

    `total` is evened out as far as `own` stays even. Both are updated. Returns whether anything was moved. It ends,
    because each move makes the sum of squares of `own` smaller, or leaves it and makes that of `total` smaller.
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
