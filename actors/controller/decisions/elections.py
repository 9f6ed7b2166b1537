"""Decisions about leaders and in-sync sets, when brokers come, go, or report.

Functions of the cluster's metadata: they return records, and apply nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.controller.decisions.pairs import Ground, Key, led_together, records_of
from actors.links.operations import (
    AlteredPartitions,
    AlterPartitions,
    BrokerLeaving,
    Done,
    IsrOutcome,
    ProposedIsr,
    ReplicaTorn,
)
from actors.settings import BrokerConfig, topic_value
from actors.wire.errors import ErrorCode
from placement.metadata import (
    NO_LEADER,
    ClusterMetadata,
    PartitionInfo,
    changed,
    with_isr,
)
from placement.records import BrokerRecord, Record
from placement.together import Election, Outcome

_Change: TypeAlias = Callable[[str, PartitionInfo], Outcome]


def _partitions(metadata: ClusterMetadata) -> Iterable[tuple[str, int, PartitionInfo]]:
    for topic in metadata.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic.name, index, partition


def ground_of(metadata: ClusterMetadata, config: BrokerConfig | None, alive: frozenset[int] | None = None) -> Ground:
    """The ground for decisions. `alive` are the brokers that may be elected; None: all that are alive."""
    return Ground(metadata, _alive(metadata) if alive is None else alive, partial(min_insync, metadata, config))


def _changes(ground: Ground, change: _Change) -> list[Record]:
    """The records of what `change` changes."""
    return records_of(
        ground,
        {
            (name, index): outcome
            for name, index, before in _partitions(ground.metadata)
            if (outcome := change(name, before)) is not before
        },
    )


def _alive(metadata: ClusterMetadata) -> frozenset[int]:
    return frozenset(broker.id for broker in metadata.alive())


def _unclean(metadata: ClusterMetadata, config: BrokerConfig | None, topic: str) -> bool:
    """True if a replica out of sync may lead the topic when no other can.

    The topic's own setting counts, else the one for all brokers. One that is set for a single broker does not, because
    the controller, which is none of them, holds the election.
    """
    if config is None:
        return False
    key = "unclean.leader.election.enable"
    configs = metadata.topics[topic].configs
    return bool(topic_value(key, configs if key in configs else metadata.broker_configs.get("", {}), config))


def min_insync(metadata: ClusterMetadata, config: BrokerConfig | None, topic: str) -> int:
    """`min.insync.replicas` of a topic; the least one, if it is set differently for single brokers."""
    if config is None:
        return 1
    key = "min.insync.replicas"
    configs = metadata.topics[topic].configs
    defaults = [int(each[key]) for each in metadata.broker_configs.values() if key in each]
    value = int(topic_value(key, configs, config))
    return value if key in configs else min([value, *defaults])


def _without(partition: PartitionInfo, broker_id: int, needed: int) -> PartitionInfo:
    """The partition without the broker in its in-sync set, unless it is the last member. Leader and epoch stay."""
    if broker_id not in partition.isr or len(partition.isr) == 1:
        return partition
    return with_isr(partition, tuple(replica for replica in partition.isr if replica != broker_id), needed)


def _without_torn(partition: PartitionInfo, broker_id: int, needed: int) -> PartitionInfo:
    """The partition after a broker may have lost the end of its log: the broker is out of sync and may not lead.

    Unless it is the last one that may lead: then its log is the best there is.
    """
    kept = _without(partition, broker_id, needed)
    elr = tuple(replica for replica in kept.elr if replica != broker_id)
    if kept.isr == (broker_id,) and elr:
        return changed(kept, isr=elr, elr=())
    return kept if elr == kept.elr else changed(kept, elr=elr)


# --- brokers come and go ----------------------------------------------------------------------------------------


def broker_registered(
    metadata: ClusterMetadata, broker_id: int, *, intact: bool = True, config: BrokerConfig | None = None
) -> list[Record]:
    """The elections when a broker's new process has been entered in the metadata.

    It leads partitions without a leader for which it is in sync; and at a new epoch those that its predecessor led, if
    nobody noticed that one's death. If it is not `intact` it may have lost the end of its logs: it leaves every in-sync
    set of which it is not the last member, and has to catch up.
    """
    alive = _alive(metadata)

    def change(topic: str, partition: PartitionInfo) -> Outcome:
        needed, unclean = min_insync(metadata, config, topic), _unclean(metadata, config, topic)
        kept = partition if intact else _without_torn(partition, broker_id, needed)
        eligible = unclean or bool(alive & {*kept.isr, *kept.elr})
        if partition.leader == broker_id or (partition.leader == NO_LEADER and eligible):
            return Election(kept, alive, needed, unclean)
        return kept

    return _changes(ground_of(metadata, config), change)


def broker_lost(metadata: ClusterMetadata, broker_id: int, *, config: BrokerConfig | None = None) -> list[Record]:
    """A broker has died, left, or not come: another replica leads what it led, if one in sync is alive."""
    broker = metadata.brokers.get(broker_id)
    if broker is None:
        return []
    alive = _alive(metadata) - {broker_id}

    def change(topic: str, partition: PartitionInfo) -> Outcome:
        needed, unclean = min_insync(metadata, config, topic), _unclean(metadata, config, topic)
        if partition.leader == broker_id:
            return Election(partition, alive, needed, unclean)
        kept = _without(partition, broker_id, needed)
        if kept is not partition and kept.leader == NO_LEADER and alive & {*kept.isr, *kept.elr}:
            return Election(kept, alive, needed)
        return kept

    records = [BrokerRecord(replace(broker, alive=False))] if broker.alive else []
    return records + _changes(ground_of(metadata, config, alive), change)


def all_stopped(metadata: ClusterMetadata) -> list[Record]:
    """No broker of an earlier run is alive. They stopped together, so the in-sync sets stay as they were."""

    def change(topic: str, partition: PartitionInfo) -> Outcome:
        if partition.leader == NO_LEADER:
            return partition
        return changed(partition, leader=NO_LEADER, leader_epoch=partition.leader_epoch + 1)

    gone = [BrokerRecord(replace(broker, alive=False)) for broker in metadata.alive()]
    return gone + _changes(ground_of(metadata, None), change)


def broker_leaving(metadata: ClusterMetadata, broker_id: int, *, config: BrokerConfig | None = None) -> list[Record]:
    """A broker is about to stop: others that are in sync lead what it leads, and it leaves the in-sync sets.

    It is noted that it leaves. Its leaders may hear of all this before they read the end of its connection, and would
    otherwise bring it back into the sets.
    """
    others = _alive(metadata) - {broker_id}

    def change(topic: str, partition: PartitionInfo) -> Outcome:
        needed = min_insync(metadata, config, topic)
        if not others & set(partition.isr):
            return partition
        if partition.leader == broker_id:
            return Election(partition, others, needed)
        return _without(partition, broker_id, needed)

    ground = ground_of(metadata, config, others)
    return _noted_leaving(metadata, broker_id, True) + _changes(ground, change)


def broker_staying(metadata: ClusterMetadata, broker_id: int) -> list[Record]:
    """A broker follows again: it was not stopped after it had handed over, or did not hear that it had."""
    return _noted_leaving(metadata, broker_id, False)


def _noted_leaving(metadata: ClusterMetadata, broker_id: int, leaving: bool) -> list[Record]:
    broker = metadata.brokers.get(broker_id)
    if broker is None or broker.leaving == leaving:
        return []
    return [BrokerRecord(replace(broker, leaving=leaving))]


def preferred_elected(metadata: ClusterMetadata, *, config: BrokerConfig | None = None) -> list[Record]:
    """Make the first replica of each partition its leader, if that one is alive and in sync."""
    able = may_be_preferred(metadata)
    return _changes(ground_of(metadata, config), lambda topic, partition: preferred(partition, able))


def leadership_balanced(
    metadata: ClusterMetadata, percentage: int, *, config: BrokerConfig | None = None
) -> list[Record]:
    """Elections that give leadership back to brokers that lack more than `percentage` of what they should lead.

    A broker should lead the partitions whose first replica it has (Kafka's leader.imbalance.per.broker.percentage).
    """
    able = may_be_preferred(metadata)
    meant: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for _, _, partition in _partitions(metadata):
        meant[partition.replicas[0]] += 1
        elsewhere[partition.replicas[0]] += partition.leader != partition.replicas[0]
    short = {broker for broker in meant if elsewhere[broker] * 100 > percentage * meant[broker]}

    def change(topic: str, partition: PartitionInfo) -> Outcome:
        moving = partition.adding or partition.removing
        return partition if moving or partition.replicas[0] not in short else preferred(partition, able)

    return _changes(ground_of(metadata, config), change)


def may_be_preferred(metadata: ClusterMetadata) -> frozenset[int]:
    """The brokers that lead again because they are first replicas: those that are alive and stay."""
    return frozenset(broker.id for broker in metadata.placeable())


def preferred(partition: PartitionInfo, able: frozenset[int]) -> PartitionInfo:
    """The partition with its first replica as leader; unchanged if that one leads already, or is not able or in sync.

    The in-sync set stays as it is.
    """
    first = partition.replicas[0]
    if partition.leader == first or first not in able or first not in partition.isr:
        return partition
    return changed(partition, leader=first, leader_epoch=partition.leader_epoch + 1)


def led_elsewhere(
    metadata: ClusterMetadata, config: BrokerConfig | None, leaving: Collection[int], able: Sequence[Collection[int]]
) -> list[Record]:
    """Other brokers that are in sync lead what those `leaving` lead, which stay in sync.

    Of the brokers in `able` the first ones do it that can. A partition that none of them can lead stays where it is.
    """
    ground = ground_of(metadata, config)
    outcomes: dict[Key, Outcome] = {}
    for name, index, partition in _partitions(metadata):
        if partition.leader not in leaving or (keys := led_together(metadata, (name, index)))[0] != (name, index):
            continue
        led = [each for each in map(ground.partition, keys) if each.leader != NO_LEADER]
        in_sync = [broker for broker in partition.replicas if all(broker in each.isr for each in led)]
        leader = next((broker for those in able for broker in in_sync if broker in those), None)
        if leader is not None:
            epoch = partition.leader_epoch + 1
            outcomes[name, index] = changed(partition, leader=leader, leader_epoch=epoch)
    return records_of(ground, outcomes)


def eligible_forgotten(metadata: ClusterMetadata) -> list[Record]:
    """Forget eligible leaders, because a change of `min.insync.replicas` may let records commit that they lack."""

    def change(topic: str, partition: PartitionInfo) -> Outcome:
        return changed(partition, elr=()) if partition.elr else partition

    return _changes(ground_of(metadata, None), change)


# --- what leaders report ----------------------------------------------------------------------------------------


def alter_partitions(
    metadata: ClusterMetadata, config: BrokerConfig, proposed: AlterPartitions, new_id: NewId
) -> Decision:
    """Record the in-sync sets that leaders propose, or refuse them (KIP-497)."""
    sender = metadata.brokers.get(proposed.broker_id)
    stale = sender is None or not sender.alive or sender.epoch != proposed.broker_epoch
    results: list[IsrOutcome] = []
    outcomes: dict[Key, Outcome] = {}
    for asked in proposed.partitions:
        name = metadata.names.get(asked.topic_id)
        partition = metadata.partition(name, asked.index) if name is not None else None
        if stale:
            code = ErrorCode.STALE_BROKER_EPOCH
        elif name is None or partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            code = _judge(metadata, partition, proposed.broker_id, asked)
            if code is ErrorCode.NONE:
                outcomes[name, asked.index] = _recorded(metadata, config, name, partition, asked)
        results.append(IsrOutcome(asked.topic_id, asked.index, int(code)))
    return AlteredPartitions(tuple(results)), records_of(ground_of(metadata, config), outcomes, moves_end=True)


def _recorded(
    metadata: ClusterMetadata,
    config: BrokerConfig,
    topic: str,
    partition: PartitionInfo,
    asked: ProposedIsr,
) -> PartitionInfo:
    members = {broker for broker, _ in asked.isr}
    isr = tuple(replica for replica in partition.replicas if replica in members)
    return with_isr(partition, isr, min_insync(metadata, config, topic))


def replica_torn(metadata: ClusterMetadata, config: BrokerConfig, torn: ReplicaTorn, new_id: NewId) -> Decision:
    """A broker that is alive has lost the ends of these logs.

    Raises RefusedError if the broker's epoch is not its present one. Between its hello and the welcome it does not know
    that yet, and has to repeat the call.
    """
    broker_id, epoch = torn.broker_id, torn.broker_epoch
    sender = metadata.brokers.get(broker_id)
    outcomes: dict[Key, Outcome] = {}
    if sender is None or sender.epoch != epoch:
        raise RefusedError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered at epoch {epoch}")
    for topic_id, index in torn.partitions:
        name = metadata.names.get(topic_id)
        partition = metadata.partition(name, index) if name is not None else None
        if name is None or partition is None:
            continue
        needed = min_insync(metadata, config, name)
        kept = _without_torn(partition, broker_id, needed)
        if partition.leader == broker_id:
            outcomes[name, index] = Election(kept, _alive(metadata), needed)
        elif kept is not partition:
            outcomes[name, index] = kept
    return Done(), records_of(ground_of(metadata, config), outcomes)


def leave(metadata: ClusterMetadata, config: BrokerConfig, asked: BrokerLeaving, new_id: NewId) -> Decision:
    """A broker says that it is about to stop."""
    return Done(), broker_leaving(metadata, asked.broker_id, config=config)


def _judge(metadata: ClusterMetadata, partition: PartitionInfo, broker_id: int, asked: ProposedIsr) -> ErrorCode:
    """The error code with which a proposed in-sync set is refused; NONE if it is recorded."""
    members = dict(asked.isr)
    if partition.leader != broker_id or partition.leader_epoch != asked.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if partition.partition_epoch != asked.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if broker_id not in members or not set(members) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    for member, epoch in members.items():
        broker = metadata.brokers.get(member)
        if member in partition.isr and epoch < 0:
            continue  # the leader does not know its epoch; had it another process, we would have removed it
        if broker is None or not broker.alive or broker.epoch != epoch:
            return ErrorCode.INELIGIBLE_REPLICA
        if broker.leaving and member not in partition.isr:
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
