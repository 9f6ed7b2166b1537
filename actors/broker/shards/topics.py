"""Tells shards what topics there are, so that they drop the offsets of deleted ones."""

from __future__ import annotations

from collections.abc import Iterable

from actors.broker.shards.link import ShardLink
from actors.links.relay import PAYLOADS, Kind, KnownTopics, TopicRow
from placement.metadata import ClusterMetadata


def topics_of(metadata: ClusterMetadata) -> tuple[TopicRow, ...]:
    """All topics, in the form in which shards are told."""
    return tuple((t.name, t.id, len(t.partitions)) for t in metadata.topics.values())


class TopicNews:
    """Tells shards of the topics when these have changed."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[bytes, int]] = {}

    def tell(self, metadata: ClusterMetadata, links: Iterable[ShardLink]) -> frozenset[str] | None:
        """The image may have changed. Returns the topics that have gone, or None if there is nothing to tell."""
        now = {t.name: (t.id, len(t.partitions)) for t in metadata.topics.values()}
        if now == self._told:
            return None
        gone = frozenset(name for name, (id_, _) in self._told.items() if name not in now or now[name][0] != id_)
        self._told = now
        payload = PAYLOADS.encode(KnownTopics(topics_of(metadata)))
        for link in links:
            link.protocol.send(Kind.TOPICS, 0, 0, payload)
        return gone
