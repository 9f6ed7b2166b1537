"""What a status and DescribeQuorum show of the brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from actors.controller.sessions import Session
from actors.links.operations import Observer, Quorum
from actors.links.removals import RemovalStatus
from actors.links.status import BrokerStatus, ClusterStatus
from placement.metadata import BrokerInfo, ClusterMetadata


def cluster_status(
    here: ClusterStatus,
    metadata: ClusterMetadata,
    brokers: Mapping[int, Session],
    node_of: Callable[[int], str],
    removal_of: Callable[[int], RemovalStatus | None],
) -> ClusterStatus:
    """All brokers of the metadata. `here` says what is known of the controller's process; `brokers` are registered."""

    def row(broker: BrokerInfo) -> BrokerStatus:
        session = brokers.get(broker.id)
        pid, load = (None, None) if session is None else (session.pid, session.load)
        address = (broker.host, broker.port, broker.rack)
        return BrokerStatus(
            *(broker.id, *address, broker.epoch, broker.alive, pid, load, node_of(broker.id)),
            removal=removal_of(broker.id),
        )

    return replace(
        here,
        cluster_id=metadata.cluster_id,
        controller_epoch=metadata.controller_epoch,
        brokers=tuple(row(broker) for _, broker in sorted(metadata.brokers.items())),
    )


def described_quorum(
    metadata: ClusterMetadata, brokers: Mapping[int, Session], address: tuple[str, int], now: float, now_ms: int
) -> Quorum:
    """How far each registered broker has the metadata. `now` is the loop's time in seconds, `now_ms` wall time."""
    version = metadata.version

    def row(broker_id: int, session: Session) -> Observer:
        caught_up = session.last_heard if session.acked_version >= version else session.caught_up
        times = [-1 if at is None else now_ms - round((now - at) * 1000) for at in (session.last_heard, caught_up)]
        return Observer(broker_id, session.acked_version, *times)

    host, port = address
    return Quorum(
        controller_epoch=metadata.controller_epoch,
        log_end_offset=version,
        now_ms=now_ms,
        host=host,
        port=port,
        brokers=tuple(row(broker_id, session) for broker_id, session in sorted(brokers.items())),
    )
