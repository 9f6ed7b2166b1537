"""The leader of a partition, as Metadata and DescribeTopicPartitions answer.

Produce and Fetch tell it, too, to clients that asked the wrong broker (KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, TypeVar

from actors.broker.context import BrokerContext
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, Endpoint, PartitionInfo

T = TypeVar("T")
WRONG_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))


def current_leader(broker: BrokerContext, topic: str, index: int, make: Callable[..., T]) -> T | None:
    """The leader and its epoch as `make(leader_id=..., leader_epoch=...)`; None if no other broker is known to lead."""
    partition = broker.metadata.partition(topic, index)
    if partition is None or partition.leader in (NO_LEADER, broker.broker_id):
        return None
    return make(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


def reachable(broker: BrokerContext, listener: str) -> dict[int, Endpoint]:
    """The endpoints of a listener, by the id of each living broker that has it; by ids."""
    found = ((each.id, each.endpoint(listener)) for each in broker.metadata.alive())
    return {broker_id: endpoint for broker_id, endpoint in found if endpoint is not None}


def described_partition(
    make: Callable[..., T],
    index: int,
    partition: PartitionInfo,
    alive: Container[int],
    reached: Container[int],
    elsewhere: ErrorCode = ErrorCode.LISTENER_NOT_FOUND,
) -> T:
    """A partition as `make(error_code=..., leader_id=..., ...)`. It has no leader while that broker is not alive.

    Nor has it one for a client whose listener the leader has not: it is answered `elsewhere`.
    """
    led = partition.leader in reached
    missing = elsewhere if partition.leader in alive else ErrorCode.LEADER_NOT_AVAILABLE
    return make(
        error_code=ErrorCode.NONE if led else missing,
        partition_index=index,
        leader_id=partition.leader if led else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[replica for replica in partition.replicas if replica not in alive],
    )


def endpoints(broker: BrokerContext, listener: str, leaders: Iterable[Any], make: Callable[..., T]) -> list[T]:
    """The addresses of those leaders that clients of a listener reach, as `make(node_id=..., host=..., ...)`."""
    at = reachable(broker, listener)
    ids = dict.fromkeys(leader.leader_id for leader in leaders)
    return [described_broker(make, broker, i, at[i]) for i in ids if i in at]


def described_broker(make: Callable[..., T], broker: BrokerContext, broker_id: int, at: Endpoint) -> T:
    """A broker as `make(node_id=..., host=..., port=..., rack=...)`."""
    return make(node_id=broker_id, host=at.host, port=at.port, rack=broker.metadata.brokers[broker_id].rack)
