"""A client's view of the cluster: brokers, topics, leaders, and the age of this metadata. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from actors.client.error_codes import is_retriable
from actors.client.records import Node, TopicPartition
from actors.wire.errors import ErrorCode
from actors.wire.messages import MetadataRequest, MetadataResponse


@dataclass(frozen=True, slots=True)
class MetadataView:
    """The metadata of topics. `asked` are the topics that were asked for; None: all topics.

    `ids` are those of the topics, as far as brokers give any.
    """

    version: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()
    asked: frozenset[str] | None = frozenset()
    ids: Mapping[str, bytes] = field(default_factory=dict)

    def covers(self, topics: frozenset[str]) -> bool:
        return self.asked is None or topics <= self.asked


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition. `leader` is -1 while there is none; the epoch is -1 if the broker did not give it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic. If it has an error code, it has no partitions."""

    name: str
    id: bytes
    is_internal: bool
    error_code: int
    partitions: Mapping[int, PartitionInfo]


@dataclass(slots=True)
class ClusterMetadata:
    """The newest metadata. `version` grows with each update; `asked` are the topics asked for, None: all.

    A topic that was deleted and created again has another id. A broker that has not heard of it yet may still give the
    old one: an id that was replaced never counts again.
    """

    brokers: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = -1
    version: int = 0
    asked: frozenset[str] | None = frozenset()
    _replaced: set[bytes] = field(default_factory=set)

    def update(self, response: MetadataResponse, asked: frozenset[str] | None) -> None:
        """Take over the answer to a request for `asked`. Where it has an older leader epoch, what is known stays."""
        self.brokers = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        named = [topic for topic in response.topics if topic.name is not None]
        self.topics = {str(topic.name): self._topic(topic) for topic in named}
        self.asked = asked
        self.version += 1

    def _topic(self, topic: MetadataResponse.MetadataResponseTopic) -> TopicInfo:
        known = self.topics.get(str(topic.name))
        if known is not None and known.id != topic.topic_id and any(known.id) and any(topic.topic_id):
            if topic.topic_id in self._replaced:
                return known
            self._replaced.add(known.id)
        before = known.partitions if known is not None and known.id == topic.topic_id else {}
        partitions = {}
        for p in topic.partitions:
            fresh = PartitionInfo(p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes), p.error_code)
            old = before.get(p.partition_index)
            newer = old is None or fresh.leader_epoch < 0 or fresh.leader_epoch >= old.leader_epoch
            partitions[p.partition_index] = fresh if newer or old is None else old
        return TopicInfo(str(topic.name), topic.topic_id, topic.is_internal, topic.error_code, partitions)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic; b"" if it is not known, or if brokers are too old to give ids."""
        known = self.topics.get(topic)
        return known.id if known is not None and any(known.id) else b""

    def is_missing(self, topic: str) -> bool:
        """True if brokers say that there is no such topic."""
        known = self.topics.get(topic)
        return known is not None and known.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def incomplete(self) -> bool:
        """True if the answer had retriable errors, as of a topic being created or a partition without a leader."""
        return any(
            is_retriable(topic.error_code) or any(p.leader < 0 for p in topic.partitions.values())
            for topic in self.topics.values()
        )

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic else None

    def leader(self, tp: TopicPartition) -> Node | None:
        info = self.partition(tp)
        return self.brokers.get(info.leader) if info else None

    def view(self) -> MetadataView:
        """The part of the metadata that a membership needs."""
        whole = [topic for topic in self.topics.values() if topic.error_code == 0 and topic.partitions]
        return MetadataView(
            version=self.version,
            partitions={topic.name: len(topic.partitions) for topic in whole},
            racks={TopicPartition(t.name, n): self._racks(p.replicas) for t in whole for n, p in t.partitions.items()},
            internal=frozenset(topic.name for topic in whole if topic.is_internal),
            asked=self.asked,
            ids={topic.name: topic.id for topic in whole if any(topic.id)},
        )

    def _racks(self, replicas: Iterable[int]) -> frozenset[str]:
        nodes = (self.brokers.get(replica) for replica in replicas)
        return frozenset(node.rack for node in nodes if node is not None and node.rack)


def metadata_request(topics: frozenset[str] | None, *, create: bool) -> MetadataRequest:
    """The request for these topics, None: all. With `create` the broker may create those that do not exist."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=t) for t in sorted(topics)]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=create and topics is not None)
