"""The step from decisions to records: each partition by itself, and those that are led together as one.

The rules of what is led together are in `placement.together`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from placement.metadata import ClusterMetadata, PartitionInfo
from placement.reassignment import completed, ended
from placement.records import PartitionRecord, PartitionsRecord, Record
from placement.together import Election, Member, Outcome, kept, settled, settled_together

Key: TypeAlias = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(frozen=True, slots=True)
class Ground:
    """All that decisions about partitions go by. `alive` are the brokers that may be elected."""

    metadata: ClusterMetadata
    alive: frozenset[int]
    needed: Callable[[str], int]
    """`min.insync.replicas` of a topic."""

    def partition(self, key: Key) -> PartitionInfo:
        found = self.metadata.partition(*key)
        assert found is not None, f"a decision about {key}, which does not exist"
        return found


def led_together(metadata: ClusterMetadata, key: Key) -> tuple[Key, ...]:
    """A partition and all that are led together with it, the data partition first."""
    name, index = key
    pairs = metadata.pairs
    if not pairs:
        return (key,)
    data = pairs.data_of(name, index)
    if data is not None:
        if data[0] not in metadata.names:
            return (key,)  # the data's topic is deleted
        key = metadata.names[data[0]], data[1]
    return (key, *pairs.states_of(metadata.topics[key[0]].id, key[1]))


def records_of(ground: Ground, outcomes: Mapping[Key, Outcome], *, moves_end: bool = False) -> list[Record]:
    """The records of what is wanted for some partitions.

    `moves_end`: those whose reassignment is complete by that are relieved of their former replicas (KIP-455).
    """
    records: list[Record] = []
    seen: set[Key] = set()
    for key, outcome in outcomes.items():
        members = led_together(ground.metadata, key)
        if len(members) == 1:
            after = completed(settled(outcome), ground.alive, ground.needed(key[0])) if moves_end else settled(outcome)
            if after != ground.partition(key):
                records.append(PartitionRecord(*key, after))
        elif key not in seen:
            seen.update(members)
            records += _of_pair(ground, members, outcomes, moves_end=moves_end)
    return records


def _of_pair(
    ground: Ground, keys: tuple[Key, ...], outcomes: Mapping[Key, Outcome], *, moves_end: bool
) -> Iterator[Record]:
    wanted: list[Outcome] = [outcomes.get(key, ground.partition(key)) for key in keys]
    if moves_end:
        wanted = _moves_ended(ground, keys, wanted)
    data, *states = [
        Member(ground.partition(key), outcome, ground.needed(key[0])) for key, outcome in zip(keys, wanted, strict=True)
    ]
    afters = settled_together(data, states, ground.alive)
    changed = [
        (*key, after, after.leader_epoch != member.before.leader_epoch)
        for key, member, after in zip(keys, (data, *states), afters, strict=True)
        if after != member.before
    ]
    elected = [(topic, index, after) for topic, index, after, is_elected in changed if is_elected]
    if len(elected) > 1:
        yield PartitionsRecord(tuple(PartitionRecord(topic, index, after) for topic, index, after, _ in changed))
        return
    for topic, index, after, _ in changed:
        yield PartitionRecord(topic, index, after)


def _moves_ended(ground: Ground, keys: tuple[Key, ...], wanted: list[Outcome]) -> list[Outcome]:
    """The same, without the former replicas if the moves of all that move together are complete."""
    moving = [bool(kept(each).adding or kept(each).removing) for each in wanted]
    ends = [ended(kept(each), ground.alive, ground.needed(key[0])) for key, each in zip(keys, wanted, strict=True)]
    if not any(moving) or any(is_moving and end is None for is_moving, end in zip(moving, ends, strict=True)):
        return wanted
    return [
        each if end is None else _with_leader(end, each, ground, key)
        for key, each, end in zip(keys, wanted, ends, strict=True)
    ]


def _with_leader(end: PartitionInfo, wanted: Outcome, ground: Ground, key: Key) -> Outcome:
    if isinstance(wanted, Election) or (end.leader not in end.replicas and end.leader >= 0):
        return Election(end, ground.alive, ground.needed(key[0]))
    return end
