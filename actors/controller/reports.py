"""The brokers as a status and DescribeQuorum show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from actors.controller.others import NodeState
from actors.controller.sessions import Session
from actors.links.operations import Observer, Quorum, QuorumNode, Shards
from actors.links.removals import RemovalStatus
from actors.links.status import Absence, BrokerStatus, ClusterStatus, ControllerStatus, Refill
from placement.metadata import BrokerInfo, ClusterMetadata, ControllerInfo, PartitionInfo


def cluster_status(
    here: ClusterStatus,
    metadata: ClusterMetadata,
    brokers: Mapping[int, Session],
    node_of: Callable[[int], str],
    removal_of: Callable[[int], RemovalStatus | None],
    drained_until: Callable[[int], int | None],
) -> ClusterStatus:
    """All brokers of the metadata. `here` says what is known of the controller's process; `brokers` are registered."""

    def row(broker: BrokerInfo) -> BrokerStatus:
        session = brokers.get(broker.id)
        pid, load = (None, None) if session is None else (session.pid, session.load)
        address = (broker.host, broker.port, broker.rack)
        return BrokerStatus(
            *(broker.id, *address, broker.epoch, broker.alive, pid, load, node_of(broker.id)),
            removal=removal_of(broker.id),
            drained_until_ms=drained_until(broker.id),
        )

    return replace(
        here,
        cluster_id=metadata.cluster_id,
        controller_epoch=metadata.controller_epoch,
        brokers=tuple(row(broker) for _, broker in sorted(metadata.brokers.items())),
    )


def with_shards(
    found: ClusterStatus,
    metadata: ClusterMetadata,
    told: Mapping[int, Shards],
    absence: Callable[[int], Absence | None],
) -> ClusterStatus:
    """The same with what brokers have told of themselves and others, who is away, and who has yet to catch up."""
    behind = Counter(broker for partition in _partitions(metadata) for broker in _out_of_sync(partition))
    left = Counter[int]()
    for each in told.values():
        left.update({refill.broker_id: refill.size_bytes for refill in each.refills})

    def row(broker: BrokerStatus) -> BrokerStatus:
        shards = told[broker.id].shards if broker.id in told else ()
        fills = broker.alive and behind[broker.id] > 0
        refill = Refill(broker.id, behind[broker.id], left[broker.id]) if fills else None
        return replace(broker, shards=shards, absence=absence(broker.id), refill=refill)

    return replace(found, brokers=tuple(map(row, found.brokers)))


def _partitions(metadata: ClusterMetadata) -> Iterable[PartitionInfo]:
    return (partition for topic in metadata.topics.values() for partition in topic.partitions)


def _out_of_sync(partition: PartitionInfo) -> Iterable[int]:
    return set(partition.replicas).difference(partition.isr)


def quorum_nodes(nodes: Sequence[NodeState], metadata: ClusterMetadata, now_ms: int) -> tuple[QuorumNode, ...]:
    """The controllers of a quorum, with the addresses that the metadata has. `now_ms` is wall time."""

    def row(state: NodeState) -> QuorumNode:
        known = metadata.controllers.get(state.node.id)
        if known is None or known.directory != state.node.directory:
            known = ControllerInfo(state.node.id, state.node.directory, "", 0, 0)
        return QuorumNode(
            state.node.id,
            state.node.directory,
            known.host,
            known.port,
            state.offset,
            heard_ms=ago(state.heard_ago_s),
            caught_up_ms=ago(state.caught_up_ago_s),
            votes=state.votes,
            leads=state.leads,
        )

    def ago(age_s: float | None) -> int:
        return -1 if age_s is None else now_ms - round(age_s * 1000)

    return tuple(map(row, nodes))


def controllers_of(nodes: Sequence[QuorumNode], log_end: int) -> tuple[ControllerStatus, ...]:
    """The controllers of a quorum as a status shows them; none where there is one alone."""

    def row(node: QuorumNode) -> ControllerStatus:
        role = "Leader" if node.leads else "Voter" if node.votes else "Observer"
        lag = max(log_end - node.log_end_offset, 0)
        address = (node.controller_id, node.directory, node.host, node.port)
        return ControllerStatus(*address, role, lag, node.heard_ms, node.caught_up_ms)

    return tuple(map(row, nodes)) if len(nodes) > 1 else ()


def described_quorum(
    metadata: ClusterMetadata,
    brokers: Mapping[int, Session],
    address: tuple[str, int],
    now: float,
    now_ms: int,
    log_end: int,
    nodes: Sequence[NodeState] = (),
) -> Quorum:
    """The version of the metadata at each controller and registered broker.

    `now` is the loop's time in s, `now_ms` wall time, `log_end` the number of records that the leader's log has.
    """
    version = metadata.version

    def row(broker_id: int, session: Session) -> Observer:
        caught_up = session.last_heard if session.acked_version >= version else session.caught_up
        times = [-1 if at is None else now_ms - round((now - at) * 1000) for at in (session.last_heard, caught_up)]
        return Observer(broker_id, session.acked_version, *times)

    host, port = address
    return Quorum(
        controller_epoch=metadata.controller_epoch,
        log_end_offset=log_end,
        now_ms=now_ms,
        host=host,
        port=port,
        brokers=tuple(row(broker_id, session) for broker_id, session in sorted(brokers.items())),
        high_watermark=version,
        controllers=quorum_nodes(nodes, metadata, now_ms),
    )
