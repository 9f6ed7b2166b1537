"""What brokers have the controller do, and what comes of it: the arguments of calls over the control link.

The controller's rules for each stand in `actors.controller.decisions`. An `error_code` is Kafka's, 0 where all is
well; an `error_message` is for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

R_co = TypeVar("R_co", bound="Result", covariant=True)


class Result:
    """What comes of a call."""

    __slots__ = ()


class Operation(Generic[R_co]):
    """What a broker asks of the controller; an R_co comes of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Done(Result):
    """Nothing more is to be said of it."""


# --- topics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be. `partitions` and `factor` -1 mean the broker's default; assignments are each partition's replicas.

    A setting without a value is the default.
    """

    name: str
    partitions: int = -1
    factor: int = -1
    assignments: tuple[tuple[int, ...], ...] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What became of a topic to be; id, partitions and factor are zeros and -1 where it was refused."""

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
    """`__consumer_offsets` is there, or why not."""

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class CreateOffsetsTopic(Operation[OffsetsTopicCreated]):
    """Make `__consumer_offsets`, unless it is there."""


@dataclass(frozen=True, slots=True)
class DoomedTopic:
    """A topic that is to go, by its name or by its id."""

    name: str | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """What became of it. The name is None where no topic has the id."""

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
    """A topic that is to have `count` partitions in all; `assignments` are the replicas of the new ones."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of it."""

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
    """Whose settings change. `replace`: what is not named goes back to its default.

    A broker's name is its id, or "" for all brokers.
    """

    type: int
    name: str
    replace: bool
    operations: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class ResourceOutcome:
    """What became of it."""

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


# --- replicas and leaders ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What became of a partition."""

    topic: str
    index: int
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The brokers a partition moves to; None ends the move that is under way."""

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
    """In the order they were asked for; where all were, those elected."""

    partitions: tuple[PartitionOutcome, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders(Operation[ElectedLeaders]):
    """An election of the preferred leaders (0) or, for want of others, of any (1); partitions None: of all."""

    type: int
    partitions: tuple[tuple[str, int], ...] | None


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    """The in-sync set a leader wants recorded: brokers, each with its epoch, or -1 if the leader has not met it."""

    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class IsrOutcome:
    """Whether it is recorded."""

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
    """A broker that reads the metadata log: how far it has it; when it was heard, and last had all of it (wall ms)."""

    broker_id: int
    log_end_offset: int
    heard_ms: int
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Quorum(Result):
    """Where the metadata log ends, who writes it, and who reads it. -1 ms: never."""

    controller_epoch: int
    log_end_offset: int
    now_ms: int
    host: str
    port: int
    brokers: tuple[Observer, ...]


@dataclass(frozen=True, slots=True)
class DescribeQuorum(Operation[Quorum]):
    """How far the brokers have the metadata log."""


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
}
"""Tags on the control link: operations from 100 on, results from 200 on."""
