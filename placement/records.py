"""The records that the metadata is made of, and their one codec. Names are Kafka's where Kafka has such a record.

A record is the array of its kind and its values in the layout of level 1, and of its kind, its version and its values
from level 2 on (`placement.arrays` says how a class may grow without a new version). A level is that of the feature
`metadata.version`, which the metadata itself holds: who writes goes by it, so that a release that has been replaced can
be started again until a person says that it will not be.

The rules for what is newer than the reader:

- A kind that it does not know, or a version above the one it knows, is refused by name (`UnknownRecordError`). To skip
  it would be to decide without what others have promised.
- Values beyond the known fields of a version that it knows are left out.
- A new kind, or a new version of one, is written from the level on that comes with it. It has to be in the list below,
  and the level in `METADATA_LEVELS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated, Any, ClassVar, Final, TypeAlias, get_args

from actors import CoterieError
from placement.arrays import IN_PLACE, ArrayError, Arrays
from placement.infos import (
    AclRow,
    BrokerInfo,
    ClusterSettings,
    ControllerInfo,
    Directory,
    Home,
    PartitionInfo,
    QuotaEntity,
    Removal,
    TopicInfo,
)
from placement.pairs import Pair
from placement.sealed_pools import PoolRecord

METADATA_VERSION: Final = "metadata.version"
"""The feature whose level says what may be written to the metadata log. Without a record of it the level is 1."""
METADATA_LEVELS: Final = range(1, 7)
"""1: layouts without versions. 2: records with versions, written as entries that have an epoch and an index.

3: the ids of brokers' data directories, without which no broker can be replaced. 4: brokers that are removed.

5: the log is the journal of a voter, which may be one of several (`actors.quorum`), and says where controllers
and brokers' data are.

6: what a controller had in files of its own (changed settings, the key of pools' seals) is in the log, where each
controller of a quorum has it, and controllers are removed.
"""
VERSIONED: Final = 2
"""The level from which on a record has its version with it."""
DIRECTORIES: Final = 3
"""The level from which on brokers' data directories are recorded: all brokers then tell theirs."""
REMOVALS: Final = 4
"""The level from which on brokers can be removed: all brokers then know that they may be."""
QUORUM: Final = 5
"""The level from which on the log is a voter's."""
SHARED: Final = 6
"""The level from which on no controller has anything in a file that the next one would lack."""


class UnknownRecordError(CoterieError, ValueError):
    """A record is of a kind or of a version that this release does not know."""


# --- the cluster ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The cluster has this id."""

    KIND: ClassVar = "cluster"
    VERSION: ClassVar = 0

    cluster_id: str


@dataclass(frozen=True, slots=True)
class ControllerEpochRecord:
    """A controller has begun. Writes of controllers with a lower epoch are refused from now on."""

    KIND: ClassVar = "controller_epoch"
    VERSION: ClassVar = 0

    epoch: int
    release: str = ""
    """The release that this controller is of; empty before level 2."""


@dataclass(frozen=True, slots=True)
class RegisterControllerRecord:
    """One of the controllers is here now. It takes the place of what was said of the same id."""

    KIND: ClassVar = "register_controller"
    VERSION: ClassVar = 0

    controller: Annotated[ControllerInfo, IN_PLACE]


@dataclass(frozen=True, slots=True)
class UnregisterControllerRecord:
    """A controller with this directory is none of the cluster's: nobody looks for it.

    `barred`: it was removed by a person's word. It is not registered and gets no vote by itself, until it is not barred
    any more.
    """

    KIND: ClassVar = "unregister_controller"
    VERSION: ClassVar = 0

    controller_id: int
    directory: str
    barred: bool


@dataclass(frozen=True, slots=True)
class ClusterSettingsRecord:
    """The settings that were changed while the cluster ran. None: those of its start hold."""

    KIND: ClassVar = "cluster_settings"
    VERSION: ClassVar = 0

    settings: ClusterSettings | None


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """A feature has this level now."""

    KIND: ClassVar = "feature_level"
    VERSION: ClassVar = 0

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker has come, or has changed."""

    KIND: ClassVar = "broker"
    VERSION: ClassVar = 0

    broker: Annotated[BrokerInfo, IN_PLACE]


@dataclass(frozen=True, slots=True)
class BrokerDirectoryRecord:
    """A broker has this data directory (`placement.infos.Directory`), and none of any other id."""

    KIND: ClassVar = "broker_directory"
    VERSION: ClassVar = 0

    broker_id: int
    directory: Directory


@dataclass(frozen=True, slots=True)
class BrokerHomeRecord:
    """A broker's data is on this Ray node from now on."""

    KIND: ClassVar = "broker_home"
    VERSION: ClassVar = 0

    broker_id: int
    home: Home


@dataclass(frozen=True, slots=True)
class BrokerRemovalRecord:
    """A broker is being removed: nothing is placed on it any more, and what it has moves away. None: it stays."""

    KIND: ClassVar = "broker_removal"
    VERSION: ClassVar = 0

    broker_id: int
    removal: Removal | None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    """A broker was removed, with all that is known of it. Its id is never used again."""

    KIND: ClassVar = "unregister_broker"
    VERSION: ClassVar = 0

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerConfigsRecord:
    """All settings of one broker that were changed while it ran. Without a name: those of all brokers."""

    KIND: ClassVar = "broker_configs"
    VERSION: ClassVar = 0

    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupConfigsRecord:
    """All settings of a group's own. Without any it has none; whether there is such a group does not matter."""

    KIND: ClassVar = "group_configs"
    VERSION: ClassVar = 0

    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Producer ids below this one have been given out."""

    KIND: ClassVar = "producer_ids"
    VERSION: ClassVar = 0

    next_producer_id: int


# --- topics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic is created or replaced."""

    KIND: ClassVar = "topic"
    VERSION: ClassVar = 0

    topic: Annotated[TopicInfo, IN_PLACE]


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """A topic is deleted."""

    KIND: ClassVar = "delete_topic"
    VERSION: ClassVar = 0

    name: str


@dataclass(frozen=True, slots=True)
class TopicConfigsRecord:
    """All settings of a topic's own."""

    KIND: ClassVar = "topic_configs"
    VERSION: ClassVar = 0

    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Partition `index` of a topic is like this now. An index one beyond the last adds a partition."""

    KIND: ClassVar = "partition"
    VERSION: ClassVar = 0

    topic: str
    index: int
    partition: PartitionInfo


@dataclass(frozen=True, slots=True)
class PartitionsRecord:
    """These partitions, which are led together, are like this now: all at once."""

    KIND: ClassVar = "together"
    VERSION: ClassVar = 0

    partitions: tuple[PartitionRecord, ...]


@dataclass(frozen=True, slots=True)
class PairRecord:
    """Two partitions are led together from now on."""

    KIND: ClassVar = "pair"
    VERSION: ClassVar = 0

    pair: Annotated[Pair, IN_PLACE]


# --- users, ACLs and quotas -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord:
    """A user's stored credential for one mechanism (its code of KIP-554): derived keys, not the password."""

    KIND: ClassVar = "scram"
    VERSION: ClassVar = 0

    user: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord:
    """A user has no password for this mechanism any more."""

    KIND: ClassVar = "scram_removed"
    VERSION: ClassVar = 0

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramSecretRecord:
    """The key from which salts of unknown users are derived."""

    KIND: ClassVar = "scram_secret"
    VERSION: ClassVar = 0

    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    """An ACL is made. Its id has 16 bytes."""

    KIND: ClassVar = "acl"
    VERSION: ClassVar = 0

    id: bytes
    acl: Annotated[AclRow, IN_PLACE]


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    """An ACL is removed."""

    KIND: ClassVar = "acl_removed"
    VERSION: ClassVar = 0

    id: bytes


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """A quota of an entity is set."""

    KIND: ClassVar = "quota"
    VERSION: ClassVar = 0

    entity: QuotaEntity
    key: str
    value: float


@dataclass(frozen=True, slots=True)
class RemoveClientQuotaRecord:
    """A quota of an entity is removed."""

    KIND: ClassVar = "quota_removed"
    VERSION: ClassVar = 0

    entity: QuotaEntity
    key: str


ClusterWideRecord: TypeAlias = (
    ClusterRecord
    | ControllerEpochRecord
    | RegisterControllerRecord
    | UnregisterControllerRecord
    | ClusterSettingsRecord
    | FeatureLevelRecord
    | BrokerRecord
    | BrokerDirectoryRecord
    | BrokerHomeRecord
    | BrokerRemovalRecord
    | UnregisterBrokerRecord
    | BrokerConfigsRecord
    | GroupConfigsRecord
    | ProducerIdsRecord
)
AnyTopicRecord: TypeAlias = (
    TopicRecord | RemoveTopicRecord | TopicConfigsRecord | PartitionRecord | PartitionsRecord | PairRecord
)
SecurityRecord: TypeAlias = (
    UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | ScramSecretRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ClientQuotaRecord
    | RemoveClientQuotaRecord
)
Record: TypeAlias = ClusterWideRecord | AnyTopicRecord | SecurityRecord | PoolRecord

KINDS: Final[Mapping[str, type[Record]]] = {cls.KIND: cls for cls in get_args(Record)}


# --- the codec --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The whole metadata at one moment: what brokers are sent, and the snapshot that begins a log.

    `version` is the index of the record after the last one in it, `controller_epoch` the epoch of that one. Credentials
    of None: they are those of the image before, and so are ACLs, quotas and pools. Records in it have the layout of
    level 1 at every level, because each is of its first version.
    """

    cluster_id: str
    controller_epoch: int
    version: int
    brokers: tuple[BrokerInfo, ...]
    topics: tuple[TopicInfo, ...]
    broker_configs: Mapping[str, Mapping[str, str]]
    next_producer_id: int
    scram: tuple[UserScramCredentialRecord, ...] | None = ()
    scram_secret: bytes = field(default=b"", repr=False)
    acls: tuple[AccessControlEntryRecord, ...] = ()
    quotas: tuple[ClientQuotaRecord, ...] = ()
    pools: tuple[PoolRecord, ...] = ()
    features: Mapping[str, int] = field(default_factory=dict)
    release: str = ""
    pairs: tuple[Pair, ...] = ()
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    directories: tuple[BrokerDirectoryRecord, ...] = ()
    removals: tuple[BrokerRemovalRecord, ...] = ()
    removed: tuple[int, ...] = ()
    controllers: tuple[ControllerInfo, ...] = ()
    homes: tuple[BrokerHomeRecord, ...] = ()
    barred: tuple[str, ...] = ()
    settings: ClusterSettings | None = None


def one_by_one(records: Iterable[Record]) -> Iterator[Record]:
    """The same records, with one for each of the partitions that a record sets together."""
    for record in records:
        if isinstance(record, PartitionsRecord):
            yield from record.partitions
        else:
            yield record


def write_record(record: Record, level: int) -> list[Any]:
    """The array of a record in the layout of a level."""
    head = [record.KIND, record.VERSION] if level >= VERSIONED else [record.KIND]
    return head + _ARRAYS.write(record)


def read_record(values: Any, level: int) -> Record:
    """The record of an array in the layout of a level. Raises ArrayError, UnknownRecordError."""
    first = 2 if level >= VERSIONED else 1
    if type(values) is not list or len(values) < first or type(values[0]) is not str:
        raise ArrayError(f"a record is an array with its kind, not {str(values)[:60]}")
    kind, version = values[0], values[1] if first == 2 else 0
    known = KINDS.get(kind)
    if known is None:
        raise UnknownRecordError(f"a record of the kind {kind!r}, version {version}, which is not known here")
    if version not in range(known.VERSION + 1):
        raise UnknownRecordError(
            f"a record of the kind {kind!r}, version {version}: versions up to {known.VERSION} are known here"
        )
    return _ARRAYS.read(known, values[first:])


def write_image(image: MetadataImage) -> list[Any]:
    """The array of an image. Up to level 1 it is that of releases whose records have no versions.

    If credentials are None, the other values that are those of the image before are left out, as those releases do:
    levels of features follow at once.
    """
    values = _ARRAYS.write(image)
    if image.scram is None:
        del values[_AFTER_SCRAM:_FEATURES]
    return values


def read_image(values: Any) -> MetadataImage:
    """The image of an array. Raises ArrayError, UnknownRecordError."""
    if type(values) is list and len(values) > _AFTER_SCRAM and values[_AFTER_SCRAM - 1] is None:
        values = [*values[:_AFTER_SCRAM], b"", (), (), (), *values[_AFTER_SCRAM:]]
    return _ARRAYS.read(MetadataImage, values)


_FIELDS: Final = [each.name for each in fields(MetadataImage)]
_AFTER_SCRAM: Final = _FIELDS.index("scram") + 1
_FEATURES: Final = _FIELDS.index("features")
_ARRAYS = Arrays({PoolRecord: (partial(write_record, level=1), partial(read_record, level=1))})
