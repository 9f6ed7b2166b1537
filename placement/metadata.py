"""The cluster's metadata: brokers, topics, partitions and their leaders, made of records that are applied in order.

The controller logs these records (`placement.records`) and sends images of the result to the brokers. No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, assert_never, get_args

from placement.elections import changed as changed
from placement.elections import elect as elect
from placement.elections import with_isr as with_isr
from placement.infos import INTERNAL_TOPICS as INTERNAL_TOPICS
from placement.infos import NO_LEADER as NO_LEADER
from placement.infos import OFFSETS_TOPIC as OFFSETS_TOPIC
from placement.infos import OUR_TOPICS as OUR_TOPICS
from placement.infos import PLAINTEXT as PLAINTEXT
from placement.infos import POOLS_TOPIC as POOLS_TOPIC
from placement.infos import TRANSACTIONS_TOPIC as TRANSACTIONS_TOPIC
from placement.infos import AclRow as AclRow
from placement.infos import BrokerInfo as BrokerInfo
from placement.infos import ClusterSettings as ClusterSettings
from placement.infos import ControllerInfo as ControllerInfo
from placement.infos import Directory as Directory
from placement.infos import Endpoint as Endpoint
from placement.infos import Home as Home
from placement.infos import PartitionInfo as PartitionInfo
from placement.infos import QuotaEntity as QuotaEntity
from placement.infos import Removal as Removal
from placement.infos import TopicInfo as TopicInfo
from placement.infos import was_removed as was_removed
from placement.names import topic_name_error as topic_name_error
from placement.pairs import Pairs
from placement.records import (
    METADATA_VERSION,
    AccessControlEntryRecord,
    AnyTopicRecord,
    BrokerConfigsRecord,
    BrokerDirectoryRecord,
    BrokerHomeRecord,
    BrokerRecord,
    BrokerRemovalRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ClusterSettingsRecord,
    ClusterWideRecord,
    ControllerEpochRecord,
    FeatureLevelRecord,
    GroupConfigsRecord,
    MetadataImage,
    PairRecord,
    PartitionRecord,
    PartitionsRecord,
    ProducerIdsRecord,
    Record,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveClientQuotaRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    SecurityRecord,
    TopicConfigsRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    read_image,
    write_image,
)
from placement.sealed_pools import PoolRecord, PoolsKeyRecord, SealedPools

_OF_CLUSTER, _OF_TOPICS = get_args(ClusterWideRecord), get_args(AnyTopicRecord)
_OF_SECURITY, _OF_POOLS = get_args(SecurityRecord), get_args(PoolRecord)


@dataclass(slots=True)
class ClusterMetadata:
    """All metadata of a cluster: what a broker needs to answer Metadata and FindCoordinator from memory."""

    cluster_id: str = ""
    controller_epoch: int = 0
    version: int = 0
    controllers: dict[int, ControllerInfo] = field(default_factory=dict)
    """Those that have told where they are, by id."""
    barred: frozenset[str] = frozenset()
    """The directories of controllers that were removed by a person's word: these do not come again by themselves."""
    settings: ClusterSettings | None = None
    """The settings as changed while the cluster runs; None: those of its start. Only controllers ask."""
    brokers: dict[int, BrokerInfo] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    directories: dict[int, Directory] = field(default_factory=dict)
    """By broker id. One whose directory has not been told is not here."""
    homes: dict[int, Home] = field(default_factory=dict)
    """By broker id: the nodes with their data. Only the controller asks."""
    removals: dict[int, Removal] = field(default_factory=dict)
    """By broker id: those that are being removed."""
    removed: frozenset[int] = frozenset()
    """The ids of brokers that were removed, which are never used again."""
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """By group id. A group without settings of its own is not here."""
    next_producer_id: int = 0
    names: dict[bytes, str] = field(default_factory=dict)
    scram: dict[tuple[str, int], tuple[bytes, bytes, bytes, int]] = field(default_factory=dict, repr=False)
    """By user and code of the mechanism (KIP-554): salt, stored key, server key, iterations."""
    scram_secret: bytes = field(default=b"", repr=False)
    """The key from which salts of unknown users are derived, so that nobody can tell that these users do not exist."""
    acls: dict[bytes, AclRow] = field(default_factory=dict)
    """By id (16 bytes)."""
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    """Rates by name. An entity without any is not here."""
    pools: SealedPools = field(default_factory=SealedPools)
    """The versions of deployed pools that may run. Only the controller asks."""
    features: dict[str, int] = field(default_factory=dict)
    """Levels of features that have been raised."""
    pairs: Pairs = field(default_factory=Pairs)
    """The pairs of partitions of internal topics and those they are led together with."""
    internal_topics: frozenset[str] = INTERNAL_TOPICS
    """Those of coordinators, and those whose partitions are paired: clients do not write to them."""
    draining: frozenset[int] = field(default=frozenset(), compare=False)
    """The brokers whose Ray nodes are drained. No record says it and no image: the controller sees it
    (`controller/draining.py`)."""
    release: str = field(default="", compare=False)
    """The release of the controller that began last; empty if that is not known."""
    security_version: int = field(default=0, compare=False)
    """The version at which credentials, ACLs or quotas last changed here. Nobody is sent it."""
    whole: bool = True
    """False for an image without credentials, ACLs and quotas, which are those of the image before."""

    @property
    def level(self) -> int:
        """The metadata level: it says which records may be written (`placement.records.METADATA_LEVELS`)."""
        return self.features.get(METADATA_VERSION, 1)

    # --- records ---

    def apply(self, record: Record) -> None:
        """Apply one record of the metadata log."""
        match record:
            case _ if isinstance(record, _OF_TOPICS):
                self._apply_to_topics(record)
            case _ if isinstance(record, _OF_SECURITY):
                self._apply_to_security(record)
                self.security_version = self.version + 1
            case _ if isinstance(record, _OF_POOLS):
                self.pools.apply(record)
            case _ if isinstance(record, _OF_CLUSTER):
                self._apply_to_cluster(record)
            case _:
                raise TypeError(f"{type(record).__name__} is no record")
        self.version += 1

    def apply_all(self, records: Iterable[Record]) -> None:
        """Apply records in their order. One after the other is the same, but copies a topic for each partition."""
        for name, run in groupby(records, key=lambda record: record.topic if type(record) is PartitionRecord else None):
            if name is None:
                for record in run:
                    self.apply(record)
            else:
                changed = [record for record in run if isinstance(record, PartitionRecord)]
                self._put_partitions(name, changed)
                self.version += len(changed)

    def _apply_to_cluster(self, record: ClusterWideRecord) -> None:
        match record:
            case ClusterRecord(cluster_id):
                self.cluster_id = cluster_id
            case ControllerEpochRecord(epoch, release):
                self.controller_epoch, self.release = epoch, release
            case RegisterControllerRecord(controller):
                self.controllers[controller.id] = controller
            case UnregisterControllerRecord(controller_id, directory, barred):
                self._unregister_controller(controller_id, directory)
                self._set_barred(directory, barred)
            case ClusterSettingsRecord(settings):
                self.settings = settings
            case FeatureLevelRecord(name, level):
                self.features[name] = level
            case BrokerRecord(broker):
                self.brokers[broker.id] = broker
            case BrokerDirectoryRecord(broker_id, directory):
                self.directories[broker_id] = directory
            case BrokerHomeRecord(broker_id, home):
                if broker_id not in self.removed:  # it may have been while the broker was being placed
                    self.homes[broker_id] = home
            case BrokerRemovalRecord(broker_id, removal):
                self._set_removal(broker_id, removal)
            case UnregisterBrokerRecord(broker_id):
                self._unregister(broker_id)
            case BrokerConfigsRecord(name, configs):
                self.broker_configs[name] = dict(configs)
            case GroupConfigsRecord(name, configs):
                self._set_group_configs(name, configs)
            case ProducerIdsRecord(next_producer_id):
                self.next_producer_id = next_producer_id
            case _:
                assert_never(record)

    def _apply_to_topics(self, record: AnyTopicRecord) -> None:
        match record:
            case TopicRecord(topic):
                self._put(topic)
            case RemoveTopicRecord(name):
                self._remove(name)
            case TopicConfigsRecord(name, configs):
                self._put(replace(self.topics[name], configs=dict(configs)))
            case PartitionRecord(name):
                self._put_partitions(name, (record,))
            case PartitionsRecord(partitions):
                for each in partitions:
                    self._put_partitions(each.topic, (each,))
            case PairRecord(pair):
                self.pairs.add(pair)
                if pair.state_topic not in self.internal_topics:
                    self.internal_topics |= {pair.state_topic}
            case _:
                assert_never(record)

    def _apply_to_security(self, record: SecurityRecord) -> None:
        match record:
            case UserScramCredentialRecord(user, mechanism, salt, stored_key, server_key, iterations):
                self.scram[user, mechanism] = (salt, stored_key, server_key, iterations)
            case RemoveUserScramCredentialRecord(user, mechanism):
                del self.scram[user, mechanism]
            case ScramSecretRecord(secret):
                self.scram_secret = secret
            case AccessControlEntryRecord(acl_id, acl):
                self.acls[acl_id] = acl
            case RemoveAccessControlEntryRecord(acl_id):
                del self.acls[acl_id]
            case ClientQuotaRecord(entity, key, value):
                self._set_quota(entity, key, value)
            case RemoveClientQuotaRecord(entity, key):
                self._set_quota(entity, key, None)
            case _:
                assert_never(record)

    def _unregister_controller(self, controller_id: int, directory: str) -> None:
        known = self.controllers.get(controller_id)
        if known is not None and known.directory == directory:
            del self.controllers[controller_id]

    def _set_barred(self, directory: str, barred: bool) -> None:
        self.barred = self.barred | {directory} if barred else self.barred - {directory}

    def _set_removal(self, broker_id: int, removal: Removal | None) -> None:
        if removal is not None:
            self.removals[broker_id] = removal
        else:
            self.removals.pop(broker_id, None)

    def _unregister(self, broker_id: int) -> None:
        for of_brokers in (self.brokers, self.directories, self.homes, self.removals):
            of_brokers.pop(broker_id, None)
        self.broker_configs.pop(str(broker_id), None)
        self.removed |= {broker_id}

    def _set_group_configs(self, name: str, configs: Mapping[str, str]) -> None:
        if configs:
            self.group_configs[name] = dict(configs)
        else:
            self.group_configs.pop(name, None)

    def _put(self, topic: TopicInfo) -> None:
        self.topics[topic.name] = topic
        self.names[topic.id] = topic.name

    def _put_partitions(self, name: str, records: Iterable[PartitionRecord]) -> None:
        topic = self.topics[name]
        partitions = list(topic.partitions)
        for record in records:
            partitions[record.index : record.index + 1] = [record.partition]
        self._put(replace(topic, partitions=tuple(partitions)))

    def _remove(self, name: str) -> None:
        gone = self.topics.pop(name)
        self.names.pop(gone.id, None)
        if name in self.internal_topics - INTERNAL_TOPICS:
            self.pairs.forget(name)
            self.internal_topics -= {name}

    def _set_quota(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        own = dict(self.quotas.get(entity, {}))
        if value is not None:
            own[key] = value
        else:
            del own[key]
        if own:
            self.quotas[entity] = own
        else:
            del self.quotas[entity]

    # --- what is asked ---

    def partition(self, topic: str, index: int) -> PartitionInfo | None:
        """The partition, or None if there is no such topic or index."""
        info = self.topics.get(topic)
        return info.partitions[index] if info and 0 <= index < len(info.partitions) else None

    def alive(self) -> list[BrokerInfo]:
        """Living brokers by id."""
        return [self.brokers[i] for i in sorted(self.brokers) if self.brokers[i].alive]

    def placeable(self) -> list[BrokerInfo]:
        """Living brokers by id that stay where they are: replicas may be placed on them."""
        return [each for each in self.alive() if each.id not in self.removals and each.id not in self.draining]

    # --- copies and images ---

    def copy(self) -> ClusterMetadata:
        """The same, of which a change does not reach this one. Only tables are copied: what they hold never changes."""
        return replace(
            self,
            controllers=dict(self.controllers),
            brokers=dict(self.brokers),
            directories=dict(self.directories),
            homes=dict(self.homes),
            removals=dict(self.removals),
            topics=dict(self.topics),
            broker_configs=dict(self.broker_configs),
            group_configs=dict(self.group_configs),
            names=dict(self.names),
            scram=dict(self.scram),
            acls=dict(self.acls),
            quotas=dict(self.quotas),
            pools=self.pools.copy(),
            features=dict(self.features),
            pairs=self.pairs.copy(),
        )

    def image(self) -> MetadataImage:
        """The metadata as an image: for brokers, and as the snapshot at the metadata log's beginning."""
        made = MetadataImage(
            self.cluster_id,
            self.controller_epoch,
            self.version,
            tuple(self.brokers.values()),
            tuple(self.topics.values()),
            self.broker_configs,
            self.next_producer_id,
            scram=None,
            features=self.features,
            release=self.release,
            pairs=tuple(self.pairs),
            group_configs=self.group_configs,
            directories=tuple(BrokerDirectoryRecord(*each) for each in self.directories.items()),
            removals=tuple(BrokerRemovalRecord(*each) for each in self.removals.items()),
            removed=tuple(sorted(self.removed)),
            controllers=tuple(self.controllers.values()),
            homes=tuple(BrokerHomeRecord(*each) for each in self.homes.items()),
            barred=tuple(sorted(self.barred)),
            settings=self.settings,
        )
        if not self.whole:
            return made
        return replace(
            made,
            scram=tuple(
                UserScramCredentialRecord(user, mechanism, *kept) for (user, mechanism), kept in self.scram.items()
            ),
            scram_secret=self.scram_secret,
            acls=tuple(AccessControlEntryRecord(acl_id, acl) for acl_id, acl in self.acls.items()),
            quotas=tuple(
                ClientQuotaRecord(e, key, rate) for e, own in self.quotas.items() for key, rate in own.items()
            ),
            pools=self.pools.records(),
        )

    @classmethod
    def of_image(cls, image: MetadataImage) -> ClusterMetadata:
        """The metadata of an image."""
        made = cls(
            image.cluster_id,
            image.controller_epoch,
            brokers={broker.id: broker for broker in image.brokers},
            topics={topic.name: topic for topic in image.topics},
            broker_configs={name: dict(configs) for name, configs in image.broker_configs.items()},
            group_configs={name: dict(configs) for name, configs in image.group_configs.items()},
            next_producer_id=image.next_producer_id,
            directories={each.broker_id: each.directory for each in image.directories},
            removals={each.broker_id: each.removal for each in image.removals if each.removal is not None},
            removed=frozenset(image.removed),
            controllers={each.id: each for each in image.controllers},
            homes={each.broker_id: each.home for each in image.homes},
            barred=frozenset(image.barred),
            settings=image.settings,
            names={topic.id: topic.name for topic in image.topics},
            scram_secret=image.scram_secret,
            features=dict(image.features),
            release=image.release,
            whole=image.scram is not None,
        )
        pairs = map(PairRecord, image.pairs)
        for record in (*(image.scram or ()), *image.acls, *image.quotas, *image.pools, *pairs):
            made.apply(record)
        made.version = image.version
        return made

    def to_wire(self) -> list[Any]:
        """The image as msgpack takes it, for brokers and the Monitor: without the key of pools' seals."""
        image = self.image()
        return write_image(replace(image, pools=tuple(x for x in image.pools if not isinstance(x, PoolsKeyRecord))))

    @classmethod
    def from_wire(cls, wire: list[Any]) -> ClusterMetadata:
        """The inverse of `to_wire`. Raises ArrayError, UnknownRecordError."""
        return cls.of_image(read_image(wire))

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
