"""A broker's place in the cluster: it joins, registers, keeps its lease, finds a controller again, and leaves.

Here is also what the controller asks of a broker: its shards, a group, to hand over, to stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

from actors.broker.context import BrokerContext
from actors.broker.controller_link import ControllerLink
from actors.broker.coordinators.host import Coordinators
from actors.broker.entrance.socket_server import SocketServer
from actors.broker.images import Images
from actors.broker.observing import Observing
from actors.broker.replication import ReplicaManager
from actors.broker.rhythm import Rhythm, heartbeat_seconds
from actors.broker.spec import BrokerSpec, StartError
from actors.coordinator_kinds.groups import GROUPS
from actors.links.connection import ControlProtocol
from actors.links.control import Hello, Joined
from actors.links.observations import LookAtBroker
from actors.links.operations import (
    BrokerLeaving,
    Done,
    GroupSeen,
    HandOver,
    LearnSecrets,
    ListShards,
    LookAtGroup,
    Operation,
    Result,
    Shards,
)
from actors.links.reading import ReadHeads, ReadLog, ReadPartitions
from actors.links.secret import Marks, Secrets
from actors.links.status import Load
from actors.links.versions import VersionError
from actors.log.data_dir import was_replaced
from actors.runtime.environment import Chance
from actors.security.tls import TlsError
from actors.settings import LinkStores
from placement.metadata import ClusterMetadata, was_removed

R = TypeVar("R", bound=Result)
FindController: TypeAlias = Callable[[], tuple[str, int, Secrets]]
"""Finds (host, port, secrets) of the controller. It may block."""

log = logging.getLogger(__name__)

_RECONNECT_SECONDS = 0.1
_OTHER_BUILD_SECONDS = 5.0  # nobody changes a build within a moment
_RECOVERING_SECONDS = 1.0  # between two signs of life
_LOOK_SECONDS = 2.0  # within which a shard has to say what it knows of a group
_JOIN_SECONDS = 20.0
_HAND_OVER_SECONDS = 10.0
_LEFT_SECONDS = 30.0


class Contact:
    """The connection to the controller, and how to get another one.

    `find_controller` runs in an executor.
    """

    def __init__(
        self,
        broker_id: int,
        find_controller: FindController,
        loop: asyncio.AbstractEventLoop,
        chance: Chance,
        *,
        tls: LinkStores | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._tls = tls
        self._find_controller = find_controller
        self._loop = loop
        self._chance = chance
        self.secrets = Secrets(b"")
        """Those that are valid now; none until a controller has been found."""
        self.link = ControllerLink(loop, self.secrets, chance)  # to nobody, until a controller has been found
        self._joined = self.link  # calls go by this one: it lags behind while another controller is being joined

    @property
    def connected(self) -> bool:
        """True if there is a connection to a controller that has been joined."""
        return self._joined.connected

    def call(self, operation: Operation[R], done: Callable[[R | None, str | None], None], by: str = "") -> None:
        """Ask the controller to do something. `done` gets (result, None) or (None, the error)."""
        self._joined.call(operation, done, by)

    async def join_first(self) -> Joined:
        """Join at a broker's start; waits for a controller that is still starting. Raises StartError."""
        deadline = self._loop.time() + _JOIN_SECONDS
        while True:
            try:
                return await self.join()
            except (TlsError, VersionError) as error:
                raise StartError(f"broker {self._broker_id}: {error}") from error
            except (TimeoutError, OSError) as error:
                if self._loop.time() > deadline:
                    raise StartError(f"broker {self._broker_id} cannot reach the controller: {error}") from error
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def join(self) -> Joined:
        """Find the controller and join it: the cluster's id and metadata. Raises OSError, TimeoutError."""
        host, port = await self.learn_secrets()
        older, link = self.link, ControllerLink(self._loop, self.secrets, self._chance, tls=self._tls)
        # The lease and the epoch are the broker's, not the connection's.
        link.last_confirmed, link.epoch = older.last_confirmed, older.epoch
        older.close()
        self.link = link
        await link.connect(host, port)
        joined = await link.join(self._broker_id)
        self._joined = link
        return joined

    async def learn_secrets(self) -> tuple[str, int]:
        """Find out which secrets the controller has, and where it is: (host, port). Raises OSError."""
        host, port, self.secrets = await self._loop.run_in_executor(None, self._find_controller)
        return host, port

    async def show_recovery(self, every_s: float = _RECOVERING_SECONDS) -> None:
        """Tell the controller again and again that this broker lives, until cancelled. It has not registered yet."""
        while True:
            await asyncio.sleep(every_s)
            if self.link.connected:
                self.link.heartbeat(Load(), leaving=False)
            else:  # the next controller has to know, too
                with suppress(TimeoutError, OSError, TlsError):
                    await self.join()


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
        observing: Observing,
        tick_seconds: float,
    ) -> None:
        self._spec = spec
        self._contact = contact
        self._context = context
        self._images = images
        self._replicas = replicas
        self._coordinators = coordinators
        self._socket_server = socket_server
        self._observing = observing
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
        match operation:
            case HandOver():
                await self.hand_over()
                return Done()
            case LearnSecrets(marks):
                await self._learn(marks)
                return Done()
            case ListShards():
                return Shards(tuple(self._coordinators.status(GROUPS)), self._replicas.refills())
            case LookAtGroup(group_id):
                return GroupSeen.of(await self._coordinators[GROUPS].group_status(group_id, _LOOK_SECONDS))
            case LookAtBroker():
                return self._observing.look(operation)
            case ReadPartitions():
                return self._observing.reads.partitions(operation)
            case ReadLog():
                return await self._observing.reads.log(operation)
            case ReadHeads():
                return await self._observing.reads.heads(operation)
            case _:
                raise TypeError(f"{type(operation).__name__} is nothing that a broker does")

    async def _learn(self, marks: Marks) -> None:
        await self._contact.learn_secrets()
        if self._contact.secrets.marks != marks:
            raise ConnectionError("there is none with that mark")
        self._replicas.close_unauthenticated()

    def on_stop(self) -> None:
        """Have whoever runs this broker stop it."""
        self.stop_wanted.set()

    async def _rejoin(self) -> None:
        while not self._stopping:
            try:
                if self._is_replaced(await self._contact.join()):
                    return
                await self._register()
            except VersionError as error:
                log.error("the controller is not followed: %s", error)
                await asyncio.sleep(_OTHER_BUILD_SECONDS)
                continue
            except Exception as error:  # of a bug, too: one that tries no more is lost until somebody restarts it
                log.info("the controller cannot be reached yet: %s", error)
                await asyncio.sleep(_RECONNECT_SECONDS)
                continue
            if self.link.connected:
                self._rejoining = None
                self._hang_up_silent()
                self._replicas.follow_again()  # the controller that was to stop us after we handed over may be gone
                return

    def _is_replaced(self, joined: Joined) -> bool:
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
        self.link.heartbeat(self._socket_server.load(), self._replicas.leaving)

    # --- leaving ---

    async def hand_over(self, answer_s: float = _HAND_OVER_SECONDS, stop_s: float = _LEFT_SECONDS) -> None:
        """Before a stop: have others lead what this broker leads, and leave the in-sync sets.

        If it is not stopped within `stop_s`, it follows again. Raises OSError, and TimeoutError if the controller does
        not answer within `answer_s`. Then this broker goes on as before.
        """
        self._replicas.stop_following()  # first, or a leader that hears from this broker proposes it again
        try:
            await self._leave(answer_s)
        except BaseException:  # cancelled, too: it is not stopped, so it has to get in sync again
            self._replicas.follow_again()
            raise
        self._context.loop.call_later(stop_s, self._replicas.follow_again)

    async def _leave(self, answer_s: float) -> None:
        left: asyncio.Future[str | None] = self._context.loop.create_future()
        self.link.call(
            BrokerLeaving(self._spec.broker_id),
            lambda result, error: None if left.done() else left.set_result(error),
        )
        error = await asyncio.wait_for(left, answer_s)
        if error is not None:
            raise ConnectionError(f"broker {self._spec.broker_id} could not hand over what it leads: {error}")

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
