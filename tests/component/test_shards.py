"""A broker and its shard processes: real logs and a real Unix socket; the test plays the shard process."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.clients import Clients
from actors.broker.commits import Commits
from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.fetches import ParkedFetches
from actors.broker.handlers import find_coordinator
from actors.broker.led import LedPartitions
from actors.broker.shards.hub import ShardHub
from actors.links.group_status import GroupStatus, Rebalance
from actors.links.relay import PAYLOADS, Assignment, Figures, Greeting, Kind, KnownTopics, RelayProtocol
from actors.log.batch import build_batch, iter_key_values
from actors.log.compaction import compact
from actors.log.config import LogConfig
from actors.log.data_dir import DataDir
from actors.log.errors import StorageError
from actors.log.files import remove_files
from actors.log.reading import Extent
from actors.runtime.environment import Environment, Kernel
from actors.settings import BrokerConfig
from actors.wire import messages
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_request_header, decode_response, encode_request, encode_response
from actors.wire.messages import ApiMessage, api_name, response_class
from placement.hashing import partition_for_group
from placement.metadata import (
    OFFSETS_TOPIC,
    BrokerInfo,
    ClusterMetadata,
    PartitionInfo,
    TopicInfo,
    broker_record,
    partition_record,
    topic_record,
)
from tests.support.handler_helpers import Replication, handler_context
from tests.support.runtime_helpers import run, until

PARTITIONS = 4
GROUP = next(f"g{i}" for i in range(99) if partition_for_group(f"g{i}", PARTITIONS) == 1)
OTHER = next(f"g{i}" for i in range(99) if partition_for_group(f"g{i}", PARTITIONS) == 2)


class FakeShard:
    """A shard process that does what the test says."""

    def __init__(self, path: str, pid: int = 0) -> None:
        self.path = path
        self.pid = pid
        self.heard: list[tuple[int, int, int, bytes]] = []
        self.lost = asyncio.Event()
        self.pongs = True
        self.protocol: RelayProtocol

    async def connect(self, *, hello: bool = True) -> FakeShard:
        loop = asyncio.get_running_loop()

        def protocol() -> RelayProtocol:
            return RelayProtocol(loop, self._on_message, lambda _: None, lambda _: self.lost.set())

        _, self.protocol = await loop.create_unix_connection(protocol, self.path)
        if hello:
            self.hello()
        return self

    def hello(self) -> None:
        self.protocol.send(Kind.HELLO, payload=PAYLOADS.encode(Greeting(self.pid, "tests")))

    def _on_message(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
        if kind == Kind.PING:
            if self.pongs:
                protocol.send(Kind.PONG, payload=PAYLOADS.encode(Figures(counters={"offset_commits": 3})))
            return
        self.heard.append((kind, a, b, payload))

    def of(self, kind: Kind) -> list[tuple[int, int, bytes]]:
        return [(a, b, payload) for k, a, b, payload in self.heard if k == kind]

    async def hear(self, kind: Kind, count: int = 1) -> tuple[int, int, bytes]:
        await until(lambda: len(self.of(kind)) >= count, what=kind.name)
        return self.of(kind)[count - 1]

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
    """A client's connection without a socket: what was written is there to be read."""

    socket_request_max_bytes = 1 << 20

    def __init__(self, hub: ShardHub, number: int = 1) -> None:
        self.hub = hub
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

    # what tests call
    def send(self, message: ApiMessage, version: int, group: str = GROUP, correlation_id: int = 1) -> None:
        frame = encode_request(message, version, correlation_id, "tests")[4:]
        partition = self.hub.partition_of(group.encode())
        self.hub.relay(self.connection, partition, frame, version, message.api_key, correlation_id)
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
        self.hub.disconnected(self.connection, self.connection.slots.clear())


class World:
    """Broker 0, which leads all offsets partitions but the last."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        self.killed: list[int] = []
        texts = {"coterie.spare.shards": "1", "offsets.load.buffer.size": "200"}
        texts |= {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig.from_mapping(texts)
        metadata = ClusterMetadata()
        for i in (0, 1):
            metadata.apply(broker_record(BrokerInfo(i, "127.0.0.1", 9092 + i, None, 0)))
        partitions = tuple(PartitionInfo(int(i == 3), 5, (int(i == 3),), (int(i == 3),)) for i in range(PARTITIONS))
        metadata.apply(topic_record(TopicInfo(OFFSETS_TOPIC, b"o" * 16, partitions)))
        self.data_dir = DataDir.open(path / "data", "the-cluster", 0)
        controller: Any = None
        loop = asyncio.get_running_loop()
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
        self.hub = ShardHub(self.context, led, self.asked.append)
        self.handlers = handler_context(self.context, led, replication, self.hub, Clients(self.context))
        self.socket = str(path / "s")
        self.shards: list[FakeShard] = []

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

    def states(self, *wanted: str) -> list[Any]:
        return [s for s in self.hub.status() if s.state in wanted]

    def lead(self, partition: int, leader: int, epoch: int) -> None:
        """An image that says who leads a partition."""
        info = PartitionInfo(leader, epoch, (leader,), (leader,))
        self.context.metadata.apply(partition_record(OFFSETS_TOPIC, partition, info))
        self.hub.note_topics()

    def coordinator(self, group: str) -> tuple[int, int]:
        """What a lookup is answered: error and broker."""
        request: Any = SimpleNamespace(message=messages.FindCoordinatorRequest(key=group), version=2)
        answer = find_coordinator.handle(self.handlers, request)
        return answer.error_code, answer.node_id

    def write(self, partition: int, count: int) -> None:
        """Records that are in the log before any shard is."""
        log = self.context.log(OFFSETS_TOPIC, partition)
        for i in range(count):
            log.append_as_leader(batch(b"k%d" % i), 5, 0)
        log.advance_high_watermark(log.log_end_offset)

    def keys(self, partition: int) -> list[bytes | None]:
        log = self.context.log(OFFSETS_TOPIC, partition)
        pieces = (extent.read() for extent in log.extents(1 << 20, log.log_end_offset))
        return [key for piece in pieces for key, _ in iter_key_values(piece)]

    def ensure(self, partition: int) -> bool:
        """Whether the shard of a partition serves; starts it if it does not."""
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
async def world(path: Path, **settings: str) -> AsyncIterator[World]:
    made = World(path, **settings)
    server = await made.context.loop.create_unix_server(made.hub.accept, made.socket)
    try:
        yield made
    finally:
        made.hub.close()
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


# --- spares and demand ---


def test_a_spare_waits_until_a_partition_wants_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.spare()
            assert shard.heard == []
            assert not w.ensure(1)
            partition, epoch, payload = await shard.hear(Kind.BECOME)
            assert (partition, epoch) == (1, 5)
            told = PAYLOADS.read(Assignment, payload)
            assert told.config.group_initial_rebalance_delay_ms == 3000
            assert (OFFSETS_TOPIC, b"o" * 16, PARTITIONS) in told.topics
            shard.protocol.send(Kind.ACTIVE, 1)
            await until(lambda: w.ensure(1))

    run(test())


def test_as_many_processes_are_asked_for_as_partitions_and_spares_want(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, coterie_spare_shards="2") as w:
            w.ensure(0)
            w.ensure(1)
            assert w.asked[-1] == 4
            await w.shard()
            await until(lambda: w.asked[-1] == 3)
            w.hub.tick()  # says it again: the controller may not have heard
            assert w.asked[-2:] == [3, 3]
            for _ in range(3):
                await w.shard()
            await until(lambda: len(w.states("Spare")) == 2)
            asked = len(w.asked)
            w.hub.tick()
            assert len(w.asked) == asked, "enough"

    run(test())


def test_a_partition_a_client_waits_for_comes_before_those_loaded_in_the_background(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(0, 1)
            w.write(2, 1)
            w.hub.note_topics()  # as on a start: partitions with records are loaded in the background
            w.ensure(1)
            w.ensure(2)  # waits already, and is wanted now
            order = []
            for _ in range(3):
                shard = await w.shard()
                order.append((await shard.hear(Kind.BECOME))[0])
            assert order == [2, 1, 0]

    run(test())


def test_an_empty_partition_gets_no_process_before_it_is_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(2, 1)
            w.hub.note_topics()
            assert w.hub.led() == [2]
            shard = await w.shard()
            assert (await shard.hear(Kind.BECOME))[0] == 2
            await w.spare()  # the next one stays a spare

    run(test())


@pytest.mark.conformance("A-15")
def test_all_requests_of_a_group_reach_the_groups_one_partition(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            client = Client(w.hub)
            topics = []
            for name in ("a", "b", "c"):
                topic = Commit.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[Commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
                topics.append(topic)
                client.send(Commit(group_id=GROUP, member_id="m", topics=[topic]), 8)
            client.send(Commit(group_id=GROUP, member_id="m", topics=topics), 8)
            await shard.hear(Kind.REQUEST, 4)
            assert w.hub.partition_of(GROUP.encode()) == partition_for_group(GROUP, PARTITIONS) == 1
            assert [s.partition for s in w.states("Active", "Loading")] == [1]

    run(test())


# --- loading ---


def test_the_log_is_loaded_in_pieces_of_which_few_are_on_their_way(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 20)
            shard = await w.shard()
            w.ensure(1)
            await shard.hear(Kind.LOAD, 4)
            await asyncio.sleep(0.05)
            assert len(shard.of(Kind.LOAD)) == 4, "the next piece waits to be asked for"
            keys: list[bytes | None] = []
            done = 0
            while not shard.of(Kind.LOADED):
                await until(lambda done=done: len(shard.of(Kind.LOAD)) > done or shard.of(Kind.LOADED))
                for _, _, piece in shard.of(Kind.LOAD)[done:]:
                    keys += [key for key, _ in iter_key_values(piece)]
                    done += 1
                    shard.protocol.send(Kind.LOAD_MORE, 1)
            assert keys == [b"k%d" % i for i in range(20)]
            assert shard.of(Kind.LOADED) == [(1, 20, b"")]
            assert (await shard.hear(Kind.HIGH_WATERMARK))[1] == 20

    run(test())


def test_a_piece_of_log_is_read_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times 5 MiB from a cold disk held up every client of the broker."""
    threads: list[threading.Thread] = []
    read = Extent.read

    def noted(extent: Extent) -> bytes:
        threads.append(threading.current_thread())
        return read(extent)

    monkeypatch.setattr(Extent, "read", noted)

    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 3)
            shard = await w.serving(1)
            await shard.hear(Kind.LOAD)
            assert threading.main_thread() not in threads

    run(test())


def test_a_piece_read_for_a_partition_given_up_meanwhile_reaches_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    read = Extent.read

    def slow(extent: Extent) -> bytes:
        assert go_on.wait(20)
        return read(extent)

    monkeypatch.setattr(Extent, "read", slow)

    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 1)
            shard = await w.shard()
            w.ensure(1)
            await shard.hear(Kind.BECOME)
            w.hub.reload(1)
            await shard.hear(Kind.RESIGN)
            w.lead(1, leader=1, epoch=6)
            shard.hello()
            w.ensure(2)
            assert (await shard.hear(Kind.BECOME, 2))[0] == 2
            go_on.set()
            await shard.hear(Kind.LOADED)
            assert shard.of(Kind.LOAD) == []

    run(test())


def test_a_compaction_between_finding_a_piece_and_reading_it_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compacted file has the old one's name: what lies at the piece's position there is something else."""
    located, go_on = threading.Event(), threading.Event()
    read = Extent.read

    def slow(extent: Extent) -> bytes:
        if extent.position > 0:
            located.set()
            assert go_on.wait(20)
        return read(extent)

    monkeypatch.setattr(Extent, "read", slow)

    async def test() -> None:
        async with world(tmp_path) as w:
            log = w.context.log(OFFSETS_TOPIC, 1)
            log.config = LogConfig.from_configs({"cleanup.policy": "compact", "max.message.bytes": "100"})
            for i in range(10):  # 0 and 1 go, so that 2 and 3, the second piece, come to lie where they were
                log.append_as_leader(batch(b"k%d" % i if 1 < i < 9 else b"again", b"%d" % i), 5, 0)
            log.advance_high_watermark(log.log_end_offset)
            shard = await w.shard()
            w.ensure(1)
            await until(located.is_set)
            plan = log.plan_compaction(0, force=True)
            assert plan is not None
            remove_files(log.swap(compact(plan), 0))
            go_on.set()
            loaded: dict[bytes | None, Any] = {}
            done = 0
            while not shard.of(Kind.LOADED):
                await until(lambda done=done: len(shard.of(Kind.LOAD)) > done or shard.of(Kind.LOADED))
                for _, _, piece in shard.of(Kind.LOAD)[done:]:
                    loaded.update(iter_key_values(piece))
                    done += 1
                    shard.protocol.send(Kind.LOAD_MORE, 1)
            assert loaded == {b"again": b"9"} | {b"k%d" % i: b"%d" % i for i in range(2, 9)}
            assert shard.of(Kind.RESIGN) == []

    run(test())


def test_a_piece_that_cannot_be_read_as_a_whole_is_not_loaded(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 3)
            shard = await w.spare()
            file = w.context.log(OFFSETS_TOPIC, 1).segments.active.path
            os.truncate(file, file.stat().st_size - 1)
            w.ensure(1)
            await shard.hear(Kind.RESIGN)
            assert len(shard.of(Kind.LOAD)) < 2
            assert shard.of(Kind.LOADED) == []

    run(test())


@pytest.mark.conformance("D-08")
def test_what_clients_are_told_while_a_shard_loads(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, coterie_shard_wait_ms="0") as w:
            shard = await w.shard()
            w.ensure(1)
            await shard.hear(Kind.BECOME)
            client = Client(w.hub)
            requests: list[tuple[ApiMessage, int]] = [
                (Join(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer"), 5),
                (Sync(group_id=GROUP, generation_id=1, member_id="m"), 3),
                (heartbeat(), 3),
                (Leave(group_id=GROUP, member_id="m"), 1),
                (commit(), 8),
                (fetch_offsets(), 7),
            ]
            for message, version in requests:
                client.send(message, version)
            join, sync, beat, leave, committed, fetched = client.answers(*((type(m), v) for m, v in requests))
            assert join.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert sync.error_code == ErrorCode.REBALANCE_IN_PROGRESS
            assert beat.error_code == ErrorCode.NONE
            assert leave.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert [p.error_code for t in committed.topics for p in t.partitions] == [14, 14]
            assert fetched.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run(test())


def test_a_log_that_cannot_be_read_is_tried_again_by_the_next_request_not_in_a_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 3)
            shard = await w.spare()
            log = w.context.log(OFFSETS_TOPIC, 1)
            tries = []

            def broken(*_: Any) -> None:
                tries.append(1)
                raise StorageError("the disk is gone")

            monkeypatch.setattr(log, "locate", broken)
            client = Client(w.hub)
            client.send(heartbeat(), 3)
            await shard.hear(Kind.RESIGN)
            shard.hello()
            await until(lambda: len(w.states("Spare")) == 1)
            assert len(tries) == 1
            monkeypatch.undo()
            assert not w.ensure(1)
            await shard.hear(Kind.LOADED)
            assert not client.aborted

    run(test())


# --- requests ---


def test_a_request_and_its_answer_pass_through_unchanged(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            client = Client(w.hub, 77)
            client.send(heartbeat(), 4, correlation_id=4242)
            connection, slot, frame = await shard.hear(Kind.REQUEST)
            assert (await shard.hear(Kind.OPEN)) == (77, 0, b"10.0.0.9")
            assert connection == 77
            assert frame == encode_request(heartbeat(), 4, 4242, "tests")[4:]
            shard.answer(slot, frame, messages.HeartbeatResponse(error_code=27))
            await until(lambda: client.written)
            assert client.written[4:8] == (4242).to_bytes(4, "big")
            assert client.answers((Heartbeat, 4))[0].error_code == 27
            client.send(heartbeat(), 4)
            await shard.hear(Kind.REQUEST, 2)
            assert len(shard.of(Kind.OPEN)) == 1, "a connection is announced once"

    run(test())


def test_answers_from_two_shards_leave_in_the_clients_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            one, two = await w.serving(1), await w.serving(2)
            client = Client(w.hub)
            client.send(heartbeat(), 3, GROUP, correlation_id=1)
            client.send(heartbeat(group=OTHER), 3, OTHER, correlation_id=2)
            _, slot, frame = await two.hear(Kind.REQUEST)
            two.answer(slot, frame, messages.HeartbeatResponse(error_code=22))
            await until(lambda: not w.hub.partitions.links[2].pending)
            assert client.written == b"", "the first one has not been answered"
            _, slot, frame = await one.hear(Kind.REQUEST)
            one.answer(slot, frame, messages.HeartbeatResponse(error_code=25))
            await until(lambda: len(client.written) > 20)
            assert [a.error_code for a in client.answers((Heartbeat, 3), (Heartbeat, 3))] == [25, 22]

    run(test())


def test_a_request_the_shard_cannot_read_closes_that_clients_connection_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            bad, good = Client(w.hub, 1), Client(w.hub, 2)
            bad.send(heartbeat(), 3)
            good.send(heartbeat(), 3)
            _, slot, _ = await shard.hear(Kind.REQUEST)
            shard.protocol.send(Kind.RESPONSE, 0, slot, b"")
            await until(lambda: bad.aborted)
            _, slot, frame = await shard.hear(Kind.REQUEST, 2)
            shard.answer(slot, frame, messages.HeartbeatResponse())
            await until(lambda: good.written)
            assert not good.aborted

    run(test())


def test_a_client_that_goes_is_forgotten_by_the_shards_it_talked_to(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            one, two = await w.serving(1), await w.serving(2)
            client = Client(w.hub, 5)
            client.send(heartbeat(), 3)
            _, slot, frame = await one.hear(Kind.REQUEST)
            client.go()
            assert await one.hear(Kind.CLOSE) == (5, 0, b"")
            assert two.of(Kind.CLOSE) == []
            assert w.hub.partitions.links[1].pending == {}
            one.answer(slot, frame, messages.HeartbeatResponse())  # too late, and harmless
            other = Client(w.hub, 6)
            other.send(heartbeat(), 3)
            _, slot, frame = await one.hear(Kind.REQUEST, 2)
            one.answer(slot, frame, messages.HeartbeatResponse())
            await until(lambda: other.written)
            assert client.written == b""

    run(test())


def test_questions_of_the_brokers_own_are_answered_by_the_shard_or_for_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, coterie_shard_wait_ms="0") as w:
            answers: list[Any] = []
            question = messages.DescribeGroupsRequest(groups=[GROUP])
            w.hub.ask(1, question, 5, answers.append)
            assert answers[0].groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            w.hub.ask(3, question, 5, answers.append)  # led elsewhere
            assert answers[1].groups[0].error_code == ErrorCode.NOT_COORDINATOR
            shard = await w.serving(1)
            w.hub.ask(1, question, 5, answers.append)
            _, slot, frame = await shard.hear(Kind.REQUEST)
            described = messages.DescribeGroupsResponse.DescribedGroup(group_id=GROUP, group_state="Stable")
            shard.answer(slot, frame, messages.DescribeGroupsResponse(groups=[described]))
            await until(lambda: len(answers) == 3)
            assert answers[2].groups[0].group_state == "Stable"
            w.hub.ask(1, question, 5, answers.append)
            shard.protocol.close()
            await until(lambda: len(answers) == 4)
            assert answers[3].groups[0].error_code == ErrorCode.NOT_COORDINATOR

    run(test())


def test_a_shard_is_asked_what_it_knows_of_a_group(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            assert await w.hub.group_status(GROUP, 60) is None, "nobody serves it"
            shard = await w.serving(1)
            status = GroupStatus(3, ("m-1",), 400, (Rebalance(1, 2, "member left", "m-2"),))
            for number, said in enumerate((status, None), 1):
                asked = asyncio.create_task(w.hub.group_status(GROUP, 60))
                _, question, group = await shard.hear(Kind.DESCRIBE, number)
                assert group.decode() == GROUP
                shard.protocol.send(Kind.DESCRIBED, 0, question + 1, b"an answer to somebody else")
                shard.protocol.send(Kind.DESCRIBED, 0, question, b"" if said is None else said.encode())
                assert await asked == said

    run(test())


def test_a_shard_that_does_not_say_what_it_knows_of_a_group_is_waited_for_a_while(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.serving(1)
            with pytest.raises(TimeoutError):
                await w.hub.group_status(GROUP, 0.01)

    run(test())


# --- the death of a shard ---


@pytest.mark.conformance("D-05", "D-09")
def test_a_shards_death_answers_everything_it_owed_with_16_in_each_requests_version(tmp_path: Path) -> None:
    requests: list[tuple[ApiMessage, int]] = [(Join(group_id=GROUP, member_id="m"), version) for version in (0, 5, 9)]
    requests += [(Sync(group_id=GROUP, member_id="m"), version) for version in (0, 3, 5)]
    requests += [(heartbeat(), version) for version in (0, 4)]
    requests += [(Leave(group_id=GROUP, member_id="m"), 1)]
    requests += [(commit(), version) for version in (2, 5, 8, 9)]
    requests += [(fetch_offsets(), version) for version in (1, 2, 7)]

    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            client = Client(w.hub)
            for message, version in requests:
                client.send(message, version)
            await shard.hear(Kind.REQUEST, len(requests))
            shard.protocol.close()
            await until(lambda: client.written)
            answers = client.answers(*((type(m), v) for m, v in requests))
            for (message, version), answer in zip(requests, answers, strict=True):
                name = f"{api_name(message.api_key)} v{version}"
                if isinstance(message, Commit) or (isinstance(message, Fetch) and version < 2):
                    assert [p.error_code for t in answer.topics for p in t.partitions] == [16, 16], name
                else:
                    assert answer.error_code == ErrorCode.NOT_COORDINATOR, name
            assert not client.aborted

    run(test())


def test_a_dead_shard_is_succeeded_at_once_by_a_spare_that_loads_what_was_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            first = await w.serving(1)
            spare = await w.spare()
            first.protocol.send(Kind.APPEND, 1, 0, batch(b"acknowledged"))
            await first.hear(Kind.APPENDED)
            first.protocol.close()
            partition, _, _ = await spare.hear(Kind.BECOME)
            assert partition == 1
            _, _, piece = await spare.hear(Kind.LOAD)
            assert [key for key, _ in iter_key_values(piece)] == [b"acknowledged"]
            assert w.asked[-1] >= 1, "and another spare is asked for"

    run(test())


def test_a_silent_shard_is_killed_and_succeeded(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, coterie_shard_silence_ms="200") as w:
            silent = await w.shard(pid=123_456)
            w.ensure(1)
            await silent.serve()
            await until(lambda: w.states("Active"))
            spare = await w.spare()
            spare.pid = 1
            silent.pongs = False
            deadline = asyncio.get_running_loop().time() + 60
            while not w.killed and asyncio.get_running_loop().time() < deadline:
                w.hub.tick()
                await asyncio.sleep(0.04)
            assert w.killed == [123_456]
            assert (await spare.hear(Kind.BECOME))[0] == 1

    run(test())


def test_a_shard_that_falls_silent_while_it_loads_is_killed_as_well_but_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, coterie_shard_silence_ms="100") as w:
            loading = await w.shard(pid=55)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            w.ensure(1)
            await loading.hear(Kind.BECOME)
            loading.pongs = False
            while not w.killed and loop.time() < begun + 60:
                w.hub.tick()
                await asyncio.sleep(0.03)
            assert w.killed == [55]
            assert loop.time() - begun >= 0.9

    run(test())


class Clock:
    """The loop with a clock that the test puts forward."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ahead = 0.0

    def time(self) -> float:
        return self._loop.time() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_shards_that_are_silent_for_less_than_their_time_after_a_stall_of_the_broker_live(
    tmp_path: Path,
) -> None:
    """Their silence counted from what was last heard, before the broker was stopped; they were killed in a bunch."""

    async def test() -> None:
        async with world(tmp_path, coterie_shard_silence_ms="10000") as w:
            clock: Any = Clock(asyncio.get_running_loop())
            w.context.loop = clock
            shards = [await w.shard(pid=-1 - n) for n in range(3)]
            for partition in range(3):
                w.ensure(partition)
            for shard in shards:
                await shard.serve()
            await until(lambda: len(w.states("Active")) == 3)
            w.hub.tick()
            await until(lambda: all(row.figures for row in w.states("Active")))
            for shard in shards:
                shard.pongs = False
            clock.ahead += 18.0  # the broker is stopped
            for _ in range(3):
                w.hub.tick()
                clock.ahead += 2.0
            assert w.killed == []
            for _ in range(6):
                w.hub.tick()
                clock.ahead += 2.0
            assert len(w.killed) == 1, "one at a time"

    run(test())


def test_a_stall_of_the_broker_kills_no_shard(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, coterie_shard_silence_ms="200") as w:
            await w.serving(1)
            w.hub.tick()
            await asyncio.sleep(0.02)
            time.sleep(0.6)  # noqa: ASYNC251 - the loop stands still, as under SIGSTOP
            w.hub.tick()
            await asyncio.sleep(0.02)
            w.hub.tick()
            assert w.killed == []
            await until(lambda: w.states("Active")[0].figures == Figures(counters={"offset_commits": 3}))

    run(test())


# --- appending ---


def test_an_append_is_answered_with_its_offsets_and_the_watermark(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 2)
            shard = await w.shard()
            w.ensure(1)
            await shard.serve()
            shard.protocol.send(Kind.APPEND, 1, 40, batch(b"a"))
            shard.protocol.send(Kind.APPEND, 1, 41, batch(b"b"))
            for i, number in enumerate((40, 41)):
                partition, b, payload = await shard.hear(Kind.APPENDED, i + 1)
                base, following = int.from_bytes(payload[:8], "big"), int.from_bytes(payload[8:], "big")
                assert (partition, b, base, following) == (1, number, 2 + i, 3 + i)
            await until(lambda: shard.of(Kind.HIGH_WATERMARK) and shard.of(Kind.HIGH_WATERMARK)[-1][1] == 4)
            assert w.keys(1) == [b"k0", b"k1", b"a", b"b"]

    run(test())


@pytest.mark.parametrize("what", ["not led here any more", "at another epoch", "not confirmed"])
def test_only_the_leader_at_its_epoch_appends(tmp_path: Path, what: str) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            change = {"not led here any more": (1, 6), "at another epoch": (0, 6)}.get(what)
            if change is not None:  # the image has come, but not what follows from it
                info = PartitionInfo(change[0], change[1], (change[0],), (change[0],))
                w.context.metadata.apply(partition_record(OFFSETS_TOPIC, 1, info))
            else:
                led = w.context.metadata.partition(OFFSETS_TOPIC, 1)
                assert led is not None
                w.context.metadata.apply(partition_record(OFFSETS_TOPIC, 1, replace(led, replicas=(0, 1), isr=(0, 1))))
                w.replication.leading = False  # nobody confirms that we lead
            shard.protocol.send(Kind.APPEND, 1, 9, batch(b"stale"))
            error, number, _ = await shard.hear(Kind.REFUSED)
            assert (error, number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 9)
            assert w.keys(1) == []

    run(test())


def test_too_few_in_sync_replicas_refuse_an_append_and_nothing_is_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, min_insync_replicas="2") as w:
            shard = await w.serving(1)
            shard.protocol.send(Kind.APPEND, 1, 0, batch(b"alone"))
            assert (await shard.hear(Kind.REFUSED))[0] == ErrorCode.NOT_ENOUGH_REPLICAS
            assert w.keys(1) == []

    run(test())


@pytest.mark.parametrize("trouble", [StorageError("no space left"), OSError(24, "Too many open files")])
def test_a_full_disk_refuses_an_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            log = w.context.log(OFFSETS_TOPIC, 1)

            def full(*_: Any) -> None:
                raise trouble

            monkeypatch.setattr(log, "append_as_leader", full)
            shard.protocol.send(Kind.APPEND, 1, 3, batch(b"x"))
            assert await shard.hear(Kind.REFUSED) == (ErrorCode.KAFKA_STORAGE_ERROR, 3, b"")

    run(test())


# --- leadership ---


@pytest.mark.conformance("A-16")
def test_a_shard_whose_partition_moves_away_resigns_and_its_clients_are_sent_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            client = Client(w.hub)
            client.send(heartbeat(), 3)
            await shard.hear(Kind.REQUEST)
            assert w.coordinator(GROUP) == (0, 0)
            w.lead(1, leader=1, epoch=6)
            await shard.hear(Kind.RESIGN)
            assert client.answers((Heartbeat, 3))[0].error_code == ErrorCode.NOT_COORDINATOR
            assert w.coordinator(GROUP) == (0, 1)
            client.send(heartbeat(), 3)
            assert [a.error_code for a in client.answers((Heartbeat, 3), (Heartbeat, 3))] == [16, 16]
            assert w.states("Spare") == [], "not before it has said so"
            shard.hello()
            await until(lambda: len(w.states("Spare")) == 1)

    run(test())


def test_what_a_resigning_shard_had_on_its_way_reaches_no_log(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            w.lead(1, leader=1, epoch=6)
            w.lead(1, leader=0, epoch=7)  # and back, before the shard has heard of any of it
            shard.protocol.send(Kind.APPEND, 1, 0, batch(b"of a former life"))
            shard.protocol.send(Kind.ACTIVE, 1)
            await shard.hear(Kind.RESIGN)
            shard.hello()
            w.ensure(1)
            partition, epoch, _ = await shard.hear(Kind.BECOME, 2)
            assert (partition, epoch) == (1, 7)
            assert not w.states("Active")
            assert shard.of(Kind.APPENDED) == shard.of(Kind.REFUSED) == []
            assert w.keys(1) == []

    run(test())


def test_a_new_epoch_of_the_same_leader_loads_the_shard_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 1)
            shard = await w.serving(1)
            spare = await w.spare()
            w.lead(1, leader=0, epoch=8)
            await shard.hear(Kind.RESIGN)
            assert (await spare.hear(Kind.BECOME))[:2] == (1, 8)

    run(test())


def test_a_shard_whose_log_was_repaired_loads_it_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            w.write(1, 1)
            shard = await w.serving(1)
            spare = await w.spare()
            w.hub.reload(2)  # which has none
            w.hub.reload(1)
            await shard.hear(Kind.RESIGN)
            assert (await spare.hear(Kind.BECOME))[:2] == (1, 5)

    run(test())


def test_shards_are_told_which_topics_there_are(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            w.hub.note_topics()
            w.context.metadata.apply(topic_record(TopicInfo("new", b"n" * 16, (PartitionInfo(1, 0, (1,), (1,)),) * 2)))
            w.hub.note_topics()
            await until(lambda: shard.of(Kind.TOPICS))
            assert ("new", b"n" * 16, 2) in PAYLOADS.read(KnownTopics, shard.of(Kind.TOPICS)[-1][2]).topics
            told = len(shard.of(Kind.TOPICS))
            w.hub.note_topics()
            await asyncio.sleep(0.02)
            assert len(shard.of(Kind.TOPICS)) == told, "nothing has changed"

    run(test())


# --- limits ---


def test_clients_of_a_shard_whose_queue_is_full_are_not_read_until_it_drains(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.serving(1)
            await w.serving(2)
            link = w.hub.partitions.links[1]
            busy, other = Client(w.hub, 1), Client(w.hub, 2)
            link.protocol.pause_writing()  # as the transport does beyond 8 MiB
            busy.send(heartbeat(), 3)
            busy.send(heartbeat(), 3)
            other.send(heartbeat(group=OTHER), 3, OTHER)
            assert not busy.reading
            assert other.reading
            link.protocol.resume_writing()
            assert busy.reading

    run(test())


def test_the_death_of_a_full_shard_lets_its_clients_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            shard = await w.serving(1)
            client = Client(w.hub)
            w.hub.partitions.links[1].protocol.pause_writing()
            client.send(heartbeat(), 3)
            assert not client.reading
            shard.protocol.close()
            await until(lambda: client.reading)
            assert client.answers((Heartbeat, 3))[0].error_code == ErrorCode.NOT_COORDINATOR

    run(test())


def test_long_group_ids_are_hashed_each_time_not_remembered(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            for i in range(300):
                name = f"{i}-" + "x" * 5000
                assert w.hub.partition_of(name.encode()) == partition_for_group(name, PARTITIONS)
            assert len(w.hub.groups) == 0
            w.hub.partition_of(b"short")
            assert len(w.hub.groups) == 1
            with pytest.raises(ValueError, match="utf-8"):
                w.hub.partition_of(b"\xff\xfe")

    run(test())


def test_closing_hangs_up_on_every_shard_and_asks_for_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            one, spare = await w.serving(1), await w.spare()
            asked = len(w.asked)
            w.hub.close()
            await one.lost.wait()
            await spare.lost.wait()
            assert len(w.asked) == asked

    run(test())
