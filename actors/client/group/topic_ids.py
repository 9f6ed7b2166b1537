"""The topics that the offsets of a commit belong to, for a name is not enough.

A topic that was deleted and created again has its old name, and another id. Offsets of the old one must not become
committed offsets of the new one. From version 10 on a commit names topics by id, so that a coordinator refuses offsets
of a topic that is gone. One that is older cannot tell: for its sake nothing is sent that is known to be of no use. No
I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from actors.client.errors import CommitFailedError, KafkaError, UnknownTopicOrPartitionError
from actors.client.net.metadata import ClusterMetadata
from actors.client.records import OffsetAndMetadata, TopicPartition

IdOf = Callable[[TopicPartition], bytes]
"""The id of the topic that an offset of this partition belongs to; b"" if nobody knows."""


@dataclass(frozen=True, slots=True)
class Divided:
    """The offsets of a commit that may be sent. `ids` are those of their topics; empty unless all are known.

    `withheld` is what the program is to be told about the others.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ids: Mapping[TopicPartition, bytes]
    withheld: KafkaError | None = None


def divide(offsets: Mapping[TopicPartition, OffsetAndMetadata], id_of: IdOf, cluster: ClusterMetadata) -> Divided:
    """Divide offsets into those that may be committed, and those whose topic does not exist any more."""
    recreated = {tp for tp in offsets if _is_another(id_of(tp), cluster.topic_id(tp.topic))}
    missing = {tp for tp in offsets if id_of(tp) and cluster.is_missing(tp.topic)}
    sent = {tp: offset for tp, offset in offsets.items() if tp not in recreated and tp not in missing}
    ids = {tp: id_of(tp) or cluster.topic_id(tp.topic) for tp in sent}
    return Divided(sent, ids if all(ids.values()) else {}, _told(recreated, missing))


def known_ids(partitions: Iterable[TopicPartition], cluster: ClusterMetadata) -> dict[TopicPartition, bytes]:
    """The present ids of these partitions' topics; {} unless all are known."""
    ids = {tp: cluster.topic_id(tp.topic) for tp in partitions}
    return ids if all(ids.values()) else {}


def _is_another(mine: bytes, present: bytes) -> bool:
    return bool(mine and present) and mine != present


def _told(recreated: set[TopicPartition], missing: set[TopicPartition]) -> KafkaError | None:
    """Errors that cannot get better come first."""
    if recreated:
        return CommitFailedError(
            f"not committed: {_named(recreated)} belonged to a topic that was deleted; the one of that name is new"
        )
    if missing:
        return UnknownTopicOrPartitionError(f"not committed: {_named(missing)}, whose topic does not exist any more")
    return None


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions))
