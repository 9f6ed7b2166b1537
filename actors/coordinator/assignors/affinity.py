"""Affinity: of a target, partitions that change hands go to members in the racks of their leaders, where that is free.

Kafka's assignors know no racks. This comes after one of them, and only where it is known in which racks leaders are.
Balance and stickiness come first: each member has as many partitions as before, and keeps as many of those that it had.
But who has to give some up gives up those that are led elsewhere, and among those that are given out members swap, so
that as many as can be are led in their members' racks. A target that nothing changes is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from actors.coordinator.assignors.assignor import GroupSpec, Target
from actors.coordinator.assignors.slices import Pace, Slices

_NONE: frozenset[int] = frozenset()
Place = tuple[bytes, int]
"""A topic, and the number of a partition."""


class Given(NamedTuple):
    """A partition that a member is to get which it did not have before."""

    place: Place
    rack: str
    """Its leader's; empty if that is not known."""
    holder: str
    """The member that has it in the target."""
    owner: str
    """The member that it stands for: somebody has to get one in the end."""


class Move(NamedTuple):
    """A partition that somebody else is to have."""

    place: Place
    holder: str
    owner: str


def nearer_steps(group: GroupSpec, target: Target) -> Slices:
    """The target, changed so that partitions are near their leaders."""
    pace = Pace()
    given = list(_given(group, target))
    lost = yield from _lost(group, given, pace)
    moves: list[Move] = []
    for pool in _pools(group, given):
        rest = yield from _rechosen(group, target, lost, pool, moves, pace)
        moves += (Move(each.place, each.holder, owner) for each, owner in _swapped(group, rest))
        if pace.full(len(pool)):
            yield
    return _moved(target, [each for each in moves if each.owner != each.holder])


def _rack(group: GroupSpec, place: Place) -> str:
    racks = group.leaders.get(place[0], ())
    return racks[place[1]] if place[1] < len(racks) else ""


def _given(group: GroupSpec, target: Target) -> Iterator[Given]:
    for member_id in sorted(target):
        had = group.members[member_id].assigned
        for topic, numbers in sorted(target[member_id].items()):
            for number in sorted(numbers - had.get(topic, _NONE)):
                place = topic, number
                yield Given(place, _rack(group, place), member_id, member_id)


def _lost(group: GroupSpec, given: Iterable[Given], pace: Pace) -> Generator[None, None, dict[Place, str]]:
    """The members that had the places given out, of those that are there still."""
    out: dict[bytes, set[int]] = {}
    for each in given:
        out.setdefault(each.place[0], set()).add(each.place[1])
    lost: dict[Place, str] = {}
    for member_id in sorted(group.members):
        for topic, numbers in group.members[member_id].assigned.items():
            for number in numbers & out.get(topic, _NONE):
                lost.setdefault((topic, number), member_id)
        if pace.full():
            yield
    return lost


def _pools(group: GroupSpec, given: Sequence[Given]) -> Iterator[Sequence[Given]]:
    """Pools of places within which members may swap: one if all subscribe to the same, else one for each topic."""
    if group.homogeneous:
        yield given
        return
    by_topic: dict[bytes, list[Given]] = {}
    for each in given:
        by_topic.setdefault(each.place[0], []).append(each)
    yield from by_topic.values()


# -- what a member gives up


def _rechosen(
    group: GroupSpec, target: Target, lost: Mapping[Place, str], pool: Sequence[Given], moves: list[Move], pace: Pace
) -> Generator[None, None, list[Given]]:
    """The places given out after members that lose some have chosen anew what they keep; `moves` has their choices."""
    by_loser: dict[str, list[int]] = {}
    for index, each in enumerate(pool):
        if each.place in lost:
            by_loser.setdefault(lost[each.place], []).append(index)
    wanted = {group.members[each.owner].rack for each in pool} - {None, ""}
    rest = list(pool)
    for member_id, indexes in by_loser.items():
        kept = list(_kept(group, target, member_id, None if group.homogeneous else pool[0].place[0]))
        for index, place in _exchanged(group, member_id, kept, [(n, pool[n]) for n in indexes], wanted):
            taken = rest[index]
            moves.append(Move(taken.place, taken.holder, member_id))
            rest[index] = Given(place, _rack(group, place), member_id, taken.owner)
        if pace.full(len(kept)):
            yield
    return rest


def _kept(group: GroupSpec, target: Target, member_id: str, of_topic: bytes | None) -> Iterator[Place]:
    """The places that a member had, and has in the target; of one topic alone, if one is named."""
    had = group.members[member_id].assigned
    for topic, numbers in sorted(target[member_id].items()):
        if of_topic in (None, topic):
            yield from ((topic, number) for number in sorted(numbers & had.get(topic, _NONE)))


def _exchanged(
    group: GroupSpec,
    member_id: str,
    kept: Sequence[Place],
    lost: Sequence[tuple[int, Given]],
    wanted: Iterable[str | None],
) -> Iterator[tuple[int, Place]]:
    """The places that a member takes back, by index, each with the one that it gives up for it.

    It keeps the places near it, else those near nobody who gets one; and its own rather than others.
    """
    own = group.members[member_id].rack or ""
    near = frozenset(wanted)

    def worth(rack: str, *, is_kept: bool) -> tuple[bool, bool, bool]:
        return not own or rack != own, rack in near, not is_kept

    ranked = [(worth(_rack(group, place), is_kept=True), place, -1) for place in kept]
    ranked += [(worth(each.rack, is_kept=False), each.place, index) for index, each in lost]
    ranked.sort()
    back = [index for _, _, index in ranked[: len(kept)] if index >= 0]
    up = [place for _, place, index in ranked[len(kept) :] if index < 0]
    yield from zip(back, up, strict=True)


# -- the new owners


def _swapped(group: GroupSpec, pool: Sequence[Given]) -> Iterator[tuple[Given, str]]:
    """The new owner of each of them: each member gets as many as before."""
    places = Counter(each.owner for each in pool)
    racks = {member_id: group.members[member_id].rack or "" for member_id in places}
    away: list[Given] = []
    for each in pool:
        if each.rack and each.rack == racks[each.owner]:
            places[each.owner] -= 1
            yield each, each.owner
        else:
            away.append(each)
    in_rack: dict[str, list[str]] = {}
    for member_id in sorted(places, reverse=True):
        in_rack.setdefault(racks[member_id], []).append(member_id)
    rest: list[Given] = []
    for each in away:
        owner = _next_of(in_rack.get(each.rack, []), places) if each.rack else None
        if owner is None:
            rest.append(each)
        else:
            yield each, owner
    yield from _shared_out(rest, places)


def _next_of(members: list[str], places: Counter[str]) -> str | None:
    """The last of the members, of which a place is taken; those that have none left are removed."""
    while members and not places[members[-1]]:
        members.pop()
    if not members:
        return None
    places[members[-1]] -= 1
    return members[-1]


def _shared_out(rest: Iterable[Given], places: Counter[str]) -> Iterator[tuple[Given, str]]:
    """A place that can be near nobody goes to its owner if that one has room left, and else to anybody."""
    homeless: list[Given] = []
    for each in rest:
        if places[each.owner] > 0:
            places[each.owner] -= 1
            yield each, each.owner
        else:
            homeless.append(each)
    yield from zip(homeless, (member for member in sorted(places) for _ in range(places[member])), strict=True)


def _moved(target: Target, moves: Iterable[Move]) -> Target:
    """The target after these moves. Members that have none keep the very mapping that they had."""
    changed: dict[str, dict[bytes, set[int]]] = {}
    for (topic, number), holder, owner in moves:
        for member_id in (holder, owner):
            if member_id not in changed:
                changed[member_id] = {each: set(some) for each, some in target[member_id].items()}
        changed[holder][topic].discard(number)
        changed[owner].setdefault(topic, set()).add(number)
    made: dict[str, Mapping[bytes, frozenset[int]]] = dict(target)
    for member_id, topics in changed.items():
        made[member_id] = {topic: frozenset(some) for topic, some in topics.items() if some}
    return made
