"""The cluster's metadata: brokers, topics, partitions and their leaders, made of records that are applied in order.

The controller logs these records and sends images of the result to the brokers. No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any, NamedTuple

from placement.names import topic_name_error as topic_name_error
from placement.pairs import Pair, Pairs
from placement.sealed_pools import KINDS, SealedPools

NO_LEADER = -1
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
POOLS_TOPIC = "__coterie_pools"
OUR_TOPICS = frozenset((*INTERNAL_TOPICS, POOLS_TOPIC))
"""All that are made for users, and not by them. To clients that of pools is a topic as any other: they write to it."""

PLAINTEXT = "PLAINTEXT"
METADATA_VERSION = "metadata.version"
"""The feature whose level says in which formats records and images of the metadata may be written."""
METADATA_LEVELS = range(1, 3)
"""1: those of the releases that say nothing of versions. 2: those that need version 1 of our protocols."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What clients of one listener connect to, and by which security protocol."""

    listener: str
    host: str
    port: int
    protocol: str = PLAINTEXT


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker as clients and other brokers see it. `epoch` changes each time its process is replaced.

    `host` and `port` are those of its first listener.
    """

    id: int
    host: str
    port: int
    rack: str | None
    epoch: int
    alive: bool = True
    replica_host: str = ""
    """The address to which other brokers push the records of partitions they lead; port 0: none."""
    replica_port: int = 0
    pid: int = 0
    """The pid of its process on its machine; 0: not known."""
    process_started: int = 0
    """When that process began, in clock ticks since boot, because another process may get its pid later."""
    leaving: bool = False
    """Whether it has handed over what it led and is about to stop: it does not come into an in-sync set again."""
    endpoints: tuple[Endpoint, ...] = ()
    """Where it listens for clients; empty: at `host` and `port` alone, for the listener PLAINTEXT."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """What clients of a listener connect to; None if the broker has no such listener."""
        if not self.endpoints:
            return Endpoint(PLAINTEXT, self.host, self.port) if listener == PLAINTEXT else None
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """The replicas of a partition and its leader. `leader` is NO_LEADER while no in-sync replica is alive.

    `leader_epoch` rises with each election, `partition_epoch` with every change (KIP-497). `elr` are the replicas that
    left an in-sync set which then was smaller than `min.insync.replicas`. Nothing commits in such a set, so that they
    have all that has committed, and may lead if no member of the set can (KIP-966). While the partition is being
    reassigned (KIP-455), `replicas` are the old and the new ones, `adding` and `removing` those that come and go.
    `unclean`: a replica out of sync has been made leader once, and records that had committed may be lost. `added_at`
    is the partition epoch at which a replica was last added: a broker that only knows of older epochs may hold a log
    that it has to delete.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    unclean: bool = False
    added_at: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic: its id (16 bytes), its partitions in order, and its own settings."""

    name: str
    id: bytes
    partitions: tuple[PartitionInfo, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


class AclRow(NamedTuple):
    """An ACL; types, operations and permissions by Kafka's codes (KIP-11, KIP-290)."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types and names of whom a quota is for (KIP-546)."""

_SECURITY = frozenset(
    ("scram", "scram_removed", "scram_secret", "acl", "acl_removed", "quota", "quota_removed"),
)


@dataclass(slots=True)
class ClusterMetadata:
    """All metadata of a cluster: what a broker needs to answer Metadata and FindCoordinator from memory."""

    cluster_id: str = ""
    controller_epoch: int = 0
    version: int = 0
    brokers: dict[int, BrokerInfo] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    names: dict[bytes, str] = field(default_factory=dict)
    scram: dict[tuple[str, int], tuple[bytes, bytes, bytes, int]] = field(default_factory=dict, repr=False)
    """By user and code of the mechanism (KIP-554): salt, stored key, server key, iterations."""
    scram_secret: bytes = field(default=b"", repr=False)
    """What salts of users that do not exist are made of, so that nobody can tell that they do not."""
    acls: dict[bytes, AclRow] = field(default_factory=dict)
    """By id (16 bytes)."""
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    """Rates by name. An entity without any is not here."""
    pools: SealedPools = field(default_factory=SealedPools)
    """Which versions of deployed pools may run. Only the controller asks."""
    security_version: int = field(default=0, compare=False)
    """The version at which credentials, ACLs or quotas last changed here. Nobody is sent it."""
    features: dict[str, int] = field(default_factory=dict)
    """Levels of features that have been raised."""
    pairs: Pairs = field(default_factory=Pairs)
    """Which partitions of internal topics are led together with which others."""
    internal_topics: frozenset[str] = INTERNAL_TOPICS
    """Those of coordinators, and those whose partitions are paired: clients do not write to them."""
    whole: bool = True
    """False for an image without credentials, ACLs and quotas, which are those of the image before."""

    @property
    def level(self) -> int:
        """In which formats it may be written (METADATA_LEVELS)."""
        return self.features.get(METADATA_VERSION, METADATA_LEVELS[0])

    def apply(self, record: list[Any]) -> None:
        """Apply one record of the metadata log. Raises ValueError if its kind is not known."""
        kind, *rest = record
        match kind:
            case "cluster":
                (self.cluster_id,) = rest
            case "controller_epoch":
                (self.controller_epoch,) = rest
            case "broker":
                info = BrokerInfo(*rest[:_ENDPOINTS_AT], *_endpoints(rest[_ENDPOINTS_AT:]))
                self.brokers[info.id] = info
            case "topic":
                name, topic_id, partitions, configs = rest
                self._put(TopicInfo(name, topic_id, tuple(_partition(p) for p in partitions), dict(configs)))
            case "delete_topic":
                gone = self.topics.pop(rest[0])
                self.names.pop(gone.id, None)
                if self.pairs:
                    self.pairs.forget(gone.name, gone.id)
                    self._note_internal()
            case "topic_configs":
                name, configs = rest
                self._put(replace(self.topics[name], configs=dict(configs)))
            case "broker_configs":
                name, configs = rest
                self.broker_configs[name] = dict(configs)
            case "partition":
                self._put_partition(*rest)
            case "together":
                for each in rest[0]:
                    self._put_partition(*each)
            case "pair":
                self.pairs.add(Pair(*rest))
                self._note_internal()
            case "producer_ids":
                (self.next_producer_id,) = rest
            case "scram":
                user, mechanism, salt, stored_key, server_key, iterations = rest
                self.scram[user, mechanism] = (salt, stored_key, server_key, iterations)
            case "scram_removed":
                user, mechanism = rest
                del self.scram[user, mechanism]
            case "scram_secret":
                (self.scram_secret,) = rest
            case "acl":
                acl_id, *values = rest
                self.acls[acl_id] = AclRow(*values)
            case "acl_removed":
                del self.acls[rest[0]]
            case "quota":
                entity, key, value = rest
                self._set_quota(_entity(entity), key, value)
            case "feature_level":
                name, level = rest
                self.features[name] = level
            case "quota_removed":
                entity, key = rest
                self._set_quota(_entity(entity), key, None)
            case _ if kind in KINDS:
                self.pools.apply(kind, rest)
            case _:
                raise ValueError(f"metadata record of unknown kind {kind!r}: written by a newer version?")
        self.version += 1
        if kind in _SECURITY:
            self.security_version = self.version

    def _put(self, topic: TopicInfo) -> None:
        self.topics[topic.name] = topic
        self.names[topic.id] = topic.name

    def _put_partition(self, name: str, index: int, fields: list[Any]) -> None:
        topic = self.topics[name]
        changed = list(topic.partitions)
        changed[index : index + 1] = [_partition(fields)]
        self._put(replace(topic, partitions=tuple(changed)))

    def _note_internal(self) -> None:
        self.internal_topics = INTERNAL_TOPICS | self.pairs.topics()

    def _set_quota(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        own = self.quotas.setdefault(entity, {})
        if value is not None:
            own[key] = value
        else:
            del own[key]
            if not own:
                del self.quotas[entity]

    def partition(self, topic: str, index: int) -> PartitionInfo | None:
        """The partition, or None if there is no such topic or index."""
        info = self.topics.get(topic)
        return info.partitions[index] if info and 0 <= index < len(info.partitions) else None

    def alive(self) -> list[BrokerInfo]:
        """Living brokers by id."""
        return [self.brokers[i] for i in sorted(self.brokers) if self.brokers[i].alive]

    def to_wire(self) -> list[Any]:
        """The metadata as msgpack takes it: the image for brokers, and the snapshot at the metadata log's beginning."""
        security: list[Any] = [None]
        if self.whole:
            security = [
                [[*key, *credential] for key, credential in self.scram.items()],
                self.scram_secret,
                [[acl_id, *acl] for acl_id, acl in self.acls.items()],
                [[entity, key, rate] for entity, own in self.quotas.items() for key, rate in own.items()],
                self.pools.to_wire(),
            ]
        return [
            self.cluster_id,
            self.controller_epoch,
            self.version,
            [broker_record(b)[1:] for b in self.brokers.values()],
            [topic_record(t)[1:] for t in self.topics.values()],
            self.broker_configs,
            self.next_producer_id,
            *security,
            *([self.features] if self.features or self.pairs else []),
            *([self.pairs.to_wire()] if self.pairs else []),
        ]

    def without_security(self) -> ClusterMetadata:
        """The same without credentials, ACLs and quotas, for who has them."""
        return replace(self, whole=False)

    def with_security_of(self, older: ClusterMetadata) -> ClusterMetadata:
        """The whole metadata, of an image without credentials, ACLs and quotas and of the image before."""
        return replace(
            self,
            scram=older.scram,
            scram_secret=older.scram_secret,
            acls=older.acls,
            quotas=older.quotas,
            pools=older.pools,
            whole=True,
        )

    @classmethod
    def from_wire(cls, wire: list[Any]) -> ClusterMetadata:
        """The inverse of `to_wire`."""
        # Those of older releases end after the producer ids, the ACLs or the quotas; all without pairs after the pools.
        later: list[Any] = [[], b"", [], [], []]
        cluster_id, controller_epoch, version, brokers, topics, broker_configs, next_producer_id, *rest = wire
        whole = rest[:1] != [None]
        end = len(later) if whole else 1
        security, grown = (rest[:end] if whole else []), rest[end:]
        features, pairs = grown + [{}, []][len(grown) :]
        scram, scram_secret, acls, quotas, pools = security + later[len(security) :]
        made = cls(
            cluster_id,
            controller_epoch,
            broker_configs=broker_configs,
            next_producer_id=next_producer_id,
            features=features,
            whole=whole,
        )
        made.scram_secret = scram_secret
        for values in brokers:
            made.apply(["broker", *values])
        for values in topics:
            made.apply(["topic", *values])
        for values in scram:
            made.apply(["scram", *values])
        for values in acls:
            made.apply(["acl", *values])
        for values in quotas:
            made.apply(["quota", *values])
        for record in pools:
            made.apply(record)
        for pair in pairs:
            made.apply(["pair", *pair])
        made.version = version
        return made


def _entity(parts: list[Any]) -> QuotaEntity:
    return tuple((kind, name) for kind, name in parts)


_ENDPOINTS_AT = [field.name for field in fields(BrokerInfo)].index("endpoints")


def _endpoints(last: list[Any]) -> list[tuple[Endpoint, ...]]:
    """The endpoints in the last field of a broker's record; those of releases with one listener have no such field."""
    return [tuple(Endpoint(*each) for each in endpoints) for endpoints in last]


def _partition(fields: list[Any]) -> PartitionInfo:
    # Records of releases without replication end after the in-sync set, later ones after `unclean`.
    later = [0, (), (), (), False, 0]
    leader, epoch, replicas, isr, partition_epoch, elr, adding, removing, unclean, added_at = (
        fields + later[len(fields) - 4 :]
    )
    return PartitionInfo(
        leader,
        epoch,
        tuple(replicas),
        tuple(isr),
        partition_epoch,
        tuple(elr),
        tuple(adding),
        tuple(removing),
        unclean,
        added_at,
    )


def partition_fields(p: PartitionInfo) -> list[Any]:
    """The fields of a partition in a record."""
    return [
        p.leader,
        p.leader_epoch,
        list(p.replicas),
        list(p.isr),
        p.partition_epoch,
        list(p.elr),
        list(p.adding),
        list(p.removing),
        p.unclean,
        p.added_at,
    ]


def partition_record(topic: str, index: int, p: PartitionInfo) -> list[Any]:
    """The record that sets partition `index` of `topic` to `p`; an index one beyond the last adds a partition."""
    return ["partition", topic, index, partition_fields(p)]


def together_record(partitions: Sequence[tuple[str, int, PartitionInfo]]) -> list[Any]:
    """The record that sets several partitions, which are led together, all at once."""
    return ["together", [[topic, index, partition_fields(p)] for topic, index, p in partitions]]


def pair_record(pair: Pair) -> list[Any]:
    """The record that pairs two partitions."""
    return ["pair", *astuple(pair)]


def partitions_of(records: Iterable[list[Any]]) -> list[list[Any]]:
    """The same records, with one for each of the partitions that a record sets together."""
    found: list[list[Any]] = []
    for record in records:
        found += [["partition", *each] for each in record[1]] if record[0] == "together" else [record]
    return found


def topic_record(topic: TopicInfo) -> list[Any]:
    """The record that creates or replaces a topic."""
    return ["topic", topic.name, topic.id, [partition_fields(p) for p in topic.partitions], dict(topic.configs)]


def broker_record(broker: BrokerInfo) -> list[Any]:
    """The record that adds or changes a broker."""
    return ["broker", *astuple(broker)]


def elect(
    partition: PartitionInfo, alive: frozenset[int], *, min_insync: int = 1, unclean: bool = False
) -> PartitionInfo:
    """The partition after an election: the first living in-sync replica leads, else an eligible one, else nobody.

    The leader epoch rises whenever the leader changes or its process was replaced. The in-sync set never becomes
    empty, so that its last member can come back with what it has. With `unclean`, if none of these lives, any living
    replica leads and is the only one in sync; what only others had is lost.
    """
    epoch = partition.leader_epoch + 1
    candidates = [replica for replica in partition.replicas if replica in alive]
    leader = next((replica for replica in candidates if replica in partition.isr), NO_LEADER)
    if leader != NO_LEADER:
        isr = tuple(replica for replica in partition.isr if replica in alive)
        return with_isr(partition, isr, min_insync, leader=leader, leader_epoch=epoch)
    leader = next((replica for replica in candidates if replica in partition.elr), NO_LEADER)
    if leader != NO_LEADER:
        return with_isr(partition, (leader,), min_insync, leader=leader, leader_epoch=epoch)
    if unclean and candidates:
        alone = (candidates[0],)
        return changed(partition, leader=candidates[0], leader_epoch=epoch, isr=alone, elr=(), unclean=True)
    return changed(partition, leader=NO_LEADER, leader_epoch=epoch)


def with_isr(partition: PartitionInfo, isr: tuple[int, ...], min_insync: int, **changes: Any) -> PartitionInfo:
    """The partition with another in-sync set. While the set is too small, replicas that leave it stay eligible."""
    elr: tuple[int, ...] = ()
    if len(isr) < min(min_insync, len(partition.replicas)):
        elr = tuple(r for r in partition.replicas if r not in isr and r in partition.isr + partition.elr)
    return changed(partition, isr=isr, elr=elr, **changes)


def changed(partition: PartitionInfo, **changes: Any) -> PartitionInfo:
    """The partition with these changes, at its next partition epoch."""
    epoch = partition.partition_epoch + 1
    added = set(changes.get("replicas", ())) - set(partition.replicas)
    return replace(partition, partition_epoch=epoch, added_at=epoch if added else partition.added_at, **changes)
