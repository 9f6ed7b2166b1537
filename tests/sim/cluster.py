"""The controller, the brokers and their shards as simulated processes, and the code that starts and ends them.

It stands in for Ray, and for the `actor.py` of actors/controller, actors/broker and actors/offsets_partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import actors.records.columns  # noqa: F401 - else a thread does, at the first use only
from actors.broker.beside.guest import GuestKind
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, Door
from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.log import Log, MetadataLog
from actors.controller.metadata.standalone import StandaloneLog
from actors.controller.node import alone
from actors.controller.shard_starts import ShardStarts
from actors.links.secret import Secrets
from actors.log.partition_log import PartitionLog
from actors.offsets_partition.process import ShardProcess
from actors.runtime.liveness import Sight
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata, PartitionInfo
from placement.records import METADATA_VERSION, QUORUM, FeatureLevelRecord
from tests.sim.controllers import SimController
from tests.sim.disks import Disk, SimFileWriter
from tests.sim.engine import MS, SECOND, BusyThreads, Machine, Process, Simulation, ViolationError
from tests.sim.environment import compactor_of, environment_of
from tests.sim.late_log import LateLog
from tests.sim.processes import look

BROKERS = (0, 1, 2)
"""Those of most runs."""
SECRET = Secrets(b"the simulated cluster's")
CLIENT_PORT = 9092
_CONTROLLER_HOST = "controller"
_SNAPSHOT_EVERY = 10  # records


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


class Cluster:
    """Everything that serves. It stands in for the controller's Launcher, too."""

    def __init__(
        self,
        sim: Simulation,
        folder: Path,
        settings: dict[str, str],
        guests: Sequence[GuestKind] = (),
        *,
        commits_late: bool = False,
        one_voter: bool = False,
        raises: bool = False,
        brokers: int = len(BROKERS),
        starts_twice: bool = False,
        controllers: int = 1,
    ) -> None:
        self.sim = sim
        self.starts_twice = starts_twice
        self.guests = guests
        self.folder = folder
        self.settings = settings
        self.commits_late = commits_late
        self.one_voter = one_voter
        self.raises = raises
        self._machine = Machine(sim, _CONTROLLER_HOST)
        self._machine.disk = Disk(sim, folder / _CONTROLLER_HOST)
        self._controller: ActiveController | None = None
        self._controller_process: Process | None = None
        self.controllers = (
            [SimController(self, number, SECRET) for number in range(controllers)] if controllers > 1 else []
        )
        """Those that keep a log together; empty if there is one alone."""
        self.voters = tuple(each.id for each in self.controllers)
        self.opened: dict[Process, BrokerServer] = {}
        """The broker that each process has opened, whether it serves already or not."""
        self.brokers = [SimBroker(self, broker) for broker in range(brokers)]
        """All there ever were, by their ids."""
        self.founded = False
        """True once the first of several controllers has begun the cluster's log."""
        self._truth = ClusterMetadata()
        self._log: Log | None = None
        self._starts = ShardStarts()
        self._shard_number = 0
        self._address: tuple[str, int] | None = None
        self._started = False
        sim.network.machines = [*self.machines, *(broker.machine for broker in self.brokers)]

    # -- the controllers

    @property
    def machines(self) -> list[Machine]:
        """Those of the controllers."""
        return [each.machine for each in self.controllers] or [self._machine]

    @property
    def leader(self) -> SimController | None:
        """Of several controllers the one that leads; the newest, if another does not know yet that it leads no more."""
        leading = [(each.server.epoch, each) for each in self.controllers if each.server is not None]
        return max(leading, key=lambda found: found[0])[1] if leading else None

    @property
    def machine(self) -> Machine:
        """That of the controller."""
        leader = self.leader
        return leader.machine if leader is not None else self.machines[0]

    @property
    def controller(self) -> ActiveController | None:
        leader = self.leader
        return leader.server if leader is not None else self._controller

    @property
    def controller_process(self) -> Process | None:
        leader = self.leader
        return leader.process if leader is not None else self._controller_process

    @property
    def log(self) -> Log | None:
        """All that has committed, also while there is no controller."""
        logs = [each.log for each in self.controllers if each.log is not None]
        return max(logs, key=lambda log: log.committed.version) if logs else self._log

    @property
    def truth(self) -> ClusterMetadata:
        """The controller's metadata, also while there is none."""
        log = self.log if self.controllers else None
        return log.committed if log is not None else self._truth

    def address_of(self, number: int) -> tuple[str, int] | None:
        return self.controllers[number].address

    def begins(self, server: ActiveController) -> None:
        """A node is the controller now."""
        if self._started:
            server.expect([broker.id for broker in self.brokers])
        else:
            self._started = True
            self.sim.after(0, lambda: server.start([broker.id for broker in self.brokers]))

    def start_controller(self) -> None:
        for each in self.controllers:
            each.start()
        if self.controllers or (self._controller_process is not None and self._controller_process.alive):
            return
        process = self._controller_process = Process(self.sim, "controller", self._machine)
        process.run(self._control(process))

    async def _control(self, process: Process) -> None:
        log = self._open_log(process)
        process.on_kill.append(log.close)
        config = BrokerConfig.from_mapping(self.settings)
        in_force = InForce(config, SECRET)
        node = alone(log, in_force, self, process.loop, environment_of(process), faults=self.bug_of_the_controller)
        port = await node.listen(_CONTROLLER_HOST)
        server = node.server
        assert server is not None
        self._controller = server
        self._truth = log.committed
        self._address = (_CONTROLLER_HOST, port)
        if self._started:
            server.expect([broker.id for broker in self.brokers])
            if self.raises and log.decided.level < QUORUM:
                server.publisher.commit([FeatureLevelRecord(METADATA_VERSION, QUORUM)])
        else:
            self._started = True
            server.start([broker.id for broker in self.brokers])

    def _open_log(self, process: Process) -> Log:
        path, writer = self._machine.disk.folder / "metadata.log", SimFileWriter(self._machine.disk)
        if self.one_voter and (self._started or not self.raises):
            log: Log = StandaloneLog(path, writer, snapshot_every=_SNAPSHOT_EVERY, new_directory=lambda: "directory")
        else:
            log = MetadataLog(path, writer, snapshot_every=_SNAPSHOT_EVERY)
        self._log = log
        return LateLog(log, self.sim, process, self._resign) if self.commits_late else log

    def _resign(self) -> None:
        self.sim.say("the controller's disk has refused a change: it resigns")
        self.sim.after(0, self.crash_controller, SECOND)

    def bug_of_the_controller(self, what: str, error: Exception) -> None:
        if isinstance(error, ViolationError):
            raise error
        self.sim.fail("controller-bug", f"{what}: {error!r}")

    def crash_controller(self, down_us: int) -> None:
        """Its process dies; Ray starts it again."""
        if self.controllers:
            leader = self.leader
            each = leader if leader is not None and self.sim.random.random() < 0.6 else self._some_controller()
            self.sim.say(f"{each.host} dies")
            each.kill()
            self.sim.after(down_us, each.start)
            return
        if self._controller_process is None or not self._controller_process.alive:
            return
        self._controller_process.kill()
        self._controller = None
        self._starts = ShardStarts()
        path = self._machine.disk.folder / "metadata.log"
        if self.sim.random.random() < 0.5:  # it was about to write something nobody has heard of
            with open(path, "ab") as file:
                file.write(self.sim.random.randbytes(self.sim.random.randint(1, 30)))
        self.sim.after(down_us, self.start_controller)

    def _some_controller(self) -> SimController:
        return self.sim.random.choice(self.controllers)

    def find_controller(self) -> tuple[str, int, Secrets]:
        """The address of one that runs, and its secrets. Raises ConnectionError while there is none."""
        address = self._address
        if self.controllers:
            address = self.sim.random.choice(self.controllers).address
        elif self._controller is None:
            address = None
        if address is None:
            raise ConnectionError("there is no controller")
        return (*address, SECRET)

    # -- the controller's Launcher

    def start_broker(self, broker_id: int) -> None:
        self.sim.after(self.sim.random.randint(50, 400) * MS, self._start_broker, self.brokers[broker_id])

    def _start_broker(self, broker: SimBroker) -> None:
        """As the launcher does: a broker whose node is gone cannot start before it is replaced, and then elsewhere."""
        if broker.lost and (directory := self.truth.directories.get(broker.id)) is not None and directory.awaited:
            broker.take_another_node()
        if broker.lost and self.controller is not None and self.controller_process is not None:
            self.sim.at(self.sim.now, self.controller_process, self.controller.start_failed, broker.id, "it was killed")
        broker.start()

    def move_broker(self, broker_id: int) -> None: ...

    def home_is_gone(self, broker_id: int) -> bool:
        return self.brokers[broker_id].lost

    def kill_broker(self, broker_id: int) -> None:
        self._starts.forget(broker_id)
        broker = self.brokers[broker_id]
        process = broker.process
        if process is not None and not broker.lost:  # of a lost node Ray hears nothing, and ends nothing
            self.sim.judge_kill(process)
            broker.ended_on_purpose = True
            self._kill(process)

    def heard(self, broker_id: int) -> None: ...

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None: ...

    def _kill(self, process: Process) -> None:
        """Ray's own connections are no faster than ours, and cross the same partitions."""
        if self.sim.network.blocked_until_hosts(self.machine.host, process.machine.host):
            self.sim.after(250 * MS, self._kill, process)
        else:
            self.sim.after(self.sim.random.randint(1, 50) * MS, process.kill)

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        self._starts.want(broker_id, count, urgent, here)
        while (waiting := self._starts.next()) is not None:
            self._shard_number += 1
            name = f"shard-{self._shard_number}"
            self._starts.begun(waiting, name)
            self.brokers[waiting].start_shard(name)

    def shard_ended(self, name: str) -> None:
        """Ray tells the launcher that a process it was to start is gone, or could not start."""
        self._starts.over(name)

    def start_monitor(self) -> None: ...

    def node_of(self, broker_id: int) -> str:
        return f"node-{broker_id}"

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        return look(pid)

    # -- the truth

    @property
    def present(self) -> list[SimBroker]:
        """The brokers that were not removed."""
        return [broker for broker in self.brokers if broker.id not in self.truth.removed]

    def add_broker(self) -> None:
        """There is another machine for a broker."""
        broker = SimBroker(self, len(self.brokers))
        self.brokers.append(broker)
        self.sim.network.machines.append(broker.machine)
        self.sim.say(f"broker {broker.id} is added")

    def partition(self, topic: str, index: int) -> PartitionInfo | None:
        """The partition as the controller has it."""
        return self.truth.partition(topic, index)

    def ready(self) -> bool:
        """True if every broker serves, and all are registered and know of one another."""
        return self.controller is not None and self.controller.ready() and all(b.server for b in self.present)

    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        return tuple((broker.host, CLIENT_PORT) for broker in self.brokers)


STARTUP_US = 20 * SECOND
