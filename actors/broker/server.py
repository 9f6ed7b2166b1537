"""A broker without Ray: puts its parts together, has them tick, and stops them.

Everything runs on one uvloop loop; what would block it (recovery, retention, flushing) runs in an executor.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import cache
from pathlib import Path

from actors.broker.authorization import Authorization
from actors.broker.beside.guest import GuestKind
from actors.broker.beside.host import Guests
from actors.broker.beside.registry import GUESTS
from actors.broker.commits import Commits
from actors.broker.contact import Contact, FindController
from actors.broker.context import BrokerContext, log_config
from actors.broker.controller_calls import ControllerCalls
from actors.broker.coordinators.host import Coordinators
from actors.broker.entrance.clients import Clients
from actors.broker.entrance.routing import Router
from actors.broker.entrance.socket_server import Before, SocketServer, nothing_before
from actors.broker.entrance.tls_listeners import TlsListeners
from actors.broker.fetches import ParkedFetches
from actors.broker.handlers.auto_creation import AutoCreation
from actors.broker.handlers.context import HandlerContext
from actors.broker.handlers.idle_settings import IdleSettings
from actors.broker.handlers.internal_topics import InternalTopics
from actors.broker.handlers.producer_ids import ProducerIds
from actors.broker.handlers.registry import ADVERTISED
from actors.broker.housekeeping import Compact, Housekeeper, compact_in_process
from actors.broker.images import Images, with_dynamic
from actors.broker.integrity.finds import Finds
from actors.broker.integrity.mending import Mending
from actors.broker.integrity.scrubbing import Scrubber
from actors.broker.leaving import Leaving
from actors.broker.led import LedPartitions
from actors.broker.observing import Observing
from actors.broker.quotas import NO_QUOTAS, quotas_of
from actors.broker.read_for_monitor import MonitorReads
from actors.broker.registration import Registration
from actors.broker.replication import ReplicaManager
from actors.broker.spec import BrokerSpec, StartError
from actors.links.control import WantSpares
from actors.log.config import LogConfig
from actors.log.data_dir import META_NAME, DataDir
from actors.log.files import REAL_WRITER, FileWriter
from actors.log.machine import Machine
from actors.runtime.data_folder import check_own_folder
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.priority import Priority
from actors.runtime.private import private_folder
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata, was_removed

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.25


class BrokerServer:
    """A broker, all of whose parts are made by `open`."""

    def __init__(
        self,
        spec: BrokerSpec,
        contact: Contact,
        context: BrokerContext,
        compact: Compact,
        guests: Sequence[GuestKind],
        before: Before = nothing_before,
    ) -> None:
        self.spec = spec
        self.contact = contact
        self.context = context
        self.replicas = ReplicaManager(
            context,
            lambda: contact.secrets,
            lambda: contact.link.epoch,
            lambda: contact.link.last_confirmed,
            _TICK_SECONDS,
        )
        led = LedPartitions(context, self.replicas)
        self.coordinators = Coordinators(context, led, lambda *wanted: contact.link.send(WantSpares(*wanted)))
        self.guests = Guests(context, led, guests)
        self.images = Images(context, self.replicas, self.coordinators, self.guests)
        self.clients = Clients(context)
        self.tls = TlsListeners(context, lambda: contact.secrets)
        handlers = HandlerContext(
            context,
            led,
            self.replicas,
            self.coordinators,
            self.clients,
            ProducerIds(context.controller),
            InternalTopics(context.controller),
            AutoCreation(context.controller),
            IdleSettings(),
            self.guests,
            ADVERTISED,
            self.tls,
        )
        self.router = Router(handlers, self.coordinators)
        self.socket_server = SocketServer(
            spec,
            context,
            self.clients,
            self.coordinators,
            self.router,
            self.tls,
            _TICK_SECONDS,
            before,
        )
        self.observing = Observing(context, self.coordinators, self.socket_server, MonitorReads(context, led))
        self.leaving = Leaving(spec.broker_id, contact, self.replicas, context.loop)
        self.registration = Registration(
            spec,
            contact,
            context,
            self.images,
            self.replicas,
            self.coordinators,
            self.socket_server,
            ControllerCalls(contact, self.replicas, self.coordinators, self.observing, self.leaving),
            _TICK_SECONDS,
        )
        self.mending = Mending(context, self.replicas.batches, self.replicas.failed)
        self.scrubber = Scrubber(context)
        self.finds = Finds(context, self.mending.note)
        self.housekeeper = Housekeeper(context, self.replicas, self.coordinators, self.guests, compact)
        self._loop = context.loop
        self._relay_listener: asyncio.AbstractServer | None = None
        self.stopping = False
        """True when it serves no more, and closes its logs."""

    @classmethod
    async def open(
        cls,
        spec: BrokerSpec,
        find_controller: FindController,
        environment: Environment = REAL,
        writer: FileWriter = REAL_WRITER,
        compact: Compact = compact_in_process,
        executor: Executor | None = None,
        guests: Sequence[GuestKind] = GUESTS,
        before: Before = nothing_before,
        priority: Priority | None = None,
    ) -> BrokerServer:
        """Join the cluster and recover the logs. Raises StartError or DataDirError with the fix in its text.

        `executor`: where batches are checked that take the loop too long; threads of its own if it is None. `guests`
        are the kinds of what lives beside logs. `before` makes what stands before the socket server. `priority`: what
        this process has got over others.
        """
        loop = asyncio.get_running_loop()
        now_ms = environment.clock.wall_ms
        machine = Machine(writer, environment.kernel.boot, lambda: new_uuid(environment.chance).hex)
        settings = BrokerConfig.from_mapping(spec.config)
        tls = settings.link_tls
        contact = Contact(spec.broker_id, find_controller, loop, environment.chance, tls=tls)
        try:
            joined = await contact.join_first()
            metadata = joined.metadata
            if spec.broker_id in metadata.removed:
                raise StartError(was_removed(spec.broker_id))
            config = with_dynamic(settings, metadata, spec.broker_id)
            _check_authorizer(spec.broker_id, config, joined.authorizer)
            recovers = loop.create_task(contact.show_recovery())
            try:
                data_dir = await loop.run_in_executor(
                    None, _open_logs, spec, config, joined.cluster_id, metadata, machine, now_ms
                )
            finally:
                recovers.cancel()
        except BaseException:  # cancelled, too: the link would stay
            contact.link.close()
            raise
        context = BrokerContext(
            spec.broker_id,
            config,
            data_dir,
            contact,
            loop,
            now_ms,
            metadata,
            ParkedFetches(loop),
            Commits(),
            environment,
            Authorization.of(config, metadata, loop.time),
            quotas_of(NO_QUOTAS, metadata.quotas, config, loop),
            executor=executor,
            priority=priority,
        )
        return cls(spec, contact, context, compact, guests, before)

    @property
    def port(self) -> int:
        """The port at which it listens for clients of its first listener."""
        return self.clients.listening[0].port

    async def start(self) -> None:
        """Listen and register. Raises StartError with the fix in its text."""
        self._relay_listener = await self._listen_for_shards()
        await self.socket_server.listen()
        await self.registration.start(await self.replicas.listen(self.spec.host))
        self.housekeeper.start()
        self.scrubber.start()
        self.socket_server.begin_ticks()
        self._loop.call_later(_TICK_SECONDS, self.tick)

    async def _listen_for_shards(self) -> asyncio.AbstractServer:
        # Made by the driver where it runs; brokers on other nodes of a Ray cluster make their own.
        path = self.spec.socket_path
        try:
            private_folder(Path(path).parent)
            with suppress(FileNotFoundError):
                os.unlink(path)
            return await self._loop.create_unix_server(self.coordinators.accept, path)
        except OSError as error:
            raise StartError(f"broker {self.spec.broker_id} cannot listen for its shards: {error}") from error

    def tick(self) -> None:
        """Do what comes again and again, and come again."""
        self.socket_server.tick()
        self.context.authorizer.tick()
        if self.stopping:
            if self.registration.link.connected:  # while the logs are closed, a silent broker would be killed
                self.registration.show_life()
                self._loop.call_later(_TICK_SECONDS, self.tick)
            return
        self.registration.tick()
        self.coordinators.tick()
        self.replicas.tick()
        self.finds.tick()
        self.mending.tick()
        self.socket_server.close_idle()
        self._loop.call_later(_TICK_SECONDS, self.tick)

    async def serve(self) -> None:
        """Serve until the controller has this broker stop; then stop."""
        await self.registration.stop_wanted.wait()
        await self.stop()

    async def hand_over(self) -> None:
        """Before a stop: have others lead what this broker leads. Raises OSError, TimeoutError."""
        await self.leaving.hand_over()

    def abandon(self) -> None:
        """Let go of everything at once, as it is, as the end of the process would."""
        self.stop_serving()
        self.context.data_dir.abandon()
        self.registration.close()

    async def stop(self) -> None:
        """Stop serving, close the logs and mark the stop as clean."""
        self.stop_serving()
        begun = self._loop.time()
        await self._loop.run_in_executor(None, self.context.data_dir.close)
        log.info("closed the logs in %.1f s", self._loop.time() - begun)
        self.registration.close()

    def stop_serving(self) -> None:
        """Stop serving clients, brokers and shards. Heartbeats to the controller go on."""
        self.stopping = True
        self.registration.stop_looking()
        self.images.close()
        self.socket_server.close()
        self.context.authorizer.close()
        if self._relay_listener is not None:
            self._relay_listener.close()
        self.housekeeper.stop()
        self.scrubber.stop()
        self.coordinators.close()
        self.guests.close()
        self.replicas.close()
        self.context.record_jobs.close()


def _check_authorizer(broker_id: int, config: BrokerConfig, clusters: str) -> None:
    """A broker that asks nobody for rights would be the way around the others. Raises StartError."""
    own = config.text("authorizer.class.name") or ""
    if bool(own) != bool(clusters):
        raise StartError(
            f"broker {broker_id} has authorizer.class.name={own}, its cluster authorizer.class.name={clusters}: all "
            "brokers of a cluster have the same"
        )


def _open_logs(
    spec: BrokerSpec,
    config: BrokerConfig,
    cluster_id: str,
    metadata: ClusterMetadata,
    machine: Machine,
    now_ms: Callable[[], int],
) -> DataDir:
    path = Path(spec.data_dir)
    directory = metadata.directories.get(spec.broker_id)
    anew = directory is not None and directory.awaited
    if spec.broker_id in metadata.brokers and not anew and not (path / META_NAME).exists():
        raise StartError(
            f"data directory {path} of broker {spec.broker_id} is missing or has no {META_NAME}: bring it "
            f"back, or fill an empty one from the other brokers (coterie brokers replace {spec.broker_id})"
        )
    try:
        check_own_folder(path)  # one of an older version could be read by all
    except PermissionError as error:
        raise StartError(str(error)) from error
    known = None if directory is None else directory.id
    data_dir = DataDir.open(path, cluster_id, spec.broker_id, machine, directory_id=known, anew=anew)
    topics = metadata.topics

    @cache  # most of thousands of topics have the same settings, mostly none
    def config_with(own: tuple[tuple[str, str], ...]) -> LogConfig:
        return log_config(dict(own), config)

    def config_of(topic: str) -> LogConfig:
        return config_with(tuple(sorted(topics[topic].configs.items())) if topic in topics else ())

    for folder in data_dir.load(config_of, now_ms()):
        log.warning("%s: folder %s is left alone", path, folder)
    return data_dir
