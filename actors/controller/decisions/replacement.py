"""Replacing a broker whose data directory is gone for good: what the controller decides.

A broker keeps its id, and what identifies its data is the id of its directory (KIP-858, KIP-966). It is given another
one, which is empty: so it leaves every in-sync and every eligible set, and catches up as a follower. The rule that the
last member of an in-sync set stays is not for it, because an empty directory would lead then. A partition of which
nobody else has everything that has committed is a sole copy, and given up only by a person's word.

Functions of the cluster's metadata: they return records, and apply nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from actors.controller.decisions.elections import ground_of
from actors.controller.decisions.pairs import Ground, Key, records_of
from actors.settings import BrokerConfig
from placement.metadata import NO_LEADER, ClusterMetadata, Directory, PartitionInfo, changed, was_removed
from placement.records import DIRECTORIES, BrokerDirectoryRecord, BrokerRecord, Record
from placement.together import Election, Outcome


def directory_refused(metadata: ClusterMetadata, broker_id: int, told: str) -> str | None:
    """The reason why a broker with this directory may not register; None if it may. A removed one never may."""
    if broker_id in metadata.removed:
        return was_removed(broker_id)
    known = metadata.directories.get(broker_id)
    if known is None or known.id == told:
        return None
    return f"its data directory is {told or 'not told'}, and that of broker {broker_id} is {known.id}: it was replaced"


def directory_told(metadata: ClusterMetadata, broker_id: int, told: str) -> list[Record]:
    """The record of the directory that a broker has registered with, if it is not known yet."""
    directory = Directory(told)
    if metadata.level < DIRECTORIES or not told or metadata.directories.get(broker_id) == directory:
        return []
    if broker_id in metadata.removed:
        return []  # its process is about to stop
    return [BrokerDirectoryRecord(broker_id, directory)]


def held_by(metadata: ClusterMetadata, broker_id: int) -> Iterator[tuple[Key, PartitionInfo]]:
    """The partitions of which the broker is a replica."""
    for topic in metadata.topics.values():
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.replicas:
                yield (topic.name, index), partition


def sole_copies(metadata: ClusterMetadata, broker_id: int) -> list[Key]:
    """The partitions of which only this broker has everything that has committed."""
    return [key for key, partition in held_by(metadata, broker_id) if _holders(partition) == {broker_id}]


def copies_away(metadata: ClusterMetadata, broker_id: int) -> list[Key]:
    """The partitions of which others have everything that has committed, but none of these is alive.

    Their disks may turn out to be lost, and then this broker's is the best there is, in sync or not.
    """
    alive = {each.id for each in metadata.alive()} - {broker_id}
    return [
        key
        for key, partition in held_by(metadata, broker_id)
        if (others := _holders(partition) - {broker_id}) and not others & alive
    ]


def _holders(partition: PartitionInfo) -> set[int]:
    return {*partition.isr, *partition.elr}


def broker_replaced(
    metadata: ClusterMetadata, broker_id: int, directory_id: str, *, config: BrokerConfig | None = None
) -> list[Record]:
    """The broker's directory is gone, and its next process makes one with this id. Its sole copies are given up."""
    broker = metadata.brokers[broker_id]
    alive = frozenset(each.id for each in metadata.alive()) - {broker_id}
    ground = ground_of(metadata, config, alive)
    outcomes = {
        key: _without_directory(ground, key, partition, broker_id)
        for key, partition in held_by(metadata, broker_id)
        if broker_id in _holders(partition)
    }
    gone = [BrokerRecord(replace(broker, alive=False))] if broker.alive else []
    return [
        *gone,
        BrokerDirectoryRecord(broker_id, Directory(directory_id, awaited=True)),
        *records_of(ground, outcomes),
    ]


def _without_directory(ground: Ground, key: Key, partition: PartitionInfo, broker_id: int) -> Outcome:
    isr, elr = (tuple(each for each in members if each != broker_id) for members in (partition.isr, partition.elr))
    if not isr and not elr:
        return _given_up(ground, key, partition, broker_id)
    kept = changed(partition, isr=isr or elr, elr=elr if isr else ())
    leads = partition.leader in (broker_id, NO_LEADER)
    return Election(kept, ground.alive, ground.needed(key[0])) if leads else kept


def _given_up(ground: Ground, key: Key, partition: PartitionInfo, broker_id: int) -> Outcome:
    """A sole copy: a replica that was out of sync leads, the first that is there. Only if none is left it is empty."""
    others = tuple(each for each in partition.replicas if each != broker_id)
    if ground.alive.intersection(others):
        return Election(partition, ground.alive, ground.needed(key[0]), unclean=True)
    leaderless = {"leader": NO_LEADER, "leader_epoch": partition.leader_epoch + (partition.leader != NO_LEADER)}
    return changed(partition, isr=others or (broker_id,), elr=(), unclean=True, **leaderless)
