"""The rules of leadership and in-sync sets: how one change of a partition follows from another. Pure rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from placement.infos import NO_LEADER, PartitionInfo


def elect(
    partition: PartitionInfo, alive: frozenset[int], *, min_insync: int = 1, unclean: bool = False
) -> PartitionInfo:
    """The partition after an election: the first living in-sync replica leads, else an eligible one, else nobody.

    The leader epoch rises whenever the leader changes or its process was replaced. The in-sync set never becomes
    empty, so that its last member can come back with what it has. With `unclean`, if none of these lives, any living
    replica leads and is the only one in sync; what only others had is lost.
    """
    epoch = partition.leader_epoch + 1
    candidates = [replica for replica in partition.replicas if replica in alive]
    leader = next((replica for replica in candidates if replica in partition.isr), NO_LEADER)
    if leader != NO_LEADER:
        isr = tuple(replica for replica in partition.isr if replica in alive)
        return with_isr(partition, isr, min_insync, leader=leader, leader_epoch=epoch)
    leader = next((replica for replica in candidates if replica in partition.elr), NO_LEADER)
    if leader != NO_LEADER:
        return with_isr(partition, (leader,), min_insync, leader=leader, leader_epoch=epoch)
    if unclean and candidates:
        alone = (candidates[0],)
        return changed(partition, leader=candidates[0], leader_epoch=epoch, isr=alone, elr=(), unclean=True)
    return changed(partition, leader=NO_LEADER, leader_epoch=epoch)


def with_isr(partition: PartitionInfo, isr: tuple[int, ...], min_insync: int, **changes: Any) -> PartitionInfo:
    """The partition with another in-sync set. While the set is too small, replicas that leave it stay eligible."""
    elr: tuple[int, ...] = ()
    if len(isr) < min(min_insync, len(partition.replicas)):
        elr = tuple(r for r in partition.replicas if r not in isr and r in partition.isr + partition.elr)
    return changed(partition, isr=isr, elr=elr, **changes)


def changed(partition: PartitionInfo, **changes: Any) -> PartitionInfo:
    """The partition with these changes, at its next partition epoch."""
    epoch = partition.partition_epoch + 1
    added = set(changes.get("replicas", ())) - set(partition.replicas)
    return replace(partition, partition_epoch=epoch, added_at=epoch if added else partition.added_at, **changes)
