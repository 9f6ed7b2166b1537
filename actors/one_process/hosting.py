"""The controller, the brokers and their shards on one loop, and who starts and ends them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from actors import __version__
from actors.broker.entrance.socket_server import Before
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, Door
from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.standalone import StandaloneLog
from actors.controller.node import alone
from actors.controller.shard_starts import ShardStarts
from actors.links.secret import SECRET_BYTES, Secrets
from actors.log.compaction import CompactionPlan, CompactionResult, compact
from actors.log.files import REAL_WRITER
from actors.offsets_partition.process import ShardProcess
from actors.one_process.asking import coordinator_served, until
from actors.one_process.clock import MovableTime
from actors.one_process.machine import Tasks, levels_of_its_own
from actors.runtime.environment import REAL
from actors.runtime.liveness import Sight
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
LISTENER: Final = "PLAINTEXT"
DEFAULTS: Final = {
    "coterie.monitor": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}
"""Settings of ours for tests, where a user gives no others: few logs to make, and nothing to wait for."""


class Broker:
    """One broker, through all its starts. It keeps its folder and its port."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self._cluster = cluster
        self._id = broker_id
        self._pid = 0
        self._port = 0
        self._task: asyncio.Task[None] | None = None
        self._killed = False

    def start(self) -> None:
        """Start it, once its predecessor has gone, unless it runs or is about to."""
        before = self._task
        if before is None or before.done() or self._killed:
            self._killed = False
            self._task = asyncio.get_running_loop().create_task(self._run(before))

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        if self._task is not asyncio.current_task():  # it was killed meanwhile, and started once more
            return
        cluster, ended = self._cluster, asyncio.Event()
        pid = self._pid = cluster.tasks.begin(ended.set)
        try:
            server = await self._open(pid)
            try:
                await server.start()
                self._port = server.port
                await _first(server.registration.stop_wanted.wait(), ended.wait())
            finally:
                server.abandon()
        except Exception as error:  # whatever it is: the parent is told of it
            log.exception("broker %d has not started", self._id)
            cluster.failure = error
            cluster.controller.start_failed(self._id)
        finally:
            cluster.tasks.over(pid)

    async def _open(self, pid: int) -> BrokerServer:
        cluster = self._cluster
        spec = BrokerSpec(
            broker_id=self._id,
            host=HOST,
            doors=(Door(LISTENER, HOST, self._port, HOST),),
            data_dir=str(cluster.folder / f"broker-{self._id}"),
            socket_path=cluster.socket_path(self._id),
            config=cluster.settings,
        )
        environment = cluster.tasks.environment(pid)
        find = cluster.find_controller
        return await BrokerServer.open(spec, find, environment, compact=_compact_in_thread, before=cluster.before)

    def kill(self) -> None:
        """End it as it is, without a goodbye to anybody."""
        self._killed = True
        self._cluster.tasks.kill(self._pid)


class Cluster:
    """A cluster, and for its controller the launcher of processes, which are tasks here."""

    def __init__(self, folder: Path, brokers: int, settings: Mapping[str, str], time: MovableTime, before: Before):
        self.folder = folder
        self.settings = {**DEFAULTS, **_for_so_many(brokers), **settings}
        self.tasks = Tasks(time.clock)
        self.before = before
        self.brokers = {broker_id: Broker(self, broker_id) for broker_id in range(brokers)}
        self._sockets = folder / "s"
        self._secrets = Secrets(REAL.chance.randbytes(SECRET_BYTES))
        self._shards = ShardStarts()
        self._shard_number = 0
        config = BrokerConfig.from_mapping(self.settings)
        loop = asyncio.get_running_loop()
        environment = self.tasks.environment(self.tasks.begin(_never))
        (folder / "controller").mkdir(parents=True)
        metadata_log = StandaloneLog(folder / "controller" / "metadata.log")
        self._node = alone(metadata_log, InForce(config, self._secrets), self, loop, environment)
        self.failure: Exception | None = None
        """The reason why a broker has not started."""
        self.waits_for = "its brokers"
        """Say for people what the start waits for."""

    async def start(self) -> str:
        """Start all; where clients connect to. Raises what a broker's start raises."""
        await self._node.listen(HOST)
        self.controller.start(list(self.brokers))
        await until(lambda: self.failure is not None or self.controller.ready())
        if self.failure is not None:
            raise self.failure
        first = self.controller.metadata.brokers[0]
        await coordinator_served(first.host, first.port, self._waits_for_coordinator)
        return self.bootstrap_servers

    @property
    def controller(self) -> ActiveController:
        """The controller, which there is from the start on."""
        assert self._node.server is not None
        return self._node.server

    def _waits_for_coordinator(self, reason: str) -> None:
        self.waits_for = f"a coordinator of groups: {reason}"

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients: `host:port`, several with commas between them."""
        found = self.controller.metadata.brokers.values()
        return ",".join(f"{each.host}:{each.port}" for each in sorted(found, key=lambda each: each.id))

    def find_controller(self) -> tuple[str, int, Secrets]:
        """The controller's address, and the secrets."""
        return (*self._node.address, self._secrets)

    def socket_path(self, broker_id: int) -> str:
        """The Unix socket at which a broker's shards find it."""
        return str(self._sockets / str(broker_id))

    # -- the controller's launcher

    def start_broker(self, broker_id: int) -> None:
        """Start a broker."""
        self.brokers[broker_id].start()

    def kill_broker(self, broker_id: int) -> None:
        """End a broker."""
        self._shards.forget(broker_id)
        self.brokers[broker_id].kill()

    def heard(self, broker_id: int) -> None:
        """A broker lives."""

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        """A broker has registered. It knows its port itself."""

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        """Start as many shards as a broker lacks."""
        self._shards.want(broker_id, count, urgent, here)
        self._start_shards()

    def _start_shards(self) -> None:
        while (broker_id := self._shards.next()) is not None:
            self._shard_number += 1
            name = f"shard-{self._shard_number}"
            self._shards.begun(broker_id, name)
            self._start_shard(broker_id, name)

    def _start_shard(self, broker_id: int, name: str) -> None:
        task: asyncio.Task[None]

        def end() -> None:
            task.cancel()

        pid = self.tasks.begin(end)
        environment = self.tasks.environment(pid)
        shard = ShardProcess(self.socket_path(broker_id), name, __version__, environment, levels_of_its_own())
        task = asyncio.get_running_loop().create_task(shard.run())
        task.add_done_callback(partial(self._shard_ended, name, pid))

    def _shard_ended(self, name: str, pid: int, task: asyncio.Task[None]) -> None:
        self.tasks.over(pid)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a shard ends by an error", exc_info=error)
        self._shards.over(name)
        self._start_shards()

    def start_monitor(self) -> None:
        """There is none."""

    def move_broker(self, broker_id: int) -> None:
        """There is no other node."""

    def home_is_gone(self, broker_id: int) -> bool:
        """It is here."""
        return False

    def node_of(self, broker_id: int) -> str:
        """No Ray node."""
        return ""

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        """The state of a broker's task."""
        return self.tasks.look(pid)


def _for_so_many(brokers: int) -> dict[str, str]:
    """A small cluster gets what it can hold."""
    copies = str(min(brokers, 3))
    return {"offsets.topic.replication.factor": copies, "default.replication.factor": copies}


def _never() -> None: ...


async def _first(*these: object) -> None:
    """Wait for the first one to end."""
    tasks = [asyncio.ensure_future(each) for each in these]  # type: ignore[call-overload]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _compact_in_thread(plan: CompactionPlan) -> CompactionResult:
    """Compact beside the loop. Raises OSError."""
    return await asyncio.get_running_loop().run_in_executor(None, compact, plan, REAL_WRITER)
