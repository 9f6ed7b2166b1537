"""The operations that brokers call on the controller, and it on them, over the control link; and their results.

The controller's rules for what it is asked stand in `actors.controller.decisions`. An `error_code` is Kafka's, 0 if
there was no error; an `error_message` is for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from actors.links.codec import since
from actors.links.group_status import ClassicStatus, GroupStatus, PlainStatus
from actors.links.secret import Marks
from actors.links.status import Refill, ShardStatus

R_co = TypeVar("R_co", bound="Result", covariant=True)


class Result:
    """The result of a call."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Faulted(Result):
    """A bug kept the other end from carrying out the operation, whichever it was. Nothing has changed."""

    error_message: str


class Operation(Generic[R_co]):
    """A request of one end to the other. R_co is the class of its result."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Done(Result):
    """The operation was carried out, and has no other result."""


# --- topics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `partitions` and `factor` of -1 mean the broker's default.

    `assignments` are the replicas of each partition. A setting whose value is None gets its default.
    """

    name: str
    partitions: int = -1
    factor: int = -1
    assignments: tuple[tuple[int, ...], ...] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The result for a topic to create. If it was refused, its id is all zeros, and partitions and factor are -1."""

    name: str
    error_code: int
    error_message: str | None
    topic_id: bytes
    partitions: int
    factor: int


@dataclass(frozen=True, slots=True)
class CreatedTopics(Result):
    """In the order they were asked for."""

    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True)
class CreateTopics(Operation[CreatedTopics]):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class OffsetsTopicCreated(Result):
    """Without an error `__consumer_offsets` exists now."""

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class CreateOffsetsTopic(Operation[OffsetsTopicCreated]):
    """Create `__consumer_offsets` unless it exists."""


@dataclass(frozen=True, slots=True)
class DoomedTopic:
    """A topic to delete, by its name or by its id."""

    name: str | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """The result for a topic to delete. The name is None if no topic has the id."""

    name: str | None
    topic_id: bytes
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class DeletedTopics(Result):
    """In the order they were asked for."""

    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopics(Operation[DeletedTopics]):
    topics: tuple[DoomedTopic, ...]


@dataclass(frozen=True, slots=True)
class GrownTopic:
    """A topic that shall have `count` partitions in all; `assignments` are the replicas of the new ones."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The result for a topic that was to have more partitions."""

    name: str
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class CreatedPartitions(Result):
    """In the order they were asked for."""

    topics: tuple[TopicOutcome, ...]


@dataclass(frozen=True, slots=True)
class CreatePartitions(Operation[CreatedPartitions]):
    topics: tuple[GrownTopic, ...]
    validate_only: bool = False


# --- settings ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One setting: what is done to it (0 set, 1 delete, 2 append, 3 subtract; KIP-339), and with what."""

    key: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ChangedResource:
    """A topic or broker whose settings change. `replace`: settings that are not named go back to their defaults.

    A broker's name is its id, or "" for all brokers.
    """

    type: int
    name: str
    replace: bool
    operations: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class ResourceOutcome:
    """The result for a resource whose settings were to change."""

    type: int
    name: str
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class AlteredConfigs(Result):
    """In the order they were asked for."""

    resources: tuple[ResourceOutcome, ...]


@dataclass(frozen=True, slots=True)
class AlterConfigs(Operation[AlteredConfigs]):
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


# --- users ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's salt and keys for a SCRAM mechanism (its code of KIP-554). They are kept in place of the password."""

    user: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A password for a mechanism that is to be forgotten."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """The result for a user whose password was to change."""

    user: str
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class AlteredScram(Result):
    """One for each user: deletions first, then upsertions, in the order they were asked for."""

    users: tuple[UserOutcome, ...]


@dataclass(frozen=True, slots=True)
class AlterScram(Operation[AlteredScram]):
    """No user is named twice."""

    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()


# --- replicas and leaders ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The result for a partition that was to move, or to get another leader."""

    topic: str
    index: int
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The brokers a partition shall move to; None ends the move that is under way."""

    topic: str
    index: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class AlteredReassignments(Result):
    """In the order they were asked for."""

    partitions: tuple[PartitionOutcome, ...]


@dataclass(frozen=True, slots=True)
class AlterReassignments(Operation[AlteredReassignments]):
    partitions: tuple[Reassignment, ...]
    allow_factor_change: bool


@dataclass(frozen=True, slots=True)
class ElectedLeaders(Result):
    """In the order they were asked for. If all were asked for: without those that need no election."""

    partitions: tuple[PartitionOutcome, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders(Operation[ElectedLeaders]):
    """Elect preferred leaders (`type` 0), or any replica if none in sync lives (1). `partitions` None means all."""

    type: int
    partitions: tuple[tuple[str, int], ...] | None


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    """The in-sync set a leader wants recorded: (broker id, its epoch) each, -1 if the leader does not know that."""

    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class IsrOutcome:
    """The result for a proposed in-sync set: without an error it was recorded."""

    topic_id: bytes
    index: int
    error_code: int


@dataclass(frozen=True, slots=True)
class AlteredPartitions(Result):
    """In the order they were proposed."""

    partitions: tuple[IsrOutcome, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitions(Operation[AlteredPartitions]):
    """In-sync sets that the leader of these partitions proposes (KIP-497)."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[ProposedIsr, ...]


@dataclass(frozen=True, slots=True)
class ReplicaTorn(Operation[Done]):
    """A broker has lost the ends of the logs of these partitions: topic ids and indexes."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class BrokerLeaving(Operation[Done]):
    """A broker is about to stop: others are to lead what it leads."""

    broker_id: int


# --- features ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetadataVersionRaised(Result):
    """Without an error the level is in force now, or could be if it was only validated."""

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class RaiseMetadataVersion(Operation[MetadataVersionRaised]):
    """Have the metadata written in the formats of a level from now on. There is no way back."""

    level: int
    validate_only: bool = False


# --- producer ids and the controller itself ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProducerIds(Result):
    """`count` producer ids from `first` on, which nobody else is ever given."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Operation[ProducerIds]):
    """Ids for the idempotent producers of one broker."""


@dataclass(frozen=True, slots=True)
class Observer:
    """A reader of the metadata log: how far it has it, when it was last heard, and when it last had all (wall ms)."""

    broker_id: int
    log_end_offset: int
    heard_ms: int
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A controller, as the one that leads knows it. Times are as those of an `Observer`.

    Address and port are empty and 0 if they are not known.
    """

    controller_id: int
    directory: str
    host: str
    port: int
    log_end_offset: int
    heard_ms: int
    caught_up_ms: int
    votes: bool
    leads: bool


@dataclass(frozen=True, slots=True)
class Quorum(Result):
    """The end of the metadata log, the controller that writes it, and the brokers that read it. Time -1 means never."""

    controller_epoch: int
    log_end_offset: int
    now_ms: int
    host: str
    port: int
    brokers: tuple[Observer, ...]
    high_watermark: int = since(5, -1)
    """The number of records that have committed; -1: as many as the log has."""
    controllers: tuple[QuorumNode, ...] = since(5, ())
    """Those that vote and those that only follow; none if the controller is the only one."""


@dataclass(frozen=True, slots=True)
class DescribeQuorum(Operation[Quorum]):
    """Ask how far each controller and each broker has the metadata log."""


@dataclass(frozen=True, slots=True)
class BrokerUnregistered(Result):
    """The result for a broker to remove."""

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class UnregisterBroker(Operation[BrokerUnregistered]):
    """Remove a broker that holds nothing."""

    broker_id: int


# --- state beside a partition's log -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatePartitionCreated(Result):
    """The result for a state partition to create."""

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class CreateStatePartition(Operation[StatePartitionCreated]):
    """Pair a partition with one of an internal topic, unless it has one there. The topic is made if need be.

    The two have the same replicas, and are led together. `configs` are settings of a topic that is made.
    """

    topic_id: bytes
    index: int
    state_topic: str
    configs: Mapping[str, str]


# --- calls of the controller to a broker ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandOver(Operation[Done]):
    """Before a stop: have others lead what the broker leads, and leave the in-sync sets."""


@dataclass(frozen=True, slots=True)
class LearnSecrets(Operation[Done]):
    """Find these secrets of the cluster, which are valid from now on, and no others."""

    marks: Marks


@dataclass(frozen=True, slots=True)
class Shards(Result):
    """The shards of a broker, spares last; and the followers that it leads and that are out of sync."""

    shards: tuple[ShardStatus, ...]
    refills: tuple[Refill, ...] = field(default=(), metadata={"since": 3})


@dataclass(frozen=True, slots=True)
class ListShards(Operation[Shards]):
    """Ask which shards the broker has, and what it has yet to send to followers out of sync."""


@dataclass(frozen=True, slots=True)
class GroupSeen(Result):
    """The status of a group in its shard; empty if there is no such group, or it is not served there."""

    classic: ClassicStatus | None = None
    """Of a classic group. Builds that know of no other type know this field alone."""
    other: PlainStatus | None = field(default=None, metadata={"since": 1})

    @classmethod
    def of(cls, status: GroupStatus | None) -> GroupSeen:
        """The result with this status in the field of its type."""
        if isinstance(status, ClassicStatus):
            return cls(classic=status)
        return cls(other=status) if isinstance(status, PlainStatus) else cls()

    @property
    def status(self) -> GroupStatus | None:
        """The status, of whatever type the group is; None if there is none."""
        return self.classic or self.other


@dataclass(frozen=True, slots=True)
class LookAtGroup(Operation[GroupSeen]):
    """Ask what the broker's shard knows of a group."""

    group_id: str


CLASSES: dict[int, type[Operation[Result]] | type[Result]] = {
    100: CreateTopics,
    101: CreateOffsetsTopic,
    102: DeleteTopics,
    103: CreatePartitions,
    104: AlterConfigs,
    105: AlterReassignments,
    106: ElectLeaders,
    107: AlterPartitions,
    108: ReplicaTorn,
    109: BrokerLeaving,
    110: AllocateProducerIds,
    111: DescribeQuorum,
    112: HandOver,
    113: ListShards,
    114: LookAtGroup,
    115: AlterScram,
    119: LearnSecrets,
    123: RaiseMetadataVersion,
    124: UnregisterBroker,
    150: CreateStatePartition,
    200: CreatedTopics,
    201: OffsetsTopicCreated,
    202: DeletedTopics,
    203: CreatedPartitions,
    204: AlteredConfigs,
    205: AlteredReassignments,
    206: ElectedLeaders,
    207: AlteredPartitions,
    208: Done,
    209: ProducerIds,
    210: Quorum,
    211: Shards,
    212: GroupSeen,
    213: AlteredScram,
    219: Faulted,
    223: MetadataVersionRaised,
    224: BrokerUnregistered,
    250: StatePartitionCreated,
}
"""Tags on the control link: operations from 100 on, results from 200 on."""

SINCE: dict[type[Operation[Result]] | type[Result], int] = {
    Faulted: 1,
    RaiseMetadataVersion: 1,
    MetadataVersionRaised: 1,
    CreateStatePartition: 1,
    StatePartitionCreated: 1,
    UnregisterBroker: 3,
    BrokerUnregistered: 3,
}
"""The version of our protocols that these came with (`versions`); all others were in the first one."""
