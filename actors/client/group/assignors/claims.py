"""The former owners of partitions: ownership as the members claim it, with contradictions settled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from actors.client.group.assignors.base import ClusterView
from actors.client.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that one member says it owns, and the generation in which it was given them."""

    member_id: str
    owned: tuple[TopicPartition, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """Claims settled: the newest claim wins; of two equally new ones neither does.

    `former` names, for a partition claimed twice, the owner of the older generation.
    """

    owned: dict[str, list[TopicPartition]]
    disputed: frozenset[TopicPartition]
    former: dict[TopicPartition, str]


def settle(claims: Iterable[Claim], cluster: ClusterView) -> Ownership:
    """Settle the claims on partitions that exist in `cluster`."""
    best: dict[TopicPartition, tuple[int, str]] = {}
    former: dict[TopicPartition, tuple[int, str]] = {}
    disputed: dict[TopicPartition, int] = {}
    everything = sorted(claims, key=lambda claim: claim.member_id)
    for claim in everything:
        for partition in dict.fromkeys(claim.owned):
            if not 0 <= partition.partition < cluster.partitions.get(partition.topic, 0):
                continue
            held = best.get(partition)
            mine = (claim.generation, claim.member_id)
            if held is None or claim.generation > held[0]:
                best[partition] = mine
                if held is not None:
                    former[partition] = held
            elif claim.generation == held[0]:
                disputed[partition] = claim.generation
            else:
                former[partition] = max(former.get(partition, mine), mine, key=lambda entry: entry[0])
    open_disputes = frozenset(tp for tp, generation in disputed.items() if best[tp][0] == generation)
    owned: dict[str, list[TopicPartition]] = {claim.member_id: [] for claim in everything}
    for partition, (_, member_id) in best.items():
        if partition not in open_disputes:
            owned[member_id].append(partition)
    return Ownership(owned, open_disputes, {tp: member_id for tp, (_, member_id) in former.items()})
