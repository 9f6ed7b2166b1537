"""A broker's place in the cluster: it registers with the controller, keeps its lease, and registers with the next one.

`contact` finds the controller, and `controller_calls` answers its requests.
"""

from __future__ import annotations

import asyncio
import logging

from actors.broker.contact import RECONNECT_SECONDS, Contact
from actors.broker.context import BrokerContext
from actors.broker.controller_calls import ControllerCalls
from actors.broker.controller_link import ControllerLink
from actors.broker.coordinators.host import Coordinators
from actors.broker.entrance.socket_server import SocketServer
from actors.broker.images import Images
from actors.broker.replication import ReplicaManager
from actors.broker.rhythm import Rhythm, heartbeat_seconds
from actors.broker.spec import BrokerSpec
from actors.links.connection import ControlProtocol
from actors.links.control import Hello, Joined
from actors.links.operations import Operation, Result
from actors.links.versions import VersionError
from actors.log.data_dir import was_replaced
from placement.metadata import ClusterMetadata, was_removed

log = logging.getLogger(__name__)

_OTHER_BUILD_SECONDS = 5.0  # nobody changes a build within a moment


class Registration:
    """This broker's registration with the controller. Without a controller it goes on serving while its lease lasts."""

    def __init__(
        self,
        spec: BrokerSpec,
        contact: Contact,
        context: BrokerContext,
        images: Images,
        replicas: ReplicaManager,
        coordinators: Coordinators,
        socket_server: SocketServer,
        calls: ControllerCalls,
        tick_seconds: float,
    ) -> None:
        self._spec = spec
        self._contact = contact
        self._context = context
        self._images = images
        self._replicas = replicas
        self._coordinators = coordinators
        self._socket_server = socket_server
        self._calls = calls
        self._tick_seconds = tick_seconds
        self._lease_seconds = context.config.integer("broker.session.timeout.ms") / 1000
        self._rhythm = Rhythm(heartbeat_seconds(context.config), tick_seconds)
        self._replica_port = 0  # nobody can push to us before we listen
        self._registered = False
        self._stopping = False
        self.stop_wanted = asyncio.Event()
        """Set when the controller has this broker stop."""
        self._rejoining: asyncio.Task[None] | None = None
        self._silent: ControlProtocol | None = None  # to a controller that says nothing any more

    @property
    def link(self) -> ControllerLink:
        """The connection to the controller."""
        return self._contact.link

    @property
    def rejoining(self) -> bool:
        """True if the controller is being looked for, or has not registered this broker yet."""
        return self._rejoining is not None

    # --- registering ---

    async def start(self, replica_port: int) -> None:
        """Register for the first time; `replica_port` is where other brokers push. Raises OSError, TimeoutError."""
        self._replica_port = replica_port
        if not self.link.connected:  # it was lost while the logs were recovered
            await self._contact.join_first()
        await self._register()
        self._context.data_dir.note_boot()
        if not self.link.connected:  # lost again before this was noted
            self.on_controller_lost(self.link)

    async def _register(self) -> None:
        kernel = self._context.environment.kernel
        pid = kernel.pid()
        hello = Hello(
            broker_id=self._spec.broker_id,
            epoch=self.link.epoch,
            endpoints=self._socket_server.told,
            rack=self._context.config.text("broker.rack"),
            pid=pid,
            process_started=kernel.started_at(pid),
            replica_host=self._spec.host,
            replica_port=self._replica_port,
            intact=self._registered or self._context.data_dir.intact,  # a process does not lose what it wrote
            ports=self._socket_server.ports,
            directory=self._context.data_dir.directory_id,
        )
        await self.link.register(hello, self)
        self._registered = True
        # The answer comes after the image. Without that, this broker might think it leads what it led before.
        self.heartbeat()
        self._coordinators.processes.report()  # reports without a connection were not heard

    # --- what the controller link calls (controller_link.Broker) ---

    def on_image(self, metadata: ClusterMetadata) -> int:
        """Take over an image. The version of the metadata that is in force afterwards."""
        self._images.apply(metadata)
        return self._context.metadata.version

    def on_controller_lost(self, link: ControllerLink) -> None:
        """Look for the controller, and go on serving while the lease lasts."""
        if link is self.link and self._registered and not self.rejoining and not self._stopping:
            log.warning("the connection to the controller was lost")
            self._rejoining = self._context.loop.create_task(self._rejoin())

    async def on_call(self, operation: Operation[Result]) -> Result:
        """Carry out what the controller asks. Raises OSError, TimeoutError; TypeError for what only it can do."""
        return await self._calls.carry_out(operation)

    def on_stop(self) -> None:
        """Have whoever runs this broker stop it."""
        self.stop_wanted.set()

    async def _rejoin(self) -> None:
        while not self._stopping:
            try:
                if self.is_replaced(await self._contact.join()):
                    return
                await self._register()
            except VersionError as error:
                log.error("the controller is not followed: %s", error)
                await asyncio.sleep(_OTHER_BUILD_SECONDS)
                continue
            except Exception as error:  # of a bug, too: one that tries no more is lost until somebody restarts it
                log.info("the controller cannot be reached yet: %s", error)
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            if self.link.connected:
                self._rejoining = None
                self._hang_up_silent()
                self._replicas.follow_again()  # the controller that was to stop us after we handed over may be gone
                return

    def is_replaced(self, joined: Joined) -> bool:
        """True if it was replaced or removed while it was away: then it stops, for its data counts no longer."""
        data_dir, broker_id = self._context.data_dir, self._spec.broker_id
        if broker_id in joined.metadata.removed:
            log.error("fenced: %s", was_removed(broker_id))
            self.stop_wanted.set()
            return True
        directory = joined.metadata.directories.get(broker_id)
        if directory is None or directory.id == data_dir.directory_id:
            return False
        log.error("fenced: %s", was_replaced(data_dir.path, broker_id, data_dir.directory_id, directory.id))
        self.stop_wanted.set()
        return True

    # --- the lease ---

    def tick(self) -> None:
        """Ask for the lease. A controller that has not answered for the length of a lease is given up."""
        if self.rejoining:
            return
        self.link.silent_ticks += 1
        if self.link.silent_ticks * self._tick_seconds > self._lease_seconds:
            log.warning("the controller has not answered for a lease: it is looked for")
            self._silent = self.link.give_up()  # from now on other brokers can confirm this one as leader
        else:
            self.show_life()

    def show_life(self) -> None:
        """Send a heartbeat if it is time for one. To be called at each tick."""
        if self._rhythm.beats():
            self.heartbeat()

    def heartbeat(self) -> None:
        """Send a heartbeat now."""
        self._rhythm.begin()
        replicas = self._replicas
        self.link.heartbeat(self._socket_server.load(), replicas.leaving, replicas.unreachable())

    def stop_looking(self) -> None:
        """Stop looking for a controller, because this broker is about to end."""
        self._stopping = True

    def close(self) -> None:
        """Close the connection; to the controller its end is the end of this process."""
        self.link.close()
        self._hang_up_silent()

    def _hang_up_silent(self) -> None:
        if self._silent is not None:
            self._silent.close()
            self._silent = None
