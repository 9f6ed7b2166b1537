"""What topics there are, as a shard is told: it forgets offsets of topics that are gone."""

from __future__ import annotations

from collections.abc import Iterable

from actors.broker.shards.link import ShardLink
from actors.links.relay import PAYLOADS, Kind, KnownTopics, TopicRow
from placement.metadata import ClusterMetadata


def topics_of(metadata: ClusterMetadata) -> tuple[TopicRow, ...]:
    """All topics, as shards are told of them."""
    return tuple((t.name, t.id, len(t.partitions)) for t in metadata.topics.values())


class TopicNews:
    """Tells shards what topics there are when that has changed."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[bytes, int]] = {}

    def tell(self, metadata: ClusterMetadata, links: Iterable[ShardLink]) -> None:
        """The image may have changed."""
        now = {t.name: (t.id, len(t.partitions)) for t in metadata.topics.values()}
        if now == self._told:
            return
        self._told = now
        payload = PAYLOADS.encode(KnownTopics(topics_of(metadata)))
        for link in links:
            link.protocol.send(Kind.TOPICS, 0, 0, payload)
