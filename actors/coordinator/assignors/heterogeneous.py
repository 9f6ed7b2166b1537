"""`uniform` for members that subscribe different topics.

Members keep what they had; what nobody has goes to the subscriber with fewest partitions; then partitions move from the
subscribers with most to those with fewest, topic by topic, until they differ by one or `ROUNDS` are over. The order of
topics, members and partitions is Kafka's, with members visited by ascending id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import chain

from actors.coordinator.assignors.assignor import GroupSpec
from actors.coordinator.assignors.loads import Heaviest, Lightest, Loads
from actors.coordinator.assignors.slices import Pace, Slices
from actors.coordinator.assignors.subscribers import Subscribers

ROUNDS = 16
"""Chains of subscriptions that overlap may need many rounds; each halves the imbalance or so."""

_NOBODY = -1
_ID = struct.Struct(">qq")
"""Kafka compares ids as two signed numbers."""

Partitions = Mapping[bytes, frozenset[int]]


def heterogeneous_steps(group: GroupSpec) -> Slices:
    """The target. Members whose target stays get the very mapping that they had."""
    return _Assignment(group).steps()


class _Assignment:
    """An assignment that is being made."""

    def __init__(self, group: GroupSpec) -> None:
        self._ids = sorted(group.members)
        self._members = [group.members[each] for each in self._ids]
        self._partitions = group.partitions
        self._subscribers = Subscribers()
        self._owners: dict[bytes, list[int]] = {}
        """The member that has each partition of a topic, or _NOBODY."""
        self._counts: dict[bytes, int] = {}
        """The number of subscribers of a topic."""
        self._changed: set[int] = set()
        """Members that have something else than before."""
        self._pace = Pace()

    def steps(self) -> Slices:
        yield from self._subscribers.reading(self._members, self._pace)
        self._owners = {topic: [_NOBODY] * self._partitions[topic] for topic in self._subscribers.by_topic}
        sizes = [0] * len(self._members)
        yield from self._keep(sizes)
        loads = Loads(self._subscribers, sizes)
        yield from self._count()
        topics = sorted(self._owners, key=self._rank)
        for topic in topics:
            yield from self._assign_rest(topic, loads)
        yield from self._balance([each for each in topics if self._counts[each] > 1], loads)
        return (yield from self._target())

    def _keep(self, sizes: list[int]) -> Iterator[None]:
        """Each member keeps what it had of the topics that it subscribes."""
        for member, spec in enumerate(self._members):
            for topic, partitions in spec.assigned.items():
                kept = self._kept(member, topic, partitions) if topic in spec.topics else 0
                sizes[member] += kept
                if kept < len(partitions):
                    self._changed.add(member)
                if self._pace.full(1 + len(partitions)):
                    yield

    def _kept(self, member: int, topic: bytes, partitions: frozenset[int]) -> int:
        """The number that it keeps: a previous target may have been for fewer partitions, never for the same twice."""
        owners = self._owners[topic]
        kept = 0
        for partition in partitions:
            if partition < len(owners) and owners[partition] == _NOBODY:
                owners[partition] = member
                kept += 1
        return kept

    def _count(self) -> Iterator[None]:
        for topic in self._owners:
            self._counts[topic] = self._subscribers.count(topic)
            if self._pace.full(1 + self._subscribers.width(topic) // 5):
                yield

    def _rank(self, topic: bytes) -> tuple[float, int, tuple[int, ...]]:
        """Topics with most partitions a subscriber come first, then those with fewest subscribers."""
        count = self._counts[topic]
        return -self._partitions[topic] / count, count, _ID.unpack(topic)

    def _assign_rest(self, topic: bytes, loads: Loads) -> Iterator[None]:
        owners = self._owners[topic]
        free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
        if not free:
            return
        row = loads.row(topic)
        lightest = Lightest(row)
        for partition in free:
            owners[partition] = lightest.take()
            if self._pace.full():
                yield
        self._changed.update(owners[partition] for partition in free)
        loads.moved((owners[partition], 1) for partition in free)
        if self._pace.full(len(row) // 5):
            yield

    def _balance(self, topics: list[bytes], loads: Loads) -> Iterator[None]:
        """Rounds over the topics, until nothing moved in a whole one."""
        last = -1
        for number, topic in chain.from_iterable(enumerate(topics) for _ in range(ROUNDS)):
            if number == last:
                return
            moves = self._balanced(topic, loads)
            if moves or last < 0:
                last = number
            if self._pace.full(1 + moves + self._cost(topic, moves)):
                yield

    def _cost(self, topic: bytes, moves: int) -> int:
        return (self._counts[topic] if moves else self._subscribers.width(topic)) // 5

    def _balanced(self, topic: bytes, loads: Loads) -> int:
        """Moves partitions of one topic; the number of moves."""
        if loads.spread(topic) <= 1:
            return 0
        row = loads.row(topic)
        lightest, heaviest = Lightest(row), Heaviest(row)
        owners = self._owners[topic]
        given = self._by_owner(owners)
        moves: list[tuple[int, int]] = []
        while heaviest.level - lightest.level > 1:
            giver = heaviest.take()
            while giver is not None and not given.get(giver):
                heaviest.exclude()
                giver = heaviest.take()
            if giver is None:
                break
            taker = lightest.take()
            if heaviest.level - lightest.level <= 1:
                break
            owners[given[giver].pop()] = taker
            moves += [(giver, -1), (taker, 1)]
        self._changed.update(member for member, _ in moves)
        loads.moved(moves)
        return len(moves) // 2

    def _by_owner(self, owners: list[int]) -> dict[int, list[int]]:
        partitions: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            partitions.setdefault(owner, []).append(partition)
        return partitions

    def _target(self) -> Slices:
        anew: dict[int, dict[bytes, list[int]]] = {member: {} for member in self._changed}
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner in anew:
                    anew[owner].setdefault(topic, []).append(partition)
                if self._pace.full():
                    yield
        target: dict[str, Partitions] = {}
        for member, spec in enumerate(self._members):
            mine = anew.get(member)
            target[self._ids[member]] = spec.assigned if mine is None else _frozen(mine)
            if self._pace.full(1 if mine is None else 1 + len(mine)):
                yield
        return target


def _frozen(partitions: Mapping[bytes, list[int]]) -> Partitions:
    return {topic: frozenset(numbers) for topic, numbers in partitions.items()}
