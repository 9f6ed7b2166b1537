"""`uniform` for members that all subscribe the same topics.

With P partitions and M members, each gets P div M, and P mod M of them one more: first members that have so many
already, then those that are visited last. A member keeps as much of its previous target as its quota allows. Kafka
leaves the order open in which members are visited; here it is that of their ids.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import chain, islice

from actors.coordinator.assignors.assignor import GroupSpec
from actors.coordinator.assignors.slices import Pace, Slices

Partitions = Mapping[bytes, frozenset[int]]
Free = dict[bytes, set[int]]


def homogeneous_steps(group: GroupSpec) -> Slices:
    """The target. Members whose target stays get the very mapping that they had."""
    pace = Pace()
    ids = sorted(group.members)
    topics = sorted(group.members[ids[0]].topics)
    free: Free = {topic: set(range(group.partitions[topic])) for topic in topics}
    target: dict[str, Partitions] = {}
    sizes: dict[str, int] = {}
    for member_id in ids:
        target[member_id] = _taken(group.members[member_id].assigned, free)
        sizes[member_id] = _size(target[member_id])
        if pace.full(1 + sizes[member_id]):
            yield
    quotas = _quotas(sum(group.partitions[topic] for topic in topics), sizes)
    surplus: list[tuple[bytes, int]] = []
    for member_id, quota in quotas.items():
        if sizes[member_id] > quota:
            target[member_id] = _cut(target[member_id], quota, surplus)
            if pace.full(1 + sizes[member_id]):
                yield
    unassigned = chain(((topic, each) for topic in topics for each in sorted(free[topic])), surplus)
    for member_id, quota in quotas.items():
        wanted = quota - sizes[member_id]
        if wanted > 0:
            target[member_id] = yield from _filled(target[member_id], islice(unassigned, wanted), pace)
    return target


def _taken(previous: Partitions, free: Free) -> Partitions:
    """The free part of a previous target, which then is free no more; the same mapping if that is all of it."""
    taken: dict[bytes, frozenset[int]] = {}
    whole = True
    for topic, partitions in previous.items():
        left = free.get(topic, set())
        kept = partitions if partitions <= left else partitions & left
        left -= kept
        whole = whole and kept is partitions
        if kept:
            taken[topic] = kept
    return previous if whole and len(taken) == len(previous) else taken


def _size(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def _quotas(total: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """The number of partitions that each member gets; it has `sizes` already."""
    least, more = divmod(total, len(sizes))
    quotas: dict[str, int] = {}
    for visited, (member_id, size) in enumerate(sizes.items()):
        extra = more > 0 and (size > least or more >= len(sizes) - visited)
        quotas[member_id] = least + extra
        more -= extra
    return quotas


def _cut(partitions: Partitions, quota: int, surplus: list[tuple[bytes, int]]) -> Partitions:
    """The first `quota` partitions; the others are added to `surplus`."""
    kept: dict[bytes, frozenset[int]] = {}
    for topic in sorted(partitions):
        numbers = sorted(partitions[topic])
        if quota:
            kept[topic] = frozenset(numbers[:quota])
        surplus += [(topic, number) for number in numbers[quota:]]
        quota = max(0, quota - len(numbers))
    return kept


def _filled(partitions: Partitions, more: Iterator[tuple[bytes, int]], pace: Pace) -> Generator[None, None, Partitions]:
    added: dict[bytes, list[int]] = {}
    for topic, number in more:
        added.setdefault(topic, []).append(number)
        if pace.full():
            yield
    return {**partitions, **{topic: partitions.get(topic, frozenset()).union(added[topic]) for topic in added}}
