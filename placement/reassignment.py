"""When a partition has arrived at the brokers it is being moved to (KIP-455). Pure rules."""

from __future__ import annotations

from collections.abc import Iterable

from placement.metadata import NO_LEADER, PartitionInfo, changed, elect


def without(brokers: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    """The brokers that are none of the others, in their order."""
    gone = set(others)
    return tuple(broker for broker in brokers if broker not in gone)


def completed(partition: PartitionInfo, alive: frozenset[int], needed: int) -> PartitionInfo:
    """The partition after its reassignment, if all that were added are in sync; else unchanged."""
    if not partition.adding and not partition.removing:
        return partition
    target = without(partition.replicas, partition.removing)
    isr = tuple(broker for broker in target if broker in partition.isr)
    if not isr or not set(partition.adding) <= set(isr):
        return partition
    elr = without(partition.elr, partition.removing)
    after = changed(partition, replicas=target, isr=isr, elr=elr, adding=(), removing=())
    return after if after.leader in (*target, NO_LEADER) else elect(after, alive, min_insync=needed)
