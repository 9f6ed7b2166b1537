"""Three brokers, their controller and their shards on one loop, over real sockets and files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from actors.broker.beside.guest import GuestKind
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, Door
from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.log import MetadataLog
from actors.controller.node import ControllerNode, alone
from actors.controller.shard_starts import ShardStarts
from actors.links.secret import Secrets, found_at
from actors.offsets_partition.process import ShardProcess
from actors.records.building import build_batch
from actors.settings import BrokerConfig
from actors.wire import messages
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, PartitionInfo
from tests.support.calls import operation
from tests.support.read_records import read_records
from tests.support.runtime_helpers import SECRET, until

FAST = {
    "broker.session.timeout.ms": "60000",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.commit.timeout.ms": "60000",
}


class Launcher:
    """Starts shard processes as tasks of this loop; brokers are the test's."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.starts = ShardStarts()

    def start_broker(self, broker_id: int) -> None: ...

    def kill_broker(self, broker_id: int) -> None: ...

    def heard(self, broker_id: int) -> None: ...

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None: ...

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        self.starts.want(broker_id, count, urgent, here)
        while (waiting := self.starts.next()) is not None:
            self.starts.begun(waiting, self.world.start_shard(waiting))

    def start_monitor(self) -> None: ...

    def move_broker(self, broker_id: int) -> None: ...

    def home_is_gone(self, broker_id: int) -> bool:
        return False

    def node_of(self, broker_id: int) -> str:
        return ""

    def look_at(self, broker_id: int, pid: int, started: int) -> None: ...


class World:
    """A controller and its brokers."""

    def __init__(self, path: Path, guests: Sequence[GuestKind] = (), **settings: str) -> None:
        self.path = path
        self.guests = guests
        self.settings = FAST | {name.replace("_", "."): value for name, value in settings.items()}
        self.servers: dict[int, BrokerServer] = {}
        self.shards: list[asyncio.Task[None]] = []
        self.port = 0
        self.secret_file = path / "secret"
        self.secret_file.write_text(SECRET.current.hex())
        self.node: ControllerNode

    async def start(self, brokers: int) -> None:
        await self.start_controller()
        for broker_id in range(brokers):
            await self.start_broker(broker_id)

    async def start_controller(self, *, restarted: bool = False) -> None:
        loop = asyncio.get_running_loop()
        config = BrokerConfig.from_mapping(self.settings)
        log = MetadataLog(self.path / "metadata.log")
        self.node = alone(log, InForce(config, SECRET), Launcher(self), loop, restarted=restarted)
        self.port = await self.node.listen("127.0.0.1")

    @property
    def controller(self) -> ActiveController:
        assert self.node.server is not None
        return self.node.server

    async def start_broker(self, broker_id: int) -> BrokerServer:
        spec = BrokerSpec(
            broker_id=broker_id,
            host="127.0.0.1",
            doors=(Door("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1"),),
            data_dir=str(self.path / "data" / f"broker-{broker_id}"),
            socket_path=str(self.path / "s" / str(broker_id)),
            config=self.settings,
        )
        server = await BrokerServer.open(spec, self.find_controller, guests=self.guests)
        await server.start()
        self.servers[broker_id] = server
        return server

    def find_controller(self) -> tuple[str, int, Secrets]:
        """The controller's address, and the secrets that a broker finds in the files."""
        found = self.controller.secrets.marks.among(found_at(self.secret_file))
        assert found is not None
        return "127.0.0.1", self.port, found

    async def restart_broker(self, broker_id: int, **settings: str) -> None:
        """In order, with these settings from now on; it is back in all in-sync sets."""
        self.settings = self.settings | {name.replace("_", "."): value for name, value in settings.items()}
        server = self.servers.pop(broker_id)
        await server.hand_over()
        await server.stop()
        await until(lambda: not self.metadata.brokers[broker_id].alive)
        await self.start_broker(broker_id)
        await until(lambda: self.controller.in_sync_everywhere(broker_id), what="in-sync sets")

    def start_shard(self, broker_id: int) -> str:
        """Start a shard process as a task; its name."""
        name = f"shard-{len(self.shards)}"

        async def serve() -> None:
            with suppress(asyncio.CancelledError):
                await ShardProcess(str(self.path / "s" / str(broker_id)), name, "tests").run()

        self.shards.append(asyncio.get_running_loop().create_task(serve()))
        return name

    async def kill(self, broker_id: int) -> None:
        """As SIGKILL: nothing is closed, flushed or said."""
        self.servers.pop(broker_id).abandon()
        await until(lambda: not self.metadata.brokers[broker_id].alive)

    async def stop(self) -> None:
        for server in list(self.servers.values()):
            await server.stop()
        self.node.close()
        for task in self.shards:
            task.cancel()
        await asyncio.gather(*self.shards, return_exceptions=True)

    @property
    def metadata(self) -> Any:
        return self.controller.metadata

    def partition(self, topic: str, index: int = 0) -> PartitionInfo:
        found: PartitionInfo | None = self.metadata.partition(topic, index)
        assert found is not None
        return found

    async def create(self, name: str, factor: int = 3, partitions: int = 1, **configs: str) -> None:
        topic = {
            "name": name,
            "partitions": partitions,
            "factor": factor,
            "configs": {key.replace("_", "."): value for key, value in configs.items()},
        }
        _, records = self.controller.decide(operation("create_topics", topics=[topic]))
        assert records
        self.controller.publisher.commit(records)
        await until(lambda: all(name in s.context.metadata.topics for s in self.servers.values()))

    async def client(self, broker_id: int) -> Client:
        return await Client.to(self.servers[broker_id].port)

    async def produce(self, topic: str, value: bytes, acks: int = -1, timeout_ms: int = 10_000) -> int:
        """Produce one record to the partition's leader, as the cluster now knows it; the error code."""
        leader = self.partition(topic).leader
        if leader not in self.servers:
            return int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        client = await self.client(leader)
        answer = await client.ask(produce(topic, value, acks, timeout_ms), 9)
        client.close()
        return int(answer.responses[0].partition_responses[0].error_code)

    def records(self, broker_id: int, topic: str, index: int = 0) -> list[bytes | None]:
        """The values in a broker's copy of a partition, committed or not."""
        found = self.servers[broker_id].context.data_dir.get(topic, index)
        values: list[bytes | None] = []
        offset = found.log_start_offset if found is not None else 0
        while found is not None and offset < found.log_end_offset:
            data, offset = found.read_with_end(offset, 1 << 20)
            values += [record.value for record in read_records(data)]
        return values


class Client:
    """A connection that asks one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, message: ApiMessage, version: int) -> Any:
        self.writer.write(encode_request(message, version, 1, "tests"))
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(length)
        return decode_response(response_class(message.api_key), version, frame)[1]

    def close(self) -> None:
        self.writer.close()


def produce(topic: str, value: bytes, acks: int, timeout_ms: int) -> messages.ProduceRequest:
    part = messages.ProduceRequest.PartitionProduceData(index=0, records=build_batch([(None, value, (), 1000)]))
    data = messages.ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
    return messages.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])


@asynccontextmanager
async def world(
    path: Path, brokers: int = 3, guests: Sequence[GuestKind] = (), **settings: str
) -> AsyncIterator[World]:
    made = World(path, guests, **settings)
    await made.start(brokers)
    try:
        yield made
    finally:
        await made.stop()


async def until_async(call: Any, wanted: Any, timeout_s: float = 60.0) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while (got := await call()) != wanted:
        assert loop.time() < deadline, got
        await asyncio.sleep(0.01)


async def commit(w: World, group: str, offset: int) -> int:
    """Commit for a group without members at its coordinator; the error code."""
    index = partition_for_group(group, 4)
    partition = w.metadata.partition(OFFSETS_TOPIC, index)
    client = await w.client(next(iter(w.servers)))
    if partition is None:
        await client.ask(messages.FindCoordinatorRequest(coordinator_keys=[group]), 4)
        client.close()
        return int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    client.close()
    if partition.leader not in w.servers:
        return int(ErrorCode.NOT_COORDINATOR)
    client = await w.client(partition.leader)
    part = messages.OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = messages.OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])
    answer = await client.ask(messages.OffsetCommitRequest(group_id=group, topics=[topic]), 8)
    client.close()
    return int(answer.topics[0].partitions[0].error_code)


async def committed(w: World, group: str) -> int:
    """The offset that a group has committed, by its coordinator."""
    partition = w.partition(OFFSETS_TOPIC, partition_for_group(group, 4))
    client = await w.client(partition.leader)
    topic = messages.OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = await client.ask(messages.OffsetFetchRequest(group_id=group, topics=[topic]), 7)
    client.close()
    assert answer.error_code == 0
    return int(answer.topics[0].partitions[0].committed_offset)
