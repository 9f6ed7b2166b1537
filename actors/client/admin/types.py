"""The values that methods of `Admin` take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from actors.client.records import Node, TopicPartition
from actors.security.scram import USUAL_ITERATIONS, ScramMechanism
from actors.settings.secret import Secret
from actors.wire.config_resources import ConfigResourceType


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1: the broker's default. `replica_assignments` are broker ids by partition number."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    topic_configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition. `leader` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. `topic_id` is all zeros if the broker does not know topic ids."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition that is being moved: all its replicas now, those that are added, and those that are removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """The size of one replica in a log directory, and the number of records by which it lags."""

    size_bytes: int
    offset_lag: int
    is_future: bool = False
    """True if it is a copy that is to replace the replica in another directory of its broker."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker. Of its volume nothing is known (None) before Kafka 3.3."""

    path: str
    replicas: Mapping[TopicPartition, ReplicaSize]
    total_bytes: int | None = None
    usable_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """An owner of settings: a topic by name, a broker by id ("": all brokers), a group by id."""

    type: ConfigResourceType
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. `source` is Kafka's: 1 the topic's own, 5 the default, and so on."""

    name: str
    value: str | None
    source: int
    is_default: bool
    read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list; state and type are "" where the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group. The bytes of a classic consumer are here, and decoded.

    In a consumer group `assignment` is all that the member holds: what it may use, and what it was told to give back.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    metadata: bytes = b""
    assignment_bytes: bytes = b""
    rack_id: str | None = None
    regex: str | None = None
    """The regular expression by which it subscribes, beside `topics`."""
    epoch: int | None = None
    """Of a member of a consumer group, -2 if it is static and away for a while; else None."""
    target: tuple[TopicPartition, ...] | None = None
    """The target of a member of a consumer group; else None."""
    is_classic: bool = True
    """True if it speaks the classic protocol."""

    @property
    def to_give_back(self) -> tuple[TopicPartition, ...]:
        """The partitions that it still holds and that are not in its target."""
        return () if self.target is None else _without(self.assignment, self.target)

    @property
    def to_come(self) -> tuple[TopicPartition, ...]:
        """The partitions of its target that it does not hold yet."""
        return () if self.target is None else _without(self.target, self.assignment)


def _without(some: Sequence[TopicPartition], others: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    left_out = set(others)
    return tuple(each for each in some if each not in left_out)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; one that does not exist has the state Dead and no members. `protocol` is its assignor."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    coordinator: Node
    type: str = "classic"
    """Kafka's name of the type, in lower case."""
    epoch: int | None = None
    """Of a consumer group; else None."""
    assignment_epoch: int | None = None
    """The epoch of a consumer group that its members' targets are of; else None."""
    is_hidden: bool = False
    """True if it is not described because it has topics that the client may not describe. Its state is Unknown then."""

    @property
    def tells_members(self) -> bool:
        """True if its members are described. Of a hidden group, or a type that we cannot describe, they are not."""
        return self.type == "classic" or self.epoch is not None


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A password to set for one mechanism. It is salted here, and is not sent."""

    user: str
    password: Secret
    mechanism: ScramMechanism = ScramMechanism.SHA_256
    iterations: int = USUAL_ITERATIONS


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A password for one mechanism that is to be forgotten."""

    user: str
    mechanism: ScramMechanism = ScramMechanism.SHA_256


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's brokers. `controller` is -1 while there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[Node, ...]


ALL_OTHERS: Final = ""
"""As a name in a QuotaEntity: the default of all that have no quota of their own."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The subject of quotas (KIP-546): a user, a client id, both together, or an address."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
