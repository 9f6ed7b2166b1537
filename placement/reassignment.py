"""The rules by which the reassignment of a partition is complete (KIP-455). Pure rules."""

from __future__ import annotations

from collections.abc import Iterable

from placement.elections import changed, elect
from placement.infos import NO_LEADER, PartitionInfo


def without(brokers: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    """The brokers that are not among the others, in their order."""
    gone = set(others)
    return tuple(broker for broker in brokers if broker not in gone)


def completed(partition: PartitionInfo, alive: frozenset[int], needed: int) -> PartitionInfo:
    """The partition after its reassignment if that is complete; else the partition as it is."""
    after = ended(partition, alive, needed)
    if after is None:
        return partition
    return after if after.leader in (*after.replicas, NO_LEADER) else elect(after, alive, min_insync=needed)


def ended(partition: PartitionInfo, alive: frozenset[int], needed: int) -> PartitionInfo | None:
    """The partition after its reassignment if that is complete, with the leader it had; else None.

    It is complete when all added replicas are in sync, and at least `needed` (min.insync.replicas) of the future
    replicas are in sync and live: the replicas to be removed may be the only others with all that has committed.
    """
    if not partition.adding and not partition.removing:
        return None
    target = without(partition.replicas, partition.removing)
    isr = tuple(broker for broker in target if broker in partition.isr)
    if not set(partition.adding) <= set(isr) or len(alive & set(isr)) < min(needed, len(target)):
        return None
    return changed(partition, replicas=target, isr=isr, elr=(), adding=(), removing=())
