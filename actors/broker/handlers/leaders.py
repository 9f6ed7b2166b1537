"""Who leads a partition, as Metadata and DescribeTopicPartitions answer.

Produce and Fetch tell it, too, to clients that asked the wrong broker (KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, TypeVar

from actors.broker.context import BrokerContext
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, PartitionInfo

T = TypeVar("T")
WRONG_LEADER = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))


def current_leader(broker: BrokerContext, topic: str, index: int, make: Callable[..., T]) -> T | None:
    """The leader and its epoch as `make(leader_id=..., leader_epoch=...)`; None if no other broker is known to lead."""
    partition = broker.metadata.partition(topic, index)
    if partition is None or partition.leader in (NO_LEADER, broker.broker_id):
        return None
    return make(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


def described_partition(make: Callable[..., T], index: int, partition: PartitionInfo, alive: Container[int]) -> T:
    """A partition as `make(error_code=..., leader_id=..., ...)`. It has no leader while that broker is not alive."""
    led = partition.leader in alive
    return make(
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if led else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[replica for replica in partition.replicas if replica not in alive],
    )


def endpoints(broker: BrokerContext, leaders: Iterable[Any], make: Callable[..., T]) -> list[T]:
    """The addresses of those leaders that are alive, as `make(node_id=..., host=..., port=..., rack=...)`."""
    brokers = broker.metadata.brokers
    ids = dict.fromkeys(leader.leader_id for leader in leaders)
    found = (brokers[i] for i in ids if i in brokers and brokers[i].alive)
    return [make(node_id=b.id, host=b.host, port=b.port, rack=b.rack) for b in found]
