"""A controller without Ray for tests: its launcher notes what it is asked for, its clock is put forward by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actors.controller.acceptor import InForce
from actors.controller.active import ACK_WAIT_SECONDS
from actors.controller.faults import Faults
from actors.controller.metadata.frames import Format, encode
from actors.controller.metadata.log import Log, MetadataLog
from actors.controller.node import ControllerNode, alone
from actors.runtime.environment import REAL, Environment
from actors.runtime.liveness import Sight
from actors.settings import BrokerConfig
from placement.metadata import (
    ClusterMetadata,
    PartitionInfo,
)
from placement.records import Record
from tests.support.runtime_helpers import SECRET, Clock, FakeBroker


class Launcher:
    """Notes what it is asked for; the test plays the processes."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.monitors = 0
        self.killed: list[int] = []
        self.shards: list[tuple[int, int]] = []
        self.alive: list[int] = []
        self.ports: dict[int, int] = {}
        self.times: list[float] = []
        self.sights: dict[int, Sight] = {}
        self.moved: list[int] = []
        self.homeless: set[int] = set()
        self.nodes: dict[int, str] = {}

    def start_broker(self, broker_id: int) -> None:
        self.started.append(broker_id)
        self.times.append(asyncio.get_running_loop().time())

    def kill_broker(self, broker_id: int) -> None:
        self.killed.append(broker_id)

    def heard(self, broker_id: int) -> None:
        self.alive.append(broker_id)

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        self.ports[broker_id] = ports["PLAINTEXT"]

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        self.shards.append((broker_id, count))

    def start_monitor(self) -> None:
        self.monitors += 1

    def move_broker(self, broker_id: int) -> None:
        self.moved.append(broker_id)

    def home_is_gone(self, broker_id: int) -> bool:
        return broker_id in self.homeless

    def node_of(self, broker_id: int) -> str:
        return self.nodes.get(broker_id, "")

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        assert (pid, started) in ((1000 + broker_id, 77), (0, 0))
        return self.sights.get(broker_id)


class Controller:
    def __init__(self, node: ControllerNode, launcher: Launcher, port: int, clock: Clock) -> None:
        assert node.server is not None
        self.node = node
        self.server = node.server
        self.unproved = node.acceptor.unproved
        self.launcher = launcher
        self.port = port
        self.clock = clock

    @property
    def metadata(self) -> ClusterMetadata:
        metadata: ClusterMetadata = self.server.metadata
        return metadata

    def leader(self, topic: str, index: int = 0) -> PartitionInfo:
        found = self.metadata.partition(topic, index)
        assert found is not None
        return found


def older_log(folder: Path) -> None:
    """Put a log into the folder as releases without versions of records began it."""
    folder.mkdir(exist_ok=True)
    (folder / "metadata.log").write_bytes(encode(Format(1), 1))


@asynccontextmanager
async def controller(
    path: Path,
    lease_ms: int = 60_000,
    clock: Clock | None = None,
    ack_wait_s: float = ACK_WAIT_SECONDS,
    log: Log | None = None,
    faults: Faults | None = None,
    environment: Environment = REAL,
    from_files: Callable[[ClusterMetadata], list[Record]] = lambda metadata: [],
    **settings: str,
) -> AsyncIterator[Controller]:
    """A controller on the log in `path`; using the same path again is its restart. Bugs that it has met are raised."""
    met: list[Exception] = []
    clock = clock or Clock(asyncio.get_running_loop())
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.from_mapping(
        {"broker.session.timeout.ms": str(lease_ms), "broker.heartbeat.interval.ms": "100", **texts}
    )
    launcher = Launcher()
    loop: Any = clock
    node = alone(
        *(log or MetadataLog(path / "metadata.log"), InForce(config, SECRET), launcher, loop),
        environment=environment,
        ack_wait_s=ack_wait_s,
        from_files=from_files,
        faults=faults or (lambda what, error: met.append(error)),
    )
    port = await node.listen("127.0.0.1")
    try:
        yield Controller(node, launcher, port, clock)
        for error in met:
            raise error
    finally:
        node.close()


def topic(name: str, partitions: int = 1, factor: int = 1) -> dict[str, Any]:
    return {"name": name, "partitions": partitions, "factor": factor, "configs": {}}


async def create(broker: FakeBroker, name: str, partitions: int = 1, factor: int = 1, number: int = 1) -> Any:
    answer = await broker.call("create_topics", number, topics=[topic(name, partitions, factor)])
    return answer["result"][0]
