"""Moving partitions to other brokers (KIP-455) and leadership on demand (KIP-460): what the controller decides.

Functions of the cluster's metadata: they return results and records, and apply nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.controller.decisions.elections import ground_of, may_be_preferred, preferred
from actors.controller.decisions.pairs import Ground, Key, led_together, records_of
from actors.links.operations import (
    AlteredReassignments,
    AlterReassignments,
    ElectedLeaders,
    ElectLeaders,
    PartitionOutcome,
    Reassignment,
)
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, ClusterMetadata, PartitionInfo, changed
from placement.reassignment import without
from placement.records import PartitionRecord, Record, one_by_one
from placement.together import Election, Outcome, kept, settled

PREFERRED, UNCLEAN = 0, 1


def _partition(metadata: ClusterMetadata, topic: str, index: int) -> PartitionInfo:
    found = metadata.partition(topic, index)
    if found is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
    return found


def _row(topic: str, index: int, refusal: RefusedError | None = None) -> PartitionOutcome:
    return PartitionOutcome(topic, index, int(refusal.code) if refusal else 0, str(refusal) if refusal else None)


# --- reassignments ----------------------------------------------------------------------------------------------


def alter_reassignments(
    metadata: ClusterMetadata, config: BrokerConfig, asked: AlterReassignments, new_id: NewId
) -> Decision:
    """Begin the move of each partition, or end the one under way, or refuse it."""
    results: list[PartitionOutcome] = []
    outcomes: dict[Key, Outcome] = {}
    ground = ground_of(metadata, config)
    for move in asked.partitions:
        try:
            outcomes |= moved(ground, move, allow_factor_change=asked.allow_factor_change)
        except RefusedError as refusal:
            results.append(_row(move.topic, move.index, refusal))
            continue
        results.append(_row(move.topic, move.index))
    return AlteredReassignments(tuple(results)), records_of(ground, outcomes, moves_end=True)


def moved(ground: Ground, move: Reassignment, *, allow_factor_change: bool) -> dict[Key, Outcome]:
    """A partition, and those that are led together with it, at the beginning or end of a move of one of them.

    Raises RefusedError.
    """
    _partition(ground.metadata, move.topic, move.index)
    data, *states = led_together(ground.metadata, (move.topic, move.index))
    before = ground.partition(data)
    if move.replicas is None:
        outcome = _cancelled(before, *data, ground.alive)
    else:
        _check_target(ground.metadata, before, move.replicas, allow_factor_change=allow_factor_change)
        outcome = _begun(before, move.replicas)
    outcomes = {data: outcome, **{key: _alongside(ground, key, kept(outcome)) for key in states}}
    for key, after in outcomes.items():
        _check_holders(ground.partition(key), settled(after), ground.needed(key[0]))
    return outcomes


def _check_target(
    metadata: ClusterMetadata, partition: PartitionInfo, target: Sequence[int], *, allow_factor_change: bool
) -> None:
    why = None
    unknown = [broker for broker in target if broker not in metadata.brokers]
    leaving = [broker for broker in target if broker in metadata.removals]
    drained = [broker for broker in target if broker in metadata.draining and broker not in partition.replicas]
    if not target or len(set(target)) != len(target):
        why = "is empty or names a broker twice"
    elif unknown:
        why = f"names unknown broker {unknown[0]}"
    elif leaving:
        why = f"names broker {leaving[0]}, which is being removed"
    elif drained:
        why = f"names broker {drained[0]}, whose Ray node is drained"
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


def _cancelled(partition: PartitionInfo, topic: str, index: int, alive: frozenset[int]) -> Outcome:
    if not partition.adding and not partition.removing:
        raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic}-{index} is not being reassigned")
    replicas = without(partition.replicas, partition.adding)
    isr = without(partition.isr, partition.adding)
    elr = without(partition.elr, partition.adding)
    after = changed(partition, replicas=replicas, isr=isr, elr=elr, adding=(), removing=())
    return after if not isr or after.leader in (*replicas, NO_LEADER) else Election(after, alive)


def _alongside(ground: Ground, key: Key, data: PartitionInfo) -> Outcome:
    """A state partition with the replicas of its data partition, and on the same move."""
    before, replicas = ground.partition(key), data.replicas
    if (replicas, data.adding, data.removing) == (before.replicas, before.adding, before.removing):
        return before
    isr = tuple(broker for broker in replicas if broker in before.isr)
    elr = tuple(broker for broker in replicas if broker in before.elr)
    after = changed(before, replicas=replicas, isr=isr, elr=elr, adding=data.adding, removing=data.removing)
    return after if not isr or after.leader in (*replicas, NO_LEADER) else Election(after, ground.alive)


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


def elect_leaders(metadata: ClusterMetadata, config: BrokerConfig, asked: ElectLeaders, new_id: NewId) -> Decision:
    """Elect a leader for each partition, or refuse it."""
    everything = [(name, i) for name, topic in metadata.topics.items() for i in range(len(topic.partitions))]
    results: list[PartitionOutcome] = []
    records: list[Record] = []
    ground = ground_of(metadata, config)
    for topic, index in everything if asked.partitions is None else asked.partitions:
        try:
            made = _elected(ground, (topic, index), asked.type)
        except RefusedError as refusal:
            if asked.partitions is not None or refusal.code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.append(_row(topic, index, refusal))
            continue
        records += made
        results.append(_row(topic, index))
    return ElectedLeaders(tuple(results)), records


def _elected(ground: Ground, key: Key, kind: int) -> list[Record]:
    partition = _partition(ground.metadata, *key)
    if kind == UNCLEAN:
        if partition.leader != NO_LEADER:
            raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads")
        election = Election(partition, ground.alive, ground.needed(key[0]), unclean=True)
        return _records(ground, key, election, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive")
    if key != (data := led_together(ground.metadata, key)[0]):
        raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, f"{key[0]}-{key[1]} is led with {data[0]}-{data[1]}")
    if partition.leader == partition.replicas[0]:
        raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, "the first replica leads already")
    first = partition.replicas[0]
    text = f"broker {first} {_why_not_first(ground.metadata, first)}"
    outcome = preferred(partition, may_be_preferred(ground.metadata))
    return _records(ground, key, outcome, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)


def _why_not_first(metadata: ClusterMetadata, broker_id: int) -> str:
    if broker_id in metadata.removals:
        return "is being removed"
    return "is on a Ray node that is drained" if broker_id in metadata.draining else "is not alive and in sync"


def _records(ground: Ground, key: Key, outcome: Outcome, otherwise: ErrorCode, text: str) -> list[Record]:
    """The records of an election. Raises RefusedError if it gives nobody the lead."""
    records = records_of(ground, {key: outcome})
    changes = [each for each in one_by_one(records) if isinstance(each, PartitionRecord)]
    leaders = {(each.topic, each.index): each.partition.leader for each in changes}
    if leaders.get(key, NO_LEADER) == NO_LEADER:
        raise RefusedError(otherwise, text)
    return records
