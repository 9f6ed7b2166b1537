"""The one place that writes what shards know to a log. Only a partition's present shard may append, at its epoch."""

from __future__ import annotations

import logging

from actors.broker.context import BrokerContext
from actors.broker.coordinators.link import ShardLink
from actors.broker.coordinators.partitions import Partitions
from actors.broker.led import LedPartitions
from actors.links.relay import OFFSETS, Kind
from actors.records.errors import LogError
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode

log = logging.getLogger(__name__)


class Appending:
    """Appends the decisions of a kind's shards, and tells them what has committed."""

    def __init__(self, context: BrokerContext, led: LedPartitions, topic: str, partitions: Partitions) -> None:
        self._context = context
        self._topic = topic
        self._led = led
        self._partitions = partitions

    def append(self, link: ShardLink, partition: int, number: int, batch: bytes) -> None:
        """Append a batch for a shard, or refuse it. The answer repeats `number`, which the shard has chosen."""
        if link.partition != partition:
            return  # sent before it heard that it must resign; it has forgotten by now
        context, topic = self._context, self._topic
        info = context.metadata.partition(topic, partition)
        if info is None or info.leader_epoch != link.epoch or not self._partitions.led(partition):
            _refuse(link, number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if len(info.isr) < context.min_insync_replicas(topic):
            _refuse(link, number, ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        try:
            partition_log = context.log(topic, partition)
            result = partition_log.append_as_leader(batch, info.leader_epoch, context.now_ms(), internal=True)
        except LogError as error:
            _refuse(link, number, error.error_code)
            return
        except OSError as error:
            # Out of here it would end the relay: the shard would load again and run into it again, in a circle.
            log.error("%s-%d: %s", topic, partition, error, extra=at(topic, partition))
            _refuse(link, number, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        next_offset = result.last_offset + 1
        link.protocol.send(Kind.APPENDED, partition, number, OFFSETS.pack(result.base_offset, next_offset))
        self._led.appended(topic, partition, partition_log, info)
        if len(info.replicas) == 1:  # else it is told when the followers have it
            link.protocol.send(Kind.HIGH_WATERMARK, 0, partition_log.high_watermark)

    def watermark(self, partition: int, offset: int) -> None:
        """Tell the partition's shard that all below `offset` has committed."""
        link = self._partitions.links.get(partition)
        if link is not None:
            link.protocol.send(Kind.HIGH_WATERMARK, 0, offset)


def _refuse(link: ShardLink, number: int, code: int) -> None:
    link.protocol.send(Kind.REFUSED, int(code), number)
