"""Tells shards the present topics, so that they drop the offsets of deleted ones."""

from __future__ import annotations

from collections.abc import Collection

from actors.broker.context import BrokerContext
from actors.broker.coordinators.link import ShardLink
from actors.broker.coordinators.partitions import Partitions
from actors.broker.coordinators.sleeping import Sleeping
from actors.links.known_topics import (
    RACK_AFFINITY,
    DeletedTopics,
    TopicLeaders,
    TopicRacks,
    known_topics,
    topic_leaders,
    topic_racks,
)
from actors.links.relay import ForAll, Kind
from placement.metadata import NO_LEADER, PartitionInfo


def send_deleted(link: ShardLink, names: Collection[str]) -> None:
    """Tell a shard that loads of deleted topics. There may be new ones of the same names."""
    link.protocol.say(Kind.TOPICS_DELETED, DeletedTopics(tuple(sorted(names))), link.partition)


class TopicNews:
    """Tells shards of the topics when these have changed, and keeps deletions for partitions that are not served.

    A deletion is kept until the partition is served here, or another broker leads it: offsets that this one has taken
    may be of a new topic of the same name. Offsets of a deleted topic stay if a new one of its name is there before the
    log is loaded, and nobody was left to remember the deletion: the broker was down, the partition moved to another
    broker, or the process that was told died or resigned before it had written.
    """

    def __init__(self, context: BrokerContext, topic: str, partitions: Partitions, sleeping: Sleeping) -> None:
        self._context = context
        self._topic = topic
        self._partitions = partitions
        self._sleeping = sleeping
        self._sent: dict[str, tuple[bytes, int]] = {}
        self._sent_racks: tuple[TopicRacks, ...] = ()
        self._sent_leaders: tuple[TopicLeaders, ...] = ()
        self._tells_leaders = context.config[RACK_AFFINITY]
        self._gone: dict[int, frozenset[str]] = {}  # by partition

    def tell(self) -> bool:
        """The image may have changed. Returns whether there was something to tell."""
        metadata = self._context.metadata
        now = {t.name: (t.id, len(t.partitions)) for t in metadata.topics.values()}
        gone = frozenset(name for name, (id_, _) in self._sent.items() if name not in now or now[name][0] != id_)
        racks = topic_racks(metadata)
        leaders = topic_leaders(metadata) if self._tells_leaders else ()
        changed = (now, racks, leaders) != (self._sent, self._sent_racks, self._sent_leaders)
        self._sent, self._sent_racks, self._sent_leaders = now, racks, leaders
        if changed:
            known = ForAll(known_topics(metadata, leaders))
            for link in self._partitions.links.values():
                link.protocol.say(Kind.TOPICS, known)
        own = metadata.topics.get(self._topic)
        for partition, info in enumerate(own.partitions if own is not None else ()):
            if info.leader not in (self._context.broker_id, NO_LEADER):
                self.forget(partition)
            elif gone and self._partitions.has_records(partition):
                self._keep(partition, info, gone)
        return changed

    def _keep(self, partition: int, info: PartitionInfo, gone: frozenset[str]) -> None:
        link = self._partitions.links.get(partition)
        if link is not None and link.epoch == info.leader_epoch:
            if link.active:
                return
            # If it got the partition while this image was taken over, it knows of the new topics only.
            send_deleted(link, gone)
        kept = self._sleeping.concerned(partition, gone)
        if kept:
            self._gone[partition] = self.gone_from(partition) | kept

    def gone_from(self, partition: int) -> frozenset[str]:
        """The topics that were deleted since the partition was served."""
        return self._gone.get(partition, frozenset())

    def forget(self, partition: int) -> None:
        """The partition is served: here, by a shard that was told of deletions, or by another broker."""
        self._gone.pop(partition, None)
