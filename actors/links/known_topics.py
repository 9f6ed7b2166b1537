"""The topics of the cluster, as a broker tells shards of them over the relay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from actors.links.codec import since
from placement.metadata import ClusterMetadata

RACK_AFFINITY: Final = "coterie.group.consumer.rack.affinity"
"""The setting by which shards are told the racks of leaders: that is all that assignors need for it."""
TopicRow: TypeAlias = tuple[str, bytes, int]
"""A topic's name, its id and how many partitions it has."""


@dataclass(frozen=True, slots=True)
class TopicRacks:
    """The racks of a topic's replicas."""

    topic: str
    racks: tuple[tuple[str, ...], ...]
    """Of each partition, the racks of its replicas' brokers, of those that have one."""


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """The racks of a topic's leaders."""

    topic: str
    racks: tuple[str, ...]
    """Of each partition the rack of its leader's broker; empty if there is none."""


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """All topics of the cluster."""

    topics: tuple[TopicRow, ...]
    version: int = since(1, 0)
    """Of the metadata that says so."""
    racks: tuple[TopicRacks, ...] = since(1, ())
    """Of topics that have any."""
    leaders: tuple[TopicLeaders, ...] = since(1, ())
    """Of all topics, if assignors are to know."""


@dataclass(frozen=True, slots=True)
class DeletedTopics:
    """Topics that were deleted. There may be new ones of the same names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of topics."""

    names: tuple[str, ...]


def known_topics(metadata: ClusterMetadata, leaders: tuple[TopicLeaders, ...] = ()) -> KnownTopics:
    """All topics, in the form in which shards are told."""
    rows = tuple((t.name, t.id, len(t.partitions)) for t in metadata.topics.values())
    return KnownTopics(rows, metadata.version, topic_racks(metadata), leaders)


def topic_leaders(metadata: ClusterMetadata) -> tuple[TopicLeaders, ...]:
    """The racks of all leaders, as far as brokers have any."""
    racks = {broker.id: broker.rack for broker in metadata.brokers.values() if broker.rack}
    if not racks:
        return ()
    return tuple(
        TopicLeaders(topic.name, tuple([racks.get(p.leader, "") for p in topic.partitions]))
        for topic in metadata.topics.values()
    )


def topic_racks(metadata: ClusterMetadata) -> tuple[TopicRacks, ...]:
    """The racks of all topics, as far as brokers have any."""
    racks = {broker.id: broker.rack for broker in metadata.brokers.values() if broker.rack}
    if not racks:
        return ()

    @cache  # there are many partitions, of few sets of replicas, and brokers ask with each image
    def of(replicas: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(sorted(racks[each] for each in replicas if each in racks))

    return tuple(
        TopicRacks(topic.name, tuple([of(p.replicas) for p in topic.partitions])) for topic in metadata.topics.values()
    )
