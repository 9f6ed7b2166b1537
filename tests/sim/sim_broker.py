"""A simulated broker: its machines, its processes and their shards, one after the other."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import actors.records.columns  # noqa: F401 - else a thread does, at the first use only
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, Door
from actors.links.secret import Secrets
from actors.log.partition_log import PartitionLog
from actors.offsets_partition.process import ShardProcess
from tests.sim.disks import Disk, SimFileWriter
from tests.sim.engine import MS, SECOND, BusyThreads, Machine, Process
from tests.sim.environment import compactor_of, environment_of

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

SECRET = Secrets(b"the simulated cluster's")
CLIENT_PORT = 9092


class SimBroker:
    """A broker, through all its processes."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.host = f"broker{broker_id}"
        self.machine = Machine(cluster.sim, self.host)
        self.machine.disk = Disk(cluster.sim, cluster.folder / self.host)
        self.nodes = 1
        """The number of machines it has had: a replacement gives it another one."""
        self.lost = False
        """True if Ray takes its machine for gone, and no other has taken its place."""
        self.fenced = 0
        """The number of its processes that have found that it was replaced."""
        self.process: Process | None = None
        self.server: BrokerServer | None = None
        self.shards: dict[Process, ShardProcess | None] = {}
        self.starts = 0
        self.ended_on_purpose = False
        self._socket = str(cluster.folder / f"{broker_id}.sock")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        if self.lost:
            return
        if self.running and not self.ended_on_purpose:
            return
        if self.running or not self.machine.up:  # its predecessor's files are locked until that has gone
            self.cluster.sim.after(100 * MS, self.start)
            return
        self.starts += 1
        self.process = Process(self.cluster.sim, f"{self.host}.{self.starts}", self.machine)
        self.cluster.sim.say(f"{self.process.name} starts")
        self.server = None
        self.ended_on_purpose = False
        self.process.run(self._serve(self.process))

    async def _serve(self, process: Process) -> None:
        spec = BrokerSpec(
            broker_id=self.id,
            host=process.machine.host,
            doors=(Door("PLAINTEXT", process.machine.host, CLIENT_PORT, process.machine.host),),
            data_dir=str(process.machine.disk.folder),
            socket_path=self._socket,
            config=self.cluster.settings,
        )
        process.on_kill.append(lambda: self._closed(process, self.cluster.controller_process))
        try:
            writer = SimFileWriter(process.machine.disk)
            server = await BrokerServer.open(
                spec,
                self.cluster.find_controller,
                environment_of(process),
                writer,
                compactor_of(process, writer),
                BusyThreads(),
                self.cluster.guests,
            )
            process.on_kill.append(server.context.data_dir.abandon)
            self.cluster.opened[process] = server
            process.on_kill.append(lambda: self.cluster.opened.pop(process, None))
            await server.start()
        except Exception as error:
            self.cluster.sim.say(f"{process.name} cannot start: {error!r}")
            self.cluster.sim.after(10 * MS, process.kill)
        else:
            if process is self.process:
                self.server = server
            await server.registration.stop_wanted.wait()
            self.cluster.sim.say(f"{process.name} is fenced")
            self.fenced += 1
            self.cluster.sim.after(0, process.kill)

    def _closed(self, process: Process, launcher: Process | None) -> None:
        """The kernel closes a dead process's files. Its starter hears of it if it had not begun to serve."""
        if process is not self.process:
            return  # of a machine that is not the broker's any more
        if self.cluster.starts_twice:
            self.cluster.sim.after(MS, self.start)
        if self.server is not None:
            self.server = None
        elif self.process is not None and launcher is not None and not self.ended_on_purpose:
            self.cluster.sim.at(self.cluster.sim.now + 10 * MS, launcher, self._start_failed)

    def _start_failed(self) -> None:
        if self.cluster.controller is not None and not self.running:
            self.cluster.controller.start_failed(self.id, "it was killed")

    def kill(self) -> None:
        """SIGKILL of the broker; its shards notice."""
        if self.process is not None:
            self.process.kill()

    async def stop(self, *, hands_over: bool) -> None:
        """A clean stop; its starter starts it again."""
        process, server = self.process, self.server
        assert process is not None
        assert server is not None
        self.cluster.sim.say(f"{process.name} is asked to stop")
        if hands_over:
            with suppress(OSError, TimeoutError):
                await server.hand_over()
        await server.stop()
        self.cluster.sim.after(0, process.kill)

    # -- its machine

    def lose_machine(self, down_us: int) -> None:
        """The machine loses power, and boots again later."""
        sim = self.cluster.sim
        sim.say(f"{self.host} loses power")
        self.machine.up = False
        for process in list(self.machine.processes):
            process.kill(silently=True)
        self.shards.clear()
        self.machine.disk.crash()
        sim.after(down_us, self._boot, self.machine)

    def _boot(self, machine: Machine) -> None:
        machine.up = True
        machine.boots += 1
        self.cluster.sim.network.rebooted(machine.host)

    def lose_node(self, *, runs_on_us: int = 0, reached: bool = False) -> None:
        """Ray loses the machine for good; or so it seems, and it runs on for a while.

        Nobody reaches it then, or only clients do.
        """
        sim = self.cluster.sim
        sim.say(f"{self.host} is lost for good{', and runs on' if runs_on_us else ''}")
        self.lost = True
        if runs_on_us:
            ours = [self.cluster.machine, *(broker.machine for broker in self.cluster.brokers)]
            for machine in ours if reached else sim.network.machines:
                if machine is not self.machine:
                    sim.network.block(self.host, machine.host, sim.now + runs_on_us)
            return
        self.machine.up = False
        for process in list(self.machine.processes):
            process.kill(silently=True)
        # A peer that still sends to it hears in the end that there is no such host.
        sim.after(3 * SECOND, sim.network.rebooted, self.host)

    def take_another_node(self) -> None:
        """It was replaced: it is on another machine, with an empty disk, from now on."""
        sim = self.cluster.sim
        self.nodes += 1
        self.host = f"broker{self.id}-{self.nodes}"
        self.machine = Machine(sim, self.host)
        self.machine.disk = Disk(sim, self.cluster.folder / self.host)
        sim.network.machines.append(self.machine)
        self._socket = str(self.cluster.folder / f"{self.host}.sock")
        self.process, self.server, self.lost, self.shards = None, None, False, {}
        sim.say(f"broker {self.id} is on {self.host} now")

    # -- its shards

    def start_shard(self, name: str) -> None:
        sim = self.cluster.sim
        if not self.machine.up:
            sim.after(SECOND, self.cluster.shard_ended, name)
            return
        process = Process(sim, f"{self.host}.shard", self.machine)
        self.shards[process] = None
        process.on_kill.append(lambda: self.shards.pop(process, None))
        process.on_kill.append(lambda: self.cluster.shard_ended(name))
        sim.at(
            sim.now + sim.random.randint(20, 200) * MS,
            process,
            lambda socket=self._socket: process.run(self._host_shard(process, name, socket)),  # type: ignore[misc]
        )

    async def _host_shard(self, process: Process, name: str, socket: str) -> None:
        shard = ShardProcess(socket, name, "simulated", environment_of(process))
        self.shards[process] = shard
        await shard.run()
        self.cluster.sim.after(0, process.kill)

    def log(self, topic: str, index: int) -> PartitionLog | None:
        """The log as the running process has it."""
        if self.server is None:
            return None
        return self.server.context.data_dir.get(topic, index)
