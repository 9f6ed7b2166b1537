"""The partitions a broker leads: whether it may act as leader, and what happens after an append."""

from __future__ import annotations

from actors import CoterieError
from actors.broker.context import BrokerContext, Replication
from actors.log.partition_log import PartitionLog
from actors.wire.errors import ErrorCode
from placement.metadata import PartitionInfo


class LogAccessError(CoterieError):
    """A partition cannot be used here; `code` is what the client gets."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class LedPartitions:
    """The partitions that this broker leads, by the last image and its lease."""

    def __init__(self, context: BrokerContext, replication: Replication) -> None:
        self._context = context
        self._replication = replication
        self._broker_id = context.broker_id

    def leader_of(self, topic: str, index: int, leader_epoch: int = -1) -> PartitionInfo:
        """The partition if this broker leads it at that epoch (-1: any). Raises LogAccessError."""
        partition = self._context.metadata.partition(topic, index)
        if partition is None:
            raise LogAccessError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not self.leads(topic, index, partition):
            raise LogAccessError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            older = leader_epoch < partition.leader_epoch
            raise LogAccessError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        return partition

    def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
        """True if this broker may act as the partition's leader now. With one replica nobody else can.

        Before it has registered it may not: the metadata may be from before its former process ended.
        """
        if partition.leader != self._broker_id:
            return False
        if len(partition.replicas) == 1:
            return self._replication.registered
        return self._replication.leads(topic, index, partition)

    def appended(self, topic: str, index: int, log: PartitionLog, partition: PartitionInfo) -> None:
        """Records were appended: commit them and wake fetches, or have replication do so when followers have them."""
        if len(partition.replicas) == 1:
            log.advance_high_watermark(log.log_end_offset)
            self._context.fetches.wake(topic, index)
        else:
            self._replication.appended(topic, index, partition)
