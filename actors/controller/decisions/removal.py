"""Removing a broker while the cluster serves: what the controller decides.

A removal is a record. While it is there, nothing is placed on the broker. Others that are in sync lead what it leads,
then its replicas move to other brokers, some partitions at a time (KIP-455), and when it holds nothing any more it is
unregistered: a record, too, after which its id is never used again. Nothing else is remembered. Each step is decided by
the metadata as it is, so that whichever controller there is goes on.

Functions of the cluster's metadata: they return records, and apply nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.controller.decisions.elections import ground_of, led_elsewhere, min_insync
from actors.controller.decisions.pairs import Ground, Key, led_together, records_of
from actors.controller.decisions.reassignments import moved
from actors.controller.decisions.replacement import held_by, sole_copies
from actors.links.operations import BrokerUnregistered, Reassignment, UnregisterBroker
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC, ClusterMetadata, PartitionInfo, Removal
from placement.reassignment import without
from placement.records import REMOVALS, BrokerRemovalRecord, Record, UnregisterBrokerRecord
from placement.together import Outcome
from placement.vacating import vacated

WAVE: Final = 20
"""So many partitions move at a time, of all removals together: all moves share what the network gives, so of few each
ends sooner, and relieves the broker for good."""
_FACTORS: Final = ("default.replication.factor", "min.insync.replicas")
_OFFSETS_FACTOR: Final = "offsets.topic.replication.factor"


# --- whether it can be ------------------------------------------------------------------------------------------


def removal_refused(metadata: ClusterMetadata, config: BrokerConfig, broker_id: int) -> str | None:
    """The reason why a removal may not begin, such as a value that the brokers left could not keep; None if it may."""
    left = staying(metadata) - {broker_id}
    if broker_id not in metadata.brokers:
        return f"there is no broker {broker_id}"
    if metadata.level < REMOVALS:
        return (
            f"coterie.metadata.version is {metadata.level}, and brokers can be removed from {REMOVALS} on: upgrade it "
            "once all brokers have this release"
        )
    if not left:
        return f"broker {broker_id} is the last one: `coterie down` ends a cluster"
    if not metadata.brokers[broker_id].alive and (alone := sole_copies(metadata, broker_id)):
        return (
            f"broker {broker_id} is away, and it alone has everything of {_names(alone)}: bring it back first, or give "
            f"up what it has by `coterie brokers replace {broker_id} --accept-data-loss`"
        )
    return _factors_refused(metadata, config, len(left)) or _racks_refused(metadata, broker_id, left)


def staying(metadata: ClusterMetadata) -> set[int]:
    """The brokers that are not being removed, alive or not."""
    return metadata.brokers.keys() - metadata.removals.keys()


def _factors_refused(metadata: ClusterMetadata, config: BrokerConfig, left: int) -> str | None:
    brokers = f"{left} broker{'s' if left > 1 else ''} would be left"
    for name, topic in sorted(metadata.topics.items()):
        factor = max(len(_target(partition)) for partition in topic.partitions) if topic.partitions else 0
        if factor > left:
            return (
                f"topic {name} has replication factor {factor}, and {brokers}: give it fewer replicas first "
                f"(`coterie topics reassign {name} --replication-factor {left} --execute`), or add a broker"
            )
        needed = min_insync(metadata, config, name)
        if needed > left:
            return f"topic {name} has min.insync.replicas={needed}, and {brokers}: lower it first, or add a broker"
    settings = _FACTORS if OFFSETS_TOPIC in metadata.topics else (*_FACTORS, _OFFSETS_FACTOR)
    for setting in settings:
        if config.integer(setting) > left:
            return (
                f"{setting}={config.integer(setting)}, and {brokers}: new topics could not have that; lower it first "
                f"(`coterie brokers roll --config {setting}={left}`), or add a broker"
            )
    return None


def _racks_refused(metadata: ClusterMetadata, broker_id: int, left: set[int]) -> str | None:
    racks = {broker.id: broker.rack for broker in metadata.brokers.values()}
    if None in racks.values():
        return None  # then none counts
    for (topic, index), partition in held_by(metadata, broker_id):
        replicas = _target(partition)
        others = {racks[broker] for broker in replicas if broker in left}
        can_come = {racks[broker] for broker in left if broker not in replicas} - others
        now = {racks[broker] for broker in replicas if broker in racks}
        if len(now) > len(others) + len(can_come):
            return (
                f"{topic}-{index} is in {len(now)} racks ({', '.join(sorted(map(str, now)))}), and the brokers that "
                f"would be left have no other for it than {', '.join(sorted(map(str, others | can_come)))}: add a "
                f"broker in rack {racks[broker_id]}, or move its partitions first (`coterie topics reassign "
                "--all-topics --brokers ...`)"
            )
    return None


def unregister_broker(
    metadata: ClusterMetadata, config: BrokerConfig, asked: UnregisterBroker, new_id: NewId
) -> Decision:
    """Unregister a broker that holds nothing, as Kafka's tool asks for it, or refuse it."""
    broker_id = asked.broker_id
    if broker_id not in metadata.brokers:
        text = f"broker {broker_id} is not registered"
        return BrokerUnregistered(ErrorCode.BROKER_ID_NOT_REGISTERED, text), []
    held = sum(1 for _ in held_by(metadata, broker_id))
    refused = removal_refused(metadata, config, broker_id)
    if refused is None and held:
        which = f"{held} partition{'s' if held > 1 else ''}"
        refused = f"broker {broker_id} is a replica of {which}: `coterie brokers remove {broker_id}` moves what it has"
    if refused is not None:
        return BrokerUnregistered(ErrorCode.INVALID_REQUEST, refused), []
    return BrokerUnregistered(ErrorCode.NONE, None), [UnregisterBrokerRecord(broker_id)]


# --- beginning and end ------------------------------------------------------------------------------------------


def removal_begun(metadata: ClusterMetadata, broker_id: int, now_ms: int, throttle: int | None) -> list[Record]:
    """Note that the broker is being removed. Of a removal under way it is the throttle that may change."""
    removal = metadata.removals.get(broker_id)
    if removal is None:
        held = sum(1 for _ in held_by(metadata, broker_id))
        return [BrokerRemovalRecord(broker_id, Removal(now_ms, held, throttle or 0))]
    if throttle is None or throttle == removal.throttle:
        return []
    return [BrokerRemovalRecord(broker_id, Removal(removal.begun_ms, removal.partitions, throttle))]


def removal_called_off(metadata: ClusterMetadata, broker_id: int) -> list[Record]:
    """The broker stays, with what it still has. Moves under way go on to their ends."""
    return [BrokerRemovalRecord(broker_id, None)] if broker_id in metadata.removals else []


# --- step by step -----------------------------------------------------------------------------------------------


def removals_go_on(metadata: ClusterMetadata, config: BrokerConfig) -> list[Record]:
    """The next step of all removals; nothing while moves under way have to be waited for."""
    if not metadata.removals:
        return []
    stay = [broker.id for broker in metadata.placeable()]
    return led_elsewhere(metadata, config, metadata.removals, [stay]) or [
        *_next_wave(metadata, config),
        *_unregistered(metadata),
    ]


def _next_wave(metadata: ClusterMetadata, config: BrokerConfig) -> list[Record]:
    ground = ground_of(metadata, config)
    room = WAVE - sum(1 for _, partition in _partitions(metadata) if _is_moving(ground, partition))
    if room <= 0:
        return []
    outcomes: dict[Key, Outcome] = {}
    begun = 0
    for key, replicas in planned_moves(metadata).items():
        if begun >= room:
            break
        try:
            outcomes |= moved(ground, Reassignment(*key, replicas), allow_factor_change=False)
        except RefusedError:
            continue  # as `waits_for` says: what it needs may come back
        begun += 1
    return records_of(ground, outcomes, moves_end=True)


def planned_moves(metadata: ClusterMetadata, also: int | None = None) -> Mapping[Key, tuple[int, ...]]:
    """The replicas that partitions are still to be given, because brokers are being removed, or `also` this one is.

    Those for which brokers that they need are not alive are left out, and so are those that move with others.
    """
    gone = metadata.removals.keys() if also is None else metadata.removals.keys() | {also}
    placed = {key: _target(partition) for key, partition in _partitions(metadata)}
    found = _vacated(metadata, placed, gone)
    return {key: replicas for key, replicas in found.items() if led_together(metadata, key)[0] == key}


def _vacated(
    metadata: ClusterMetadata, placed: Mapping[Key, Sequence[int]], gone: Collection[int]
) -> dict[Key, tuple[int, ...]]:
    takers = [broker.id for broker in metadata.placeable()]
    racks = {broker.id: broker.rack for broker in metadata.brokers.values()}
    return vacated(placed, gone, takers, racks)


def _unregistered(metadata: ClusterMetadata) -> list[Record]:
    """The brokers that hold nothing any more are gone."""
    empty = [broker_id for broker_id in sorted(metadata.removals) if is_empty(metadata, broker_id)]
    return [UnregisterBrokerRecord(broker_id) for broker_id in empty]


def is_empty(metadata: ClusterMetadata, broker_id: int) -> bool:
    """True if no partition has the broker as a replica."""
    return next(held_by(metadata, broker_id), None) is None


# --- how far it is ----------------------------------------------------------------------------------------------


def under_way(metadata: ClusterMetadata, broker_id: int) -> int:
    """The number of partitions that are being moved away from the broker."""
    return sum(1 for _, partition in held_by(metadata, broker_id) if broker_id in partition.removing)


def waits_for(metadata: ClusterMetadata, config: BrokerConfig, broker_id: int) -> str | None:
    """The reason why a removal waits that does not pass by itself; None if nothing keeps it from going on."""
    ground = ground_of(metadata, config)
    for key, partition in held_by(metadata, broker_id):
        why = _why_waits(ground, key, partition)
        if why is not None:
            return f"{key[0]}-{key[1]} {why}"
    return None


def _why_waits(ground: Ground, key: Key, partition: PartitionInfo) -> str | None:
    away = [broker for broker in partition.adding if broker not in ground.alive]
    if partition.leader not in ground.alive:
        return f"has no leader, and {_ids(partition.isr)} could be it"
    if away:
        return f"moves to broker {away[0]}, which is away"
    if set(partition.removing) & ground.metadata.removals.keys():
        return None
    former = _target(partition)
    target = _vacated(ground.metadata, {key: former}, ground.metadata.removals).get(key)  # or one that is as good
    if target is None:
        return f"needs {len(former)} brokers that are alive and stay{_in_racks(ground.metadata)}"
    try:
        moved(ground, Reassignment(*led_together(ground.metadata, key)[0], target), allow_factor_change=False)
    except RefusedError as refusal:
        return f"cannot move: {refusal}"
    return None


def _in_racks(metadata: ClusterMetadata) -> str:
    has_racks = None not in {broker.rack for broker in metadata.brokers.values()}
    return ", in as many racks as now" if has_racks else ""


def _partitions(metadata: ClusterMetadata) -> Iterator[tuple[Key, PartitionInfo]]:
    for topic in metadata.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield (topic.name, index), partition


def _target(partition: PartitionInfo) -> tuple[int, ...]:
    """The replicas of a partition once its move under way has ended."""
    return without(partition.replicas, partition.removing)


def _is_moving(ground: Ground, partition: PartitionInfo) -> bool:
    """True if a replica moves away from a broker that is being removed, and leader and new replicas are alive."""
    leaves = not ground.metadata.removals.keys().isdisjoint(partition.removing)
    return leaves and ground.alive.issuperset((partition.leader, *partition.adding))


def _names(keys: Sequence[Key]) -> str:
    return ", ".join(f"{topic}-{index}" for topic, index in keys)


def _ids(brokers: Sequence[int]) -> str:
    return f"broker {', '.join(map(str, brokers))}" if len(brokers) < 2 else f"one of {', '.join(map(str, brokers))}"
