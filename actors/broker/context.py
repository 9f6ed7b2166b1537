"""What a handler sees of the broker it runs in: metadata, logs, coordinator shards, the controller, the clock.

Handlers never touch sockets or Ray; they return a message, or park the request and answer it later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from actors.broker.connection import Connection
from actors.broker.slots import Slot
from actors.errors import CoterieError
from actors.log.config import LogConfig, config_docs
from actors.log.data_dir import DataDir
from actors.log.partition_log import PartitionLog
from actors.settings import BrokerConfig, topic_configs, topic_value
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader, encode_response
from actors.wire.messages import ApiMessage
from placement.metadata import OFFSETS_TOPIC, ClusterMetadata, PartitionInfo

Done = Callable[[Any, str | None], None]
_LOG_SETTINGS = frozenset(config_docs())


class Controller(Protocol):
    """The way to the controller. Calls are answered later; an error is a text, and no answer is an error too."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection: calls fail at once without one."""

    def call(self, operation: str, arguments: Mapping[str, Any], done: Done) -> None: ...


class Shards(Protocol):
    """The way to this broker's offsets partitions."""

    def ask(self, partition: int, message: ApiMessage, version: int, done: Callable[[ApiMessage], None]) -> None:
        """Send a request of ours to a shard; `done` gets its answer, or the error answer if there is no shard."""

    def await_serving(self, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """Have `done` called with NONE once the shard serves, or with why it does not; starts it."""

    def led(self) -> list[int]:
        """Offsets partitions led by this broker which have a shard or records for one."""

    def reload(self, partition: int) -> None:
        """Have the shard, if it is here, forget what it knows and read its log again."""

    def note_topics(self) -> None:
        """Topics have come or gone."""

    def watermark(self, partition: int, offset: int) -> None:
        """All below `offset` has committed."""


class Replication(Protocol):
    """What becomes of records of partitions that other brokers hold, too."""

    def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
        """Whether this broker may act as the partition's leader now."""

    def appended(self, topic: str, index: int, partition: PartitionInfo) -> None:
        """Records were appended here: have the followers hear of them."""

    def await_commit(self, topic: str, index: int, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Have `done` called once all below `next_offset` has committed, or with why that cannot be told."""

    def await_start(
        self, topic: str, index: int, partition: PartitionInfo, start: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """Have `done` called once all replicas in sync begin at `start`, as our log does, or with why they may not."""

    def failed(self, topic: str, index: int) -> None:
        """A log takes no appends and could not be repaired, or cannot be opened."""

    def lost(self, topic: str, index: int) -> None:
        """This broker's disk has lost the end of a partition's log."""

    def watermark_is_known(self, topic: str, index: int) -> bool:
        """Whether a new leader's watermark has reached what stood in its log at its election (KIP-207)."""

    def lag(self, topic: str, index: int) -> int:
        """How far this broker's log is behind the leader's watermark."""


class LogAccessError(CoterieError):
    """A partition cannot be used here, with the code a client is told."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(slots=True)
class Request:
    """One request being handled. `slot` is None for a produce with acks=0, which nobody answers."""

    header: RequestHeader
    message: Any
    connection: Connection
    slot: Slot | None

    @property
    def version(self) -> int:
        return self.header.api_version

    def reply(self, response: ApiMessage) -> None:
        """Answer a parked request. Its connection may be gone; then nothing happens."""
        if self.slot is not None and self.slot.answer is None:
            self.slot.finish(encode_response(response, self.header.api_version, self.header.correlation_id))
            self.connection.flush()


@dataclass(eq=False, slots=True)
class ParkedFetch:
    """A fetch that waits for bytes: `retry` tries again and says whether it has answered; True is the last try."""

    retry: Callable[[bool], bool]
    partitions: list[tuple[str, int]]
    connection: Connection
    timer: asyncio.TimerHandle | None = None


def log_config(own: Mapping[str, str], config: BrokerConfig) -> LogConfig:
    """The log settings of a topic: its own over the broker's."""
    texts = {key: text for key, text in topic_configs(own, config).items() if key in _LOG_SETTINGS}
    texts["producer.id.expiration.ms"] = str(config["producer.id.expiration.ms"])
    return LogConfig.from_configs(texts)


@dataclass(slots=True)
class BrokerContext:
    """The broker as its handlers know it."""

    broker_id: int
    config: BrokerConfig
    data_dir: DataDir
    controller: Controller
    loop: asyncio.AbstractEventLoop
    now_ms: Callable[[], int]
    metadata: ClusterMetadata = field(default_factory=ClusterMetadata)
    shards: Shards = None  # type: ignore[assignment]
    replication: Replication = None  # type: ignore[assignment]
    parked_fetches: dict[tuple[str, int], dict[ParkedFetch, None]] = field(default_factory=dict)
    parked_by_connection: dict[Connection, dict[ParkedFetch, None]] = field(default_factory=dict)
    woken: dict[ParkedFetch, None] = field(default_factory=dict)
    producer_ids: list[int] = field(default_factory=lambda: [0, 0])
    producer_id_waiters: list[Callable[[], None]] = field(default_factory=list)
    creating_offsets_topic: bool = False
    listener: tuple[str, int] | None = None
    """The host and port it listens on for clients, once it does."""
    told_without_effect: set[str] = field(default_factory=set)
    """Settings whose change the log has said to have no effect."""
    response_bytes_waiting: Callable[[], int] = lambda: 0
    may_describe_group: Callable[[str], bool] = lambda group_id: True
    """DESCRIBE on a group. There are no ACLs yet, so everybody may; where it is asked is settled all the same."""

    # --- partitions ---

    def leader_of(self, topic: str, index: int, leader_epoch: int = -1) -> PartitionInfo:
        """The partition if this broker leads it at that epoch (-1: any). Raises LogAccessError."""
        partition = self.metadata.partition(topic, index)
        if partition is None:
            raise LogAccessError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not self.leads(topic, index, partition):
            raise LogAccessError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            older = leader_epoch < partition.leader_epoch
            raise LogAccessError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        return partition

    def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
        """Whether this broker may act as the partition's leader now. With one replica nobody else can."""
        if partition.leader != self.broker_id:
            return False
        return len(partition.replicas) == 1 or self.replication.leads(topic, index, partition)

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
            # After a restart the checkpoint may be behind; what only we hold, is committed.
            found.advance_high_watermark(end)
        return found

    def holds(self, topic: str, index: int) -> bool:
        """Whether this broker has a replica of a partition."""
        partition = self.metadata.partition(topic, index)
        return partition is not None and self.broker_id in partition.replicas

    def held_log(self, topic: str, index: int) -> PartitionLog | None:
        """The log of a partition this broker leads or follows; None where nothing has needed one yet."""
        found = self.data_dir.logs.get((topic, index))
        if found is None or self.data_dir.topic_ids[topic, index] != self.metadata.topics[topic].id:
            return None
        return found

    def topic_log_config(self, topic: str) -> LogConfig:
        """The log settings in force for a topic: its own configs over the broker's."""
        return log_config(self.metadata.topics[topic].configs, self.config)

    def min_insync_replicas(self, topic: str) -> int:
        """`min.insync.replicas` of a topic."""
        return int(topic_value("min.insync.replicas", self.metadata.topics[topic].configs, self.config))

    def appended(self, topic: str, index: int, log: PartitionLog, partition: PartitionInfo) -> None:
        """Records were appended: move the high watermark and wake the fetches that wait for them."""
        if len(partition.replicas) == 1:
            log.advance_high_watermark(log.log_end_offset)
            self.wake(topic, index)
        else:
            self.replication.appended(topic, index, partition)

    # --- parked fetches ---

    def park(self, parked: ParkedFetch, wait_ms: int) -> None:
        """Keep a fetch until one of its partitions grows or `wait_ms` have passed."""
        parked.timer = self.loop.call_later(wait_ms / 1000, self._expire, parked)
        for key in parked.partitions:
            self.parked_fetches.setdefault(key, {})[parked] = None
        self.parked_by_connection.setdefault(parked.connection, {})[parked] = None

    def wake(self, topic: str, index: int) -> None:
        """A partition has grown or changed hands: its parked fetches try again once this turn's work is done.

        Not at once, for a produce request mostly appends to several partitions that one fetch waits for.
        """
        waiting = self.parked_fetches.get((topic, index))
        if waiting:
            if not self.woken:
                self.loop.call_soon(self._retry_woken)
            self.woken.update(waiting)

    def _retry_woken(self) -> None:
        woken, self.woken = self.woken, {}
        for parked in woken:
            if parked.timer is not None and parked.retry(False):
                self.unpark(parked)

    def _expire(self, parked: ParkedFetch) -> None:
        self.unpark(parked)
        parked.retry(True)

    def unpark(self, parked: ParkedFetch) -> None:
        """Forget a parked fetch. Doing so twice is harmless."""
        if parked.timer is None:
            return
        parked.timer.cancel()
        parked.timer = None
        for key in parked.partitions:
            _discard(self.parked_fetches, key, parked)
        _discard(self.parked_by_connection, parked.connection, parked)

    def forget(self, connection: Connection) -> None:
        """A client has gone: nothing of it stays parked."""
        for parked in list(self.parked_by_connection.get(connection, ())):
            self.unpark(parked)

    # --- coordinators ---

    def offsets_partition_count(self) -> int:
        """Partitions of `__consumer_offsets`: the topic's own count once it exists, else the setting."""
        topic = self.metadata.topics.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic else int(self.config["offsets.topic.num.partitions"])

    def topic_name(self, topic_id: bytes, name: str | None) -> str | None:
        """A topic's name from its id if one is given, else the name itself."""
        return self.metadata.names.get(topic_id) if any(topic_id) else name


def _discard(table: dict[Any, dict[ParkedFetch, None]], key: Any, parked: ParkedFetch) -> None:
    waiting = table.get(key)
    if waiting is not None:
        waiting.pop(parked, None)
        if not waiting:
            del table[key]
