"""A broker and its shard processes for tests: real logs and a real Unix socket; the test plays the shard process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.commits import Commits
from actors.broker.connections.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.coordinators.host import Coordinators
from actors.broker.entrance.clients import Clients
from actors.broker.fetches import ParkedFetches
from actors.broker.handlers import find_coordinator
from actors.broker.led import LedPartitions
from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.coordinator_kinds.table import KINDS
from actors.links.known_topics import DeletedTopics
from actors.links.relay import PAYLOADS, Figures, Greeting, Kind, RelayProtocol
from actors.links.unauthenticated import FailureLog
from actors.log.data_dir import DataDir
from actors.log.errors import StorageError
from actors.records.building import build_batch
from actors.records.reading import iter_key_values
from actors.runtime.environment import Environment, Kernel
from actors.runtime.private import is_ours
from actors.settings import BrokerConfig
from actors.wire import messages
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_request_header, decode_response, encode_request, encode_response
from actors.wire.messages import ApiMessage, response_class
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo
from placement.records import BrokerRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.handler_helpers import Replication, handler_context
from tests.support.log_helpers import machine
from tests.support.runtime_helpers import until

PARTITIONS = 4
GROUP = next(f"g{i}" for i in range(99) if partition_for_group(f"g{i}", PARTITIONS) == 1)
OTHER = next(f"g{i}" for i in range(99) if partition_for_group(f"g{i}", PARTITIONS) == 2)


class FakeShard:
    """A shard process that the test plays."""

    def __init__(self, path: str, pid: int = 0) -> None:
        self.path = path
        self.pid = pid
        self.heard: list[tuple[int, int, int, bytes]] = []
        self.lost = asyncio.Event()
        self.pongs = True
        self.pings = 0
        self.protocol: RelayProtocol

    async def connect(self, *, hello: bool = True) -> FakeShard:
        loop = asyncio.get_running_loop()

        def protocol() -> RelayProtocol:
            return RelayProtocol(loop, self._on_message, lambda _: None, lambda _: self.lost.set(), is_ours)

        _, self.protocol = await loop.create_unix_connection(protocol, self.path)
        if hello:
            self.hello()
        return self

    def hello(self) -> None:
        self.protocol.send(Kind.HELLO, payload=PAYLOADS.encode(Greeting(self.pid, "tests", f"shard-{self.pid}")))

    def _on_message(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
        if kind == Kind.VERSIONS:
            assert protocol.told(payload)
            return
        if kind == Kind.PING:
            self.pings += 1
            if self.pongs:
                protocol.send(Kind.PONG, payload=PAYLOADS.encode(Figures(counters={"offset_commits": 3})))
            return
        self.heard.append((kind, a, b, payload))

    def of(self, kind: Kind) -> list[tuple[int, int, bytes]]:
        return [(a, b, payload) for k, a, b, payload in self.heard if k == kind]

    async def hear(self, kind: Kind, count: int = 1) -> tuple[int, int, bytes]:
        await until(lambda: len(self.of(kind)) >= count, what=kind.name)
        return self.of(kind)[count - 1]

    async def hear_deleted(self, count: int = 1) -> tuple[str, ...]:
        """The deleted topics it is told of, by the message of that number."""
        payload = (await self.hear(Kind.TOPICS_DELETED, count))[2]
        return PAYLOADS.read(DeletedTopics, payload).names

    async def serve(self) -> int:
        """Load as told and say that we serve; the partition."""
        partition, _, _ = await self.hear(Kind.BECOME, len(self.of(Kind.RESIGN)) + 1)
        self.protocol.send(Kind.ACTIVE, partition)
        return partition

    def answer(self, slot: int, frame: bytes, message: ApiMessage) -> None:
        header = decode_request_header(frame)
        answer = encode_response(message, header.api_version, header.correlation_id)
        self.protocol.send(Kind.RESPONSE, 0, slot, answer)


class Client:
    """A client's connection without a socket: it keeps the bytes that were written."""

    socket_request_max_bytes = 1 << 20

    def __init__(self, coordinators: Coordinators, number: int = 1) -> None:
        self.coordinators = coordinators
        self.failures = FailureLog(lambda: 0.0)
        self.written = b""
        self.aborted = False
        self.reading = True
        this: Any = self
        self.connection = Connection(this, number, 0.0)
        self.connection.connection_made(this)

    # as a transport
    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.9", 1)

    # as a server
    def on_connect(self, connection: Connection) -> bool:
        return True

    # for tests
    def send(
        self,
        message: ApiMessage,
        version: int,
        key: str = GROUP,
        correlation_id: int = 1,
        kind: CoordinatorKind = GROUPS,
    ) -> None:
        frame = encode_request(message, version, correlation_id, "tests")[4:]
        hub = self.coordinators[kind]
        partition = hub.partition_of(key.encode())
        hub.relay(self.connection, partition, frame, version, message.api_key, correlation_id)
        self.connection.flush()

    def answers(self, *requests: tuple[type[ApiMessage], int]) -> list[Any]:
        """The answers written so far, decoded as those of (request class, version) in order."""
        found, data = [], self.written
        for request, version in requests:
            length = int.from_bytes(data[:4], "big")
            found.append(decode_response(response_class(request.api_key), version, data[4 : 4 + length])[1])
            data = data[4 + length :]
        assert data == b""
        return found

    def go(self) -> None:
        self.coordinators.disconnected(self.connection, self.connection.slots.clear())


class World:
    """Broker 0, which leads all partitions of each kind of coordinator but the last."""

    def __init__(self, path: Path, kinds: Sequence[CoordinatorKind] = KINDS, **settings: str) -> None:
        self.path = path
        texts = {"coterie.spare.shards": "1", "offsets.load.buffer.size": "200"}
        texts |= {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig.from_mapping(texts)
        metadata = ClusterMetadata()
        for i in (0, 1):
            metadata.apply(BrokerRecord(BrokerInfo(i, "127.0.0.1", 9092 + i, None, 0)))
        partitions = tuple(PartitionInfo(int(i == 3), 5, (int(i == 3),), (int(i == 3),)) for i in range(PARTITIONS))
        for kind in kinds:
            topic_id = b"o" * 16 if kind is GROUPS else kind.topic.encode().ljust(16)
            metadata.apply(TopicRecord(TopicInfo(kind.topic, topic_id, partitions)))
        self.data_dir = DataDir.open(path / "data", "the-cluster", 0, machine())
        controller: Any = None
        loop = asyncio.get_running_loop()
        self.killed: list[int] = []
        """Pids of processes that the broker has killed; there are none of those numbers."""
        self.context = BrokerContext(
            0,
            config,
            self.data_dir,
            controller,
            loop,
            lambda: time.time_ns() // 10**6,
            metadata,
            ParkedFetches(loop),
            Commits(),
            Environment(kernel=Kernel(kill=self.killed.append)),
        )
        self.replication = Replication()
        replication: Any = self.replication
        led = LedPartitions(self.context, replication)
        self.asked: list[int] = []
        self.urgent = 0
        self.here: tuple[str, ...] = ()
        self.coordinators = Coordinators(self.context, led, self._want, kinds)
        self.hub = self.coordinators[GROUPS]
        self.handlers = handler_context(self.context, led, replication, self.coordinators, Clients(self.context))
        self.socket = str(path / "s")
        self.shards: list[FakeShard] = []

    def _want(self, count: int, urgent: int, here: tuple[str, ...]) -> None:
        self.asked.append(count)
        self.urgent = urgent
        self.here = here

    async def shard(self, *, hello: bool = True, pid: int = 0) -> FakeShard:
        shard = FakeShard(self.socket, pid)
        self.shards.append(shard)
        await shard.connect(hello=hello)
        return shard

    async def spare(self) -> FakeShard:
        before = len(self.states("Spare"))
        shard = await self.shard()
        await until(lambda: len(self.states("Spare")) > before)
        return shard

    async def spare_again(self, shard: FakeShard) -> None:
        """A shard that was sent away says hello."""
        shard.hello()
        await until(lambda: len(self.states("Spare")) == 1)

    def states(self, *wanted: str) -> list[Any]:
        return [s for s in self.coordinators.status(GROUPS) if s.state in wanted]

    def lead(self, partition: int, leader: int, epoch: int, topic: str = OFFSETS_TOPIC) -> None:
        """An image with this leader of a partition."""
        info = PartitionInfo(leader, epoch, (leader,), (leader,))
        self.context.metadata.apply(PartitionRecord(topic, partition, info))
        self.coordinators.note_topics()

    def topic(self, name: str, topic_id: bytes) -> None:
        """An image with a topic of one partition, new or made anew."""
        self.context.metadata.apply(TopicRecord(TopicInfo(name, topic_id, (PartitionInfo(1, 0, (1,), (1,)),))))
        self.coordinators.note_topics()

    def delete_topic(self, name: str) -> None:
        """An image without a topic."""
        self.context.metadata.apply(RemoveTopicRecord(name))
        self.coordinators.note_topics()

    def coordinator(self, group: str) -> tuple[int, int]:
        """The answer to a lookup: error and broker."""
        asks = SimpleNamespace(listener="PLAINTEXT")
        message = messages.FindCoordinatorRequest(key=group)
        header = SimpleNamespace(api_key=message.api_key)
        request: Any = SimpleNamespace(message=message, version=2, connection=asks, header=header)
        answer = find_coordinator.handle(self.handlers, request)
        return answer.error_code, answer.node_id

    def write(self, partition: int, count: int) -> None:
        """Records that are in the log before any shard is."""
        log = self.context.log(OFFSETS_TOPIC, partition)
        for i in range(count):
            log.append_as_leader(batch(b"k%d" % i), 5, 0)
        log.advance_high_watermark(log.log_end_offset)

    def break_log(self, patch: pytest.MonkeyPatch, partition: int) -> list[int]:
        """Have every read of a log fail; the list gets an entry for each try."""
        tries: list[int] = []

        def broken(*_: Any) -> None:
            tries.append(1)
            raise StorageError("the disk is gone")

        patch.setattr(self.context.log(OFFSETS_TOPIC, partition), "locate", broken)
        return tries

    def keys(self, partition: int, topic: str = OFFSETS_TOPIC) -> list[bytes | None]:
        log = self.context.log(topic, partition)
        pieces = (extent.read() for extent in log.extents(1 << 20, log.log_end_offset))
        return [key for piece in pieces for key, _ in iter_key_values(piece)]

    def ensure(self, partition: int) -> bool:
        """True if the shard of a partition serves; starts it if it does not."""
        told: list[ErrorCode] = []
        self.hub.await_serving(partition, told.append)
        return told == [ErrorCode.NONE]

    async def serving(self, partition: int = 1) -> FakeShard:
        """A shard that serves `partition`."""
        shard = await self.shard()
        self.ensure(partition)
        assert await shard.serve() == partition
        await until(lambda: partition in [s.partition for s in self.states("Active")])
        return shard


def batch(key: bytes, value: bytes = b"v") -> bytes:
    return bytes(build_batch([(key, value, (), 0)]))


@asynccontextmanager
async def world(path: Path, kinds: Sequence[CoordinatorKind] = KINDS, **settings: str) -> AsyncIterator[World]:
    made = World(path, kinds, **settings)
    server = await made.context.loop.create_unix_server(made.coordinators.accept, made.socket)
    try:
        yield made
    finally:
        made.coordinators.close()
        for shard in made.shards:
            shard.protocol.close()
        server.close()
        await asyncio.sleep(0)
        made.data_dir.close()


Heartbeat = messages.HeartbeatRequest
Join = messages.JoinGroupRequest
Sync = messages.SyncGroupRequest
Leave = messages.LeaveGroupRequest
Commit = messages.OffsetCommitRequest
Fetch = messages.OffsetFetchRequest
OffsetDelete = messages.OffsetDeleteRequest


def heartbeat(member: str = "m", group: str = GROUP) -> ApiMessage:
    return Heartbeat(group_id=group, generation_id=1, member_id=member)


def commit() -> ApiMessage:
    topic = Commit.OffsetCommitRequestTopic(
        name="t",
        partitions=[
            Commit.OffsetCommitRequestPartition(partition_index=i, committed_offset=7, committed_metadata="")
            for i in (0, 4)
        ],
    )
    return Commit(group_id=GROUP, generation_id_or_member_epoch=1, member_id="m", topics=[topic])


def fetch_offsets() -> ApiMessage:
    topic = Fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 4])
    return Fetch(group_id=GROUP, topics=[topic])
