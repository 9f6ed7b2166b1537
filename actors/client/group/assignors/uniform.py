"""The sticky division when all members subscribe to the same topics: every size is the floor or the ceiling."""

from __future__ import annotations

from collections import deque

from actors.client.group.assignors.base import Assignment, ClusterView
from actors.client.group.assignors.claims import Ownership
from actors.client.records import TopicPartition


def balance_uniform(cluster: ClusterView, ownership: Ownership) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Every member keeps what its quota allows; the rest fills those below it.

    Returns the assignment and the partitions that change their owner, with the new one.
    """
    members = sorted(ownership.owned)
    everything = [
        TopicPartition(topic, n) for topic in sorted(cluster.partitions) for n in range(cluster.partitions[topic])
    ]
    if not members:
        return {}, {}
    floor, extra = divmod(len(everything), len(members))
    assignment, below, at_floor = _keep(ownership, members, floor, extra)
    kept = {tp for partitions in assignment.values() for tp in partitions}
    free = [tp for tp in everything if tp not in kept]
    given = _fill(assignment, free, below, at_floor, floor)
    released = {tp for owned in ownership.owned.values() for tp in owned} | ownership.disputed
    return assignment, {tp: member for tp, member in given.items() if tp in released}


def _keep(
    ownership: Ownership, members: list[str], floor: int, extra: int
) -> tuple[Assignment, deque[str], deque[str]]:
    """The partitions that members keep; the members below the floor; and those at it, which may get one more."""
    ceiling = floor + 1 if extra else floor
    assignment: Assignment = {}
    below: deque[str] = deque()
    at_floor: deque[str] = deque()
    at_ceiling = 0
    for member in members:
        owned = sorted(ownership.owned[member], key=lambda tp: (tp.partition, tp.topic))
        if len(owned) < floor:
            assignment[member] = owned
            below.append(member)
        elif len(owned) >= ceiling and at_ceiling < extra:
            assignment[member] = owned[:ceiling]
            at_ceiling += 1
        else:
            assignment[member] = owned[:floor]
            at_floor.append(member)
    if at_ceiling == extra:
        at_floor.clear()
    return assignment, below, at_floor


def _fill(
    assignment: Assignment, free: list[TopicPartition], below: deque[str], at_floor: deque[str], floor: int
) -> dict[TopicPartition, str]:
    """Deal the free partitions to those below the floor in a circle, then one each to those at it."""
    given: dict[TopicPartition, str] = {}
    for partition in free:
        if below:
            member = below.popleft()
        else:
            member = at_floor.popleft()
        assignment[member].append(partition)
        given[partition] = member
        size = len(assignment[member])
        if size < floor:
            below.append(member)
        elif size == floor:
            at_floor.append(member)
    return given
