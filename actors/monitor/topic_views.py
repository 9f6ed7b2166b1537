"""The views of topics, made of the cluster's metadata and of the partitions as seen. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from actors.links.views import PartitionView, TopicRow, TopicView
from actors.monitor.partitions import Partition, Partitions
from placement.metadata import INTERNAL_TOPICS, OUR_TOPICS, ClusterMetadata, PartitionInfo, TopicInfo

Readers = Mapping[str, tuple[str, ...]]
"""The groups that have committed offsets of each topic."""


def topic_row(
    topic: TopicInfo, seen: Partitions, readers: Readers, internal: Collection[str] = INTERNAL_TOPICS
) -> TopicRow:
    """A topic in a list. Sizes and records are told only if they are known of all its partitions."""
    known = seen.topic(topic.name)
    found = [] if known is None else [known.partitions.get(each) for each in range(len(topic.partitions))]
    parts = [each for each in found if each is not None]
    whole = len(parts) == len(topic.partitions)
    return TopicRow(
        name=topic.name,
        partitions=len(topic.partitions),
        replicas=max((len(each.replicas) for each in topic.partitions), default=0),
        size_bytes=sum(each.size_bytes for each in parts) if whole else None,
        records=sum(each.log_end - each.log_start for each in parts) if whole else None,
        under_replicated=sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        messages_per_s=None if known is None else known.messages_per_s,
        groups=readers.get(topic.name, ()),
        is_internal=topic.name in internal or topic.name in OUR_TOPICS,
    )


def topic_rows(metadata: ClusterMetadata, seen: Partitions, readers: Readers) -> tuple[TopicRow, ...]:
    """All topics, by name."""
    internal = metadata.internal_topics
    return tuple(topic_row(topic, seen, readers, internal) for _, topic in sorted(metadata.topics.items()))


def topic_view(name: str, metadata: ClusterMetadata, seen: Partitions, readers: Readers, wall_ms: int) -> TopicView:
    """A topic. Its settings are those of its own."""
    topic = metadata.topics.get(name)
    if topic is None:
        return TopicView(wall_ms, None)
    partitions = tuple(_partition(number, each, seen.get(name, number)) for number, each in enumerate(topic.partitions))
    row = topic_row(topic, seen, readers, metadata.internal_topics)
    return TopicView(wall_ms, row, partitions, dict(topic.configs))


def _partition(number: int, info: PartitionInfo, seen: Partition | None) -> PartitionView:
    return PartitionView(
        partition=number,
        leader=info.leader,
        replicas=info.replicas,
        isr=info.isr,
        log_start=None if seen is None else seen.log_start,
        log_end=None if seen is None else seen.log_end,
        size_bytes=None if seen is None else seen.size_bytes,
        last_ms=None if seen is None or seen.newest_ms < 0 else seen.newest_ms,
    )
