"""Moving partitions to other brokers (KIP-455) and leadership on demand (KIP-460): what the controller decides.

Functions of the cluster's metadata, as in topics.py: they return results and records, and apply nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controller.decisions.configs import RefusedError, refusal_for
from actors.controller.decisions.elections import Decision, Record, min_insync, preferred
from actors.links.operations import (
    AlteredReassignments,
    AlterReassignments,
    ElectedLeaders,
    ElectLeaders,
    PartitionOutcome,
)
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, ClusterMetadata, PartitionInfo, changed, elect, partition_record
from placement.reassignment import completed, without

PREFERRED, UNCLEAN = 0, 1


def _partition(metadata: ClusterMetadata, topic: str, index: int) -> PartitionInfo:
    found = metadata.partition(topic, index)
    if found is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
    return found


def _row(topic: str, index: int, refusal: RefusedError | None = None) -> PartitionOutcome:
    return PartitionOutcome(topic, index, int(refusal.code) if refusal else 0, str(refusal) if refusal else None)


# --- reassignments ----------------------------------------------------------------------------------------------


def alter_reassignments(metadata: ClusterMetadata, config: BrokerConfig, asked: AlterReassignments) -> Decision:
    """Begin the move of each partition, or end the one under way, or refuse it."""
    results: list[PartitionOutcome] = []
    records: list[Record] = []
    alive = frozenset(broker.id for broker in metadata.alive())
    for move in asked.partitions:
        topic, index, target = move.topic, move.index, move.replicas
        try:
            before = _partition(metadata, topic, index)
            needed = min_insync(metadata, config, topic)
            if target is None:
                after = _cancelled(before, topic, index, alive)
            else:
                _check_target(metadata, before, target, allow_factor_change=asked.allow_factor_change)
                after = _begun(before, target)
            _check_holders(before, after, needed)
            after = completed(after, alive, needed)
        except Exception as error:
            results.append(_row(topic, index, refusal_for(error)))
            continue
        if after != before:
            records.append(partition_record(topic, index, after))
        results.append(_row(topic, index))
    return AlteredReassignments(tuple(results)), records


def _check_target(
    metadata: ClusterMetadata, partition: PartitionInfo, target: Sequence[int], *, allow_factor_change: bool
) -> None:
    why = None
    unknown = [broker for broker in target if broker not in metadata.brokers]
    if not target or len(set(target)) != len(target):
        why = "is empty or names a broker twice"
    elif unknown:
        why = f"names unknown broker {unknown[0]}"
    if why is not None:
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replica assignment {list(target)} {why}")
    factor = len(without(partition.replicas, partition.removing))  # the present one, or that of the move under way
    if not allow_factor_change and len(target) != factor:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"{list(target)} changes the replication factor, which is {factor}"
        )


def _begun(partition: PartitionInfo, target: tuple[int, ...]) -> PartitionInfo:
    """The partition with its move to `target` begun. A move that was under way before is given up."""
    original = without(partition.replicas, partition.adding)
    removing = without(original, target)
    replicas = target + removing
    if partition.leader != NO_LEADER and partition.leader not in replicas:
        replicas, removing = (*replicas, partition.leader), (*removing, partition.leader)
    adding = without(target, original)
    if (replicas, adding, removing) == (partition.replicas, partition.adding, partition.removing):
        return partition
    isr = tuple(broker for broker in replicas if broker in partition.isr)
    elr = tuple(broker for broker in replicas if broker in partition.elr)
    return changed(partition, replicas=replicas, isr=isr, elr=elr, adding=adding, removing=removing)


def _cancelled(partition: PartitionInfo, topic: str, index: int, alive: frozenset[int]) -> PartitionInfo:
    if not partition.adding and not partition.removing:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic}-{index} is not being reassigned")
    replicas = without(partition.replicas, partition.adding)
    isr = without(partition.isr, partition.adding)
    elr = without(partition.elr, partition.adding)
    after = changed(partition, replicas=replicas, isr=isr, elr=elr, adding=(), removing=())
    return after if not isr or after.leader in (*replicas, NO_LEADER) else elect(after, alive)


def _check_holders(before: PartitionInfo, after: PartitionInfo, needed: int) -> None:
    """Raise RefusedError if the end of a move would leave out brokers that are needed for what has committed."""
    left = {*before.isr, *before.elr} - {*after.isr, *after.elr}
    if not after.isr or (left and len({*after.isr, *after.elr}) < min(needed, len(after.replicas))):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"without brokers {sorted(left)} only {list(after.isr)} of {list(after.replicas)} are in sync, and "
            f"min.insync.replicas={needed}; try again once others are",
        )


# --- elections on demand ----------------------------------------------------------------------------------------


def elect_leaders(metadata: ClusterMetadata, config: BrokerConfig, asked: ElectLeaders) -> Decision:
    """Elect a leader for each partition, or refuse it."""
    everything = [(name, i) for name, topic in metadata.topics.items() for i in range(len(topic.partitions))]
    results: list[PartitionOutcome] = []
    records: list[Record] = []
    alive = frozenset(broker.id for broker in metadata.alive())
    for topic, index in everything if asked.partitions is None else asked.partitions:
        try:
            before = _partition(metadata, topic, index)
            after = _elected(before, alive, asked.type, min_insync(metadata, config, topic))
        except Exception as error:
            refusal = refusal_for(error)
            if asked.partitions is not None or refusal.code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.append(_row(topic, index, refusal))
            continue
        records.append(partition_record(topic, index, after))
        results.append(_row(topic, index))
    return ElectedLeaders(tuple(results)), records


def _elected(partition: PartitionInfo, alive: frozenset[int], kind: int, needed: int) -> PartitionInfo:
    if kind == UNCLEAN:
        if partition.leader != NO_LEADER:
            raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads")
        after = elect(partition, alive, min_insync=needed, unclean=True)
        if after.leader == NO_LEADER:
            raise RefusedError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive")
        return after
    if partition.leader == partition.replicas[0]:
        raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, "the first replica leads already")
    after = preferred(partition, alive)
    if after is partition:
        raise RefusedError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {partition.replicas[0]} is not alive and in sync"
        )
    return after
