"""The controllers of a simulated cluster: several nodes that keep one log, of which one leads at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.quorum_log import QuorumLog, found, new_cluster
from actors.controller.metadata.voter_file import open_voter_file
from actors.controller.node import ControllerNode
from actors.controller.voting import Voting
from actors.links.secret import Secrets
from actors.quorum.elections import Tuning
from actors.runtime.environment import new_uuid
from actors.settings import BrokerConfig
from tests.sim.disks import Disk, SimFileWriter
from tests.sim.engine import SECOND, Machine, Process
from tests.sim.environment import environment_of

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

_SNAPSHOT_EVERY = 10  # entries


class SimController:
    """One of several controllers, through all its processes."""

    def __init__(self, cluster: Cluster, number: int, secrets: Secrets) -> None:
        self.cluster = cluster
        self.id = number
        self.host = f"controller{number}"
        self.machine = Machine(cluster.sim, self.host)
        self.machine.disk = Disk(cluster.sim, cluster.folder / self.host)
        self.process: Process | None = None
        self.node: ControllerNode | None = None
        self.log: QuorumLog | None = None
        """Also while it does not run: as it was in its last process."""
        self._secrets = secrets
        self._starts = 0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def server(self) -> ActiveController | None:
        """The controller, if this node is it, or does not know yet that it is not."""
        return self.node.server if self.node is not None and self.running else None

    @property
    def address(self) -> tuple[str, int] | None:
        return self.node.address if self.node is not None and self.running and self.node.address[1] else None

    def start(self) -> None:
        if self.running:
            return
        self._starts += 1
        process = self.process = Process(self.cluster.sim, f"{self.host}.{self._starts}", self.machine)
        process.run(self._control(process))

    async def _control(self, process: Process) -> None:
        cluster, environment = self.cluster, environment_of(process)
        path, writer = self.machine.disk.folder / "metadata.log", SimFileWriter(self.machine.disk)
        file = open_voter_file(path, lambda: new_uuid(environment.chance).hex, writer)
        process.on_kill.append(file.close)
        if self.id == 0 and not self.cluster.founded:  # only once: with an empty disk it is another voter
            found(file, self.id, new_cluster())
            self.cluster.founded = True
        in_force = InForce(BrokerConfig.from_mapping(cluster.settings), self._secrets)
        voting = Voting(
            *(in_force, process.loop, environment.chance),
            log=lambda: log,
            seed=cluster.address_of,
            wanted=cluster.voters,
            registered=lambda controller: node.registered(controller),
            gone=lambda controller: node.gone(controller),
            learn=lambda marks: node.learn(marks),
        )
        log = QuorumLog(
            *(file, self.id, Tuning(cluster.sim.random.random), environment.clock.monotonic, voting.send),
            changed=lambda: (process.loop.call_soon(node.look), None)[1],
            peers=cluster.voters,
            snapshot_every=_SNAPSHOT_EVERY,
        )

        def serve() -> ActiveController:
            cluster.sim.say(f"{process.name} leads in epoch {log.next_epoch}")
            server = ActiveController(
                *(log, in_force, cluster, process.loop, environment),
                faults=cluster.bug_of_the_controller,
                others=voting,
            )
            cluster.begins(server)
            return server

        node = ControllerNode(log, in_force, process.loop, serve, voting, environment.chance, self._failed)
        self.log, self.node = log, node
        await node.listen(self.host)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, MetadataLogError):
            self.cluster.sim.fail("one-log", f"{self.host}: {error}")
        self.cluster.sim.say(f"{self.host} ends: {error}")
        self.cluster.sim.after(0, self.kill)
        self.cluster.sim.after(SECOND, self.start)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
