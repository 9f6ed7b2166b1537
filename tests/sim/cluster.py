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
from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.commits import NotControllerError
from actors.controller.metadata.log import Log, MetadataLog
from actors.controller.metadata.standalone import StandaloneLog
from actors.controller.node import alone
from actors.controller.shard_starts import ShardStarts
from actors.links.secret import Secrets
from actors.runtime.liveness import Sight
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata, PartitionInfo
from placement.records import METADATA_VERSION, QUORUM, FeatureLevelRecord
from tests.sim.controllers import SimController
from tests.sim.disks import Disk, SimFileWriter
from tests.sim.engine import MS, SECOND, Machine, Process, Simulation, ViolationError
from tests.sim.environment import environment_of
from tests.sim.late_log import LateLog
from tests.sim.processes import look
from tests.sim.sim_broker import CLIENT_PORT, SECRET, SimBroker

BROKERS = (0, 1, 2)
"""Those of most runs."""
_CONTROLLER_HOST = "controller"
_SNAPSHOT_EVERY = 10  # records


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
        loses_power: bool = False,
        controllers: int = 1,
    ) -> None:
        self.sim = sim
        self.starts_twice = starts_twice
        self.loses_power = loses_power
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
        """Its process dies, or its machine loses power; Ray starts it again."""
        if self.controllers:
            leader = self.leader
            each = leader if leader is not None and self.sim.random.random() < 0.6 else self._some_controller()
            self.sim.say(f"{each.host} dies")
            each.kill()
            self._maybe_lose_power(each.machine)
            self.sim.after(down_us, each.start)
            return
        if self._controller_process is None or not self._controller_process.alive:
            return
        self._controller_process.kill()
        self._controller = None
        self._maybe_lose_power(self._machine)
        self._starts = ShardStarts()
        path = self._machine.disk.folder / "metadata.log"
        if self.sim.random.random() < 0.5:  # it was about to write something nobody has heard of
            with open(path, "ab") as file:
                file.write(self.sim.random.randbytes(self.sim.random.randint(1, 30)))
        self.sim.after(down_us, self.start_controller)

    def _maybe_lose_power(self, machine: Machine) -> None:
        if self.loses_power and self.sim.random.random() < 0.7:
            self.sim.say(f"and {machine.disk.folder.name} loses its power")
            machine.disk.crash()

    def _some_controller(self) -> SimController:
        return self.sim.random.choice(self.controllers)

    def find_controller(self) -> tuple[str, int, Secrets]:
        """The address of the controller, and its secrets. Raises ConnectionError while nobody knows it."""
        if self.controllers:
            return (*self._leader_address(), SECRET)
        if self._controller is None or self._address is None:
            raise ConnectionError("there is no controller")
        return (*self._address, SECRET)

    def _leader_address(self) -> tuple[str, int]:
        """The one that any of several controllers takes for the leader's: the first one that answers says it."""
        for each in self.sim.random.sample(self.controllers, len(self.controllers)):
            if each.running and each.node is not None:
                with suppress(NotControllerError):
                    return each.node.leader_address
        raise ConnectionError("no controller knows which one leads")

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
