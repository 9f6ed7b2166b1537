"""A broker without Ray beside a real controller that can be replaced, on one loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, Door, StartError
from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.log import MetadataLog
from actors.controller.node import ControllerNode, alone
from actors.links.secret import Secrets
from actors.settings import BrokerConfig
from actors.wire import messages
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from tests.support.runtime_helpers import SECRET


class NoProcesses:
    """A launcher whose processes are the test's own objects."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.ports: dict[int, int] = {}

    def start_broker(self, broker_id: int) -> None:
        self.started.append(broker_id)

    def kill_broker(self, broker_id: int) -> None: ...

    def heard(self, broker_id: int) -> None: ...

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        self.ports[broker_id] = ports["PLAINTEXT"]

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None: ...

    def start_monitor(self) -> None: ...

    def move_broker(self, broker_id: int) -> None: ...

    def home_is_gone(self, broker_id: int) -> bool:
        return False

    def node_of(self, broker_id: int) -> str:
        return ""

    def look_at(self, broker_id: int, pid: int, started: int) -> None: ...


class World:
    """A controller that can be replaced, and broker 0."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.launcher = NoProcesses()
        self.node: ControllerNode | None = None
        self.port = 0
        self.secrets = SECRET
        self.server: BrokerServer

    async def start_controller(self) -> ActiveController:
        log = MetadataLog(self.path / "metadata.log")
        config = BrokerConfig.from_mapping(self.settings)
        in_force = InForce(config, self.secrets)
        self.node = alone(log, in_force, self.launcher, asyncio.get_running_loop())
        self.port = await self.node.listen("127.0.0.1")
        assert self.controller is not None
        self.controller.expect([0])
        return self.controller

    @property
    def controller(self) -> ActiveController | None:
        return self.node.server if self.node is not None else None

    def stop_controller(self) -> None:
        if self.node is not None:
            self.node.close()
            self.node = None

    def find_controller(self) -> tuple[str, int, Secrets]:
        if self.controller is None:
            raise ConnectionError("there is none now")
        return "127.0.0.1", self.port, self.controller.secrets

    async def start_broker(self) -> BrokerServer:
        spec = BrokerSpec(
            broker_id=0,
            host="127.0.0.1",
            doors=_doors_of(self.settings),
            data_dir=str(self.path / "data" / "broker-0"),
            socket_path=str(self.path / "sockets" / "0"),
            config=self.settings,
        )
        self.server = await BrokerServer.open(spec, self.find_controller)
        try:
            await self.server.start()
        except StartError:
            await self.server.stop()
            raise
        return self.server

    async def client(self, listener: str = "PLAINTEXT") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.socket_server.ports[listener])
        return Client(reader, writer)

    @property
    def metadata(self) -> Any:
        assert self.controller is not None
        return self.controller.metadata


def _doors_of(settings: Mapping[str, str]) -> tuple[Door, ...]:
    config = BrokerConfig.from_mapping(settings)
    named = config.listeners if "listeners" in config.explicit else ()
    doors = (Door(each.name, "127.0.0.1", 0, "127.0.0.1", 0, each.protocol) for each in named)
    return tuple(doors) or (Door("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1"),)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._sent: list[tuple[type[ApiMessage], int]] = []

    def send(self, *requests: tuple[ApiMessage, int]) -> None:
        data = b""
        for message, version in requests:
            self._sent.append((response_class(message.api_key), version))
            data += encode_request(message, version, len(self._sent), "tests")
        self.writer.write(data)

    async def answer(self) -> Any:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(length)
        cls, version = self._sent[int.from_bytes(frame[:4], "big") - 1]
        return decode_response(cls, version, frame)[1]

    async def ask(self, message: ApiMessage, version: int) -> Any:
        self.send((message, version))
        return await self.answer()

    async def closed(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def world(path: Path, **settings: str) -> AsyncIterator[World]:
    made = World(path, **settings)
    await made.start_controller()
    try:
        await made.start_broker()
        try:
            yield made
        finally:
            await made.server.stop()
    finally:
        made.stop_controller()


VERSIONS: tuple[ApiMessage, int] = (messages.ApiVersionsRequest(), 2)


def create(name: str, partitions: int = 1) -> tuple[ApiMessage, int]:
    topic = messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return messages.CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5


def delete(name: str) -> tuple[ApiMessage, int]:
    return messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), 4
