"""The shared view of a broker's parts: its id, its settings, the last image, its logs, the way to the controller.

The protocols say what the parts can ask of one another: of the shards, the replicas, the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from typing import Protocol, TypeVar

from actors.broker.authorization import ALLOW_ALL, AllowAll, Authorization
from actors.broker.commits import Commits
from actors.broker.connections.slots import Slot
from actors.broker.counts import Counts
from actors.broker.fetches import ParkedFetches
from actors.broker.quotas import NO_QUOTAS, NoQuotas, Quotas
from actors.broker.record_jobs import RecordJobs
from actors.broker.turns import Turns
from actors.coordinator.groups.messages import ListedGroup
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.links.chronicle import Chronicle
from actors.links.operations import Operation, Result
from actors.log.config import LogConfig
from actors.log.damage import Damage
from actors.log.data_dir import DataDir
from actors.log.partition_log import PartitionLog
from actors.runtime.environment import Environment
from actors.runtime.priority import Priority
from actors.settings import INTERNAL_SEGMENT_BYTES, BrokerConfig, topic_value, topic_values
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage
from placement.metadata import ClusterMetadata, PartitionInfo

R = TypeVar("R", bound=Result)
_LOG_FIELDS = {each.name: each.name.replace("_", ".") for each in fields(LogConfig)}


class Controller(Protocol):
    """The way to the controller. Calls are answered later. An error is a text; that no answer came is an error too.

    `by` is the client on whose behalf a broker asks. It is for the controller's log: the broker has judged it.
    """

    @property
    def connected(self) -> bool:
        """True if there is a connection. Without one, calls fail at once."""

    def call(self, operation: Operation[R], done: Callable[[R | None, str | None], None], by: str = "") -> None: ...


class Shards(Protocol):
    """The shards of one kind of coordinator at this broker."""

    def ask(self, partition: int, message: ApiMessage, version: int, done: Callable[[ApiMessage], None]) -> None:
        """Send the broker's own request to a shard. `done` gets the answer, or an error answer if there is no shard."""

    def ask_encoded(
        self, partition: int, message: ApiMessage, version: int, correlation_id: int, done: Callable[[bytes], None]
    ) -> None:
        """As `ask`; `done` gets the answer's whole frame, which has this correlation id."""

    def ask_for(
        self, slot: Slot, partition: int, message: ApiMessage, version: int, done: Callable[[bytes], None]
    ) -> None:
        """As `ask_encoded`, for the request of this slot: if its client goes, the shard is told, and `done` is not."""

    def await_serving(self, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """Start the shard; `done` is called with NONE when it serves, or with the reason why it does not."""

    def led(self) -> list[int]:
        """The partitions led here that have a shard, or records for which they need one. Sleepers have not."""

    def asleep(self) -> list[ListedGroup]:
        """The groups of the partitions led here that sleep: their shards have given their processes back."""


class Coordinators(Protocol):
    """The coordinators of this broker: the shards of each kind, and the kinds there are."""

    def __getitem__(self, kind: CoordinatorKind) -> Shards: ...

    def __iter__(self) -> Iterator[CoordinatorKind]: ...

    def reload(self, topic: str, partition: int) -> None:
        """Have the partition's shard, if there is one, forget everything and read its log again."""

    def note_topics(self) -> None:
        """Topics were created or deleted."""

    def set_log_levels(self, changed: Mapping[str, int]) -> None:
        """Have the processes of all shards, and those to come, log as this one does since its levels were changed."""


class Beside(Protocol):
    """The machines that live beside the logs of this broker."""

    def apply(self) -> None:
        """There is another image: what lives beside logs does so where they are led."""

    def reload(self, topic: str, index: int) -> None:
        """Have who keeps his state in this partition, if anybody does, forget everything and read its log again."""


class Replication(Protocol):
    """The replicas of partitions that other brokers hold, too."""

    registered: bool
    """True if the metadata has come after this process registered with the controller."""

    def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
        """True if this broker may act as the partition's leader now."""

    def appended(self, topic: str, index: int, partition: PartitionInfo) -> None:
        """Records were appended here: send them to the followers."""

    def await_commit(self, topic: str, index: int, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """`done` is called with NONE when all below `next_offset` has committed, or with why that cannot be told."""

    def await_start(
        self, topic: str, index: int, partition: PartitionInfo, start: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """`done` is called with NONE when all replicas in sync begin at `start`, or with why that cannot be told."""

    def failed(self, topic: str, index: int) -> None:
        """A log takes no appends and cannot be repaired, or it cannot be opened."""

    def lost(self, topic: str, index: int) -> None:
        """This broker's disk has lost the end of a partition's log."""

    def watermark_is_known(self, topic: str, index: int) -> bool:
        """True if a new leader's watermark has reached the log end at which it was elected (KIP-207)."""

    def lag(self, topic: str, index: int) -> int:
        """The number of offsets by which this broker's log is behind the leader's watermark."""


def log_config(own: Mapping[str, str], config: BrokerConfig) -> LogConfig:
    """The log settings of a topic: its own over the broker's."""
    values = topic_values(own, config)
    values["producer.id.expiration.ms"] = config["producer.id.expiration.ms"]
    values["segment.bytes"] = values.get(INTERNAL_SEGMENT_BYTES, values["segment.bytes"])
    return LogConfig(**{field: values[key] for field, key in _LOG_FIELDS.items()})


@dataclass(slots=True)
class BrokerContext:
    """The common state of a broker's parts. An image replaces `config` and `metadata`, and updates the last two.

    Parts that need one another get each other where the broker is put together (`server`).
    """

    broker_id: int
    config: BrokerConfig
    data_dir: DataDir
    controller: Controller
    loop: asyncio.AbstractEventLoop
    now_ms: Callable[[], int]
    metadata: ClusterMetadata
    fetches: ParkedFetches
    commits: Commits
    environment: Environment
    authorizer: Authorization | AllowAll = ALLOW_ALL
    """The authorizer with the last image's ACLs (`authorizer.class.name`)."""
    quotas: Quotas | NoQuotas = NO_QUOTAS
    """The quotas of clients."""
    counts: Counts = field(default_factory=Counts)
    chronicle: Chronicle = field(init=False)
    """The events of this broker, for the Monitor."""
    turns: Turns = field(init=False)
    """Work too long for one turn of the loop."""
    beyond_mending: set[Damage] = field(default_factory=set)
    """Damaged batches of logs of which no replica in sync has sound ones."""
    executor: Executor | None = None
    """The executor of work on records that is too long for the loop; None for threads of its own."""
    record_jobs: RecordJobs = field(init=False)
    priority: Priority | None = None
    """The priority of this process over the others of its machine; None if it asked for none."""

    def __post_init__(self) -> None:
        self.chronicle = Chronicle(self.now_ms)
        self.turns = Turns(self.loop, lambda: self.quotas, self.environment.clock.monotonic)
        self.record_jobs = RecordJobs(self.loop, self.executor)

    def log(self, topic: str, index: int) -> PartitionLog:
        """The log of a partition this broker leads; made at first use. Raises LogError, OSError."""
        info = self.metadata.topics[topic]
        key = (topic, index)
        data_dir = self.data_dir
        found = data_dir.logs.get(key)
        if found is None or data_dir.topic_ids[key] != info.id:
            found = data_dir.create(topic, index, info.id, self.topic_log_config(topic), now_ms=self.now_ms())
            found.assign_leader_epoch(info.partitions[index].leader_epoch)
        end = found.log_end_offset
        if found.high_watermark < end and len(info.partitions[index].replicas) == 1:
            # After a restart the checkpoint may be behind. Records that no other broker holds have committed.
            found.advance_high_watermark(end)
        return found

    def holds(self, topic: str, index: int) -> bool:
        """True if this broker has a replica of a partition."""
        partition = self.metadata.partition(topic, index)
        return partition is not None and self.broker_id in partition.replicas

    def held_log(self, topic: str, index: int) -> PartitionLog | None:
        """The log of a partition this broker leads or follows; None if none was needed yet."""
        found = self.data_dir.logs.get((topic, index))
        if found is None or self.data_dir.topic_ids[topic, index] != self.metadata.topics[topic].id:
            return None
        return found

    def topic_log_config(self, topic: str) -> LogConfig:
        """The log settings in force for a topic: its own configs over the broker's."""
        return log_config(self.metadata.topics[topic].configs, self.config)

    def max_message_bytes(self, topic: str) -> int:
        """`max.message.bytes` of a topic."""
        return int(topic_value("max.message.bytes", self.metadata.topics[topic].configs, self.config))

    def min_insync_replicas(self, topic: str) -> int:
        """`min.insync.replicas` of a topic."""
        return int(topic_value("min.insync.replicas", self.metadata.topics[topic].configs, self.config))

    def partition_count(self, kind: CoordinatorKind) -> int:
        """The number of partitions of a kind's topic; the setting as long as the topic does not exist."""
        topic = self.metadata.topics.get(kind.topic)
        return len(topic.partitions) if topic else int(self.config[kind.partitions_setting])

    def partition_of(self, kind: CoordinatorKind, key: str) -> int:
        """The partition of its topic in which a kind of coordinator has a key."""
        return kind.partition_of(key, self.partition_count(kind))
