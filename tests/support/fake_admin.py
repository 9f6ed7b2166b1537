"""An Admin over a cluster in memory; it stands for any Kafka. It has only the methods that the commands use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from actors.client import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    GroupDescription,
    GroupListing,
    LogDirDescription,
    NewTopic,
    PartitionDescription,
    PartitionReassignment,
    ReplicaSize,
    ScramDeletion,
    ScramUpsertion,
    TopicDescription,
)
from actors.client.errors import (
    GroupSubscribedToTopicError,
    KafkaError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    TopicAuthorizationError,
)
from actors.client.records import Node
from actors.security.acl import Acl, AclFilter

HOST = Node(1, "host-1", 9093)


@dataclass
class FakeAdmin:
    """Public fields are the cluster's state; `bootstrap` has the servers that the command connected to."""

    topics: dict[str, TopicDescription] = field(default_factory=dict)
    configs: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Settings of topics. None is the value of a secret."""
    created: list[NewTopic] = field(default_factory=list)
    groups: dict[str, GroupDescription] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = field(default_factory=dict)
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    times: dict[TopicPartition, int] = field(default_factory=dict)
    asked_time_ms: int | None = None
    bootstrap: str = ""
    brokers: tuple[int, ...] = (0, 1, 2)
    moves: dict[TopicPartition, PartitionReassignment] = field(default_factory=dict)
    """The moves under way."""
    moving: bool = True
    """True if one move is done each time that they are listed."""
    stuck: set[TopicPartition] = field(default_factory=set)
    """These are not moved all the same."""
    refusals: dict[TopicPartition, KafkaError] = field(default_factory=dict)
    elected: list[TopicPartition] = field(default_factory=list)
    not_elected: KafkaError | None = None
    users: dict[str, dict[str, int]] = field(default_factory=dict)
    """Iterations by mechanism."""
    passwords: list[ScramUpsertion] = field(default_factory=list)

    acls: list[Acl] = field(default_factory=list)
    sizes: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)
    """Bytes of replicas, by broker."""
    no_sizes: KafkaError | None = None

    def describe_log_dirs(self, timeout_ms: int | None = None) -> dict[int, tuple[LogDirDescription, ...]]:
        if self.no_sizes is not None:
            raise self.no_sizes
        return {
            broker: (LogDirDescription("/d", {tp: ReplicaSize(size, 0) for tp, size in replicas.items()}),)
            for broker, replicas in self.sizes.items()
        }

    def create_acls(self, acls: Iterable[Acl]) -> None:
        self.acls += [acl for acl in acls if acl not in self.acls]

    def describe_acls(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self.acls if wanted.matches(acl)]

    def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
        found = {wanted: self.describe_acls(wanted) for wanted in filters}
        self.acls = [acl for acl in self.acls if not any(acl in gone for gone in found.values())]
        return found

    @contextmanager
    def connect(self, bootstrap_server: str, timeout_ms: int) -> Iterator[FakeAdmin]:
        self.bootstrap = bootstrap_server
        yield self

    def add_topic(self, name: str, partitions: int, *, internal: bool = False, isr: tuple[int, ...] = (0, 1)) -> None:
        parts = tuple(PartitionDescription(n, isr[0] if isr else -1, 0, (0, 1), isr, 0) for n in range(partitions))
        self.topics[name] = TopicDescription(name, b"0123456789abcdef", internal, parts)

    def unled(self, topic: str) -> None:
        """Take the leader of every partition away."""
        old = self.topics[topic]
        self.topics[topic] = replace(old, partitions=tuple(replace(p, leader=-1, isr=()) for p in old.partitions))

    def list_topics(self) -> list[str]:
        return sorted(self.topics)

    def describe_topics(
        self, topics: Iterable[str] | None = None, timeout_ms: int | None = None
    ) -> list[TopicDescription]:
        return [self.topics[name] for name in (sorted(self.topics) if topics is None else topics)]

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        for topic in topics:
            if topic.name in self.topics:
                raise TopicAlreadyExistsError(f"creating topic {topic.name}: TOPIC_ALREADY_EXISTS (36)")
            self.created.append(topic)
            self.add_topic(topic.name, max(topic.num_partitions, 1))

    def create_partitions(self, counts: Mapping[str, int]) -> None:
        for topic, count in counts.items():
            self.add_topic(topic, count)

    def delete_topics(self, topics: Iterable[str]) -> None:
        for topic in topics:
            del self.topics[topic]

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 0, tuple(Node(broker, "h", 9092 + broker) for broker in self.brokers))

    def list_partition_reassignments(self) -> dict[TopicPartition, PartitionReassignment]:
        found = dict(self.moves)
        if self.moving and (able := [tp for tp in self.moves if tp not in self.stuck]):
            tp, move = able[-1], self.moves.pop(able[-1])
            self._place(tp, tuple(broker for broker in move.replicas if broker not in move.removing_replicas))
        return found

    def begin(self, tp: TopicPartition, target: tuple[int, ...]) -> None:
        """Have a partition on its way: it has the old replicas beside the new ones, as Kafka shows it."""
        before = self.topics[tp.topic].partitions[tp.partition].replicas
        new, gone = (tuple(b for b in a if b not in z) for a, z in ((target, before), (before, target)))
        self.moves[tp] = PartitionReassignment((*target, *gone), new, gone)
        self._place(tp, (*target, *gone))

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None], raise_errors: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        answers: dict[TopicPartition, KafkaError | None] = {}
        for tp, target in reassignments.items():
            answers[tp] = self.refusals.get(tp)
            if target is None and answers[tp] is None:
                move = self.moves.pop(tp)
                self._place(tp, tuple(b for b in move.replicas if b not in move.adding_replicas))
            elif target is not None and answers[tp] is None:
                self.begin(tp, tuple(target))
        return answers

    def elect_preferred_leaders(
        self, partitions: Iterable[TopicPartition], raise_errors: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        self.elected = list(partitions)
        return dict.fromkeys(self.elected, self.not_elected)

    def _place(self, at: TopicPartition, replicas: tuple[int, ...]) -> None:
        old = self.topics[at.topic]
        partitions = tuple(replace(p, replicas=replicas) if p.partition == at.partition else p for p in old.partitions)
        self.topics[at.topic] = replace(old, partitions=partitions)

    def describe_configs(self, resources: Iterable[ConfigResource]) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        default = ConfigEntry("preallocate", "false", 5, True, False, False)
        return {
            resource: {"preallocate": default}
            | {
                name: ConfigEntry(name, value, 1, False, False, value is None)
                for name, value in self.configs.get(resource.name, {}).items()
            }
            for resource in resources
        }

    def incremental_alter_configs(self, changes: Mapping[ConfigResource, Mapping[str, str | None]]) -> None:
        for resource, changed in changes.items():
            own = {**self.configs.get(resource.name, {}), **changed}
            self.configs[resource.name] = {name: value for name, value in own.items() if value is not None}

    def list_consumer_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        wanted = {state.lower() for state in states}
        found = [group for group in self.groups.values() if not wanted or group.state.lower() in wanted]
        kinds = {kind.lower() for kind in types}
        return [
            GroupListing(group.group_id, group.protocol_type, group.state, group.type.capitalize())
            for group in found
            if not kinds or group.type in kinds
        ]

    def describe_consumer_groups(
        self, group_ids: Iterable[str], timeout_ms: int | None = None, show_hidden: bool = False
    ) -> list[GroupDescription]:
        """As DescribeGroups has it, which does not know groups of other types."""
        found = {name: self.groups.get(name) for name in group_ids}
        if not show_hidden and any(group and group.is_hidden for group in found.values()):
            raise TopicAuthorizationError
        return [
            group
            if group and (group.tells_members or group.is_hidden)
            else GroupDescription(name, "Dead", "", "", (), HOST)
            for name, group in found.items()
        ]

    def delete_consumer_groups(self, group_ids: Iterable[str]) -> None:
        for group in group_ids:
            if self.groups[group].members:
                raise NonEmptyGroupError
            del self.groups[group]

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.offsets.get(group_id, {})

    def alter_consumer_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        mine = self.offsets.setdefault(group_id, {})
        mine.update({tp: OffsetAndMetadata(offset) for tp, offset in offsets.items()})

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], raise_errors: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        held = {tp for member in self.groups[group_id].members for tp in member.assignment}
        return {tp: GroupSubscribedToTopicError() if tp in held else None for tp in partitions}

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], isolation_level: int = 0, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for tp, at in wanted.items():
            if isinstance(at, int):
                self.asked_time_ms = at
                offset = self.times.get(tp)
            else:
                offset = self.logs[tp].earliest if at == "earliest" else self.logs[tp].latest
            found[tp] = None if offset is None else OffsetAndTimestamp(offset, -1)
        return found

    def delete_records(
        self, before: Mapping[TopicPartition, int], raise_errors: bool
    ) -> dict[TopicPartition, int | KafkaError]:
        results: dict[TopicPartition, int | KafkaError] = {}
        for tp, offset in before.items():
            log = self.logs[tp]
            start = max(log.earliest, log.latest if offset == -1 else offset)
            if start > log.latest:
                results[tp] = OffsetOutOfRangeError(f"{tp.topic}-{tp.partition}")
                continue
            self.logs[tp] = Log(start, log.latest)
            results[tp] = start
        return results

    def find_coordinator(self, group_id: str) -> Node:
        return HOST

    def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
        return {user: self.users[user] for user in (self.users if users is None else users) if user in self.users}

    def alter_user_scram_credentials(
        self, upsertions: Iterable[ScramUpsertion] = (), deletions: Iterable[ScramDeletion] = ()
    ) -> None:
        for doomed in deletions:
            del self.users[doomed.user][doomed.mechanism.wire_name]
        for made in upsertions:
            self.users.setdefault(made.user, {})[made.mechanism.wire_name] = made.iterations
            self.passwords.append(made)
