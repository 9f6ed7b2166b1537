"""The controller without Ray: who is alive, who leads what, and the changes of metadata that brokers ask for.

Each broker has one connection, whose end says that the broker has died. Every change is logged before anyone is told.
The Launcher starts and kills processes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.controller.allowed import check_allowed
from actors.controller.decisions import topics
from actors.controller.decisions.elections import (
    all_stopped,
    broker_lost,
    broker_registered,
    broker_staying,
    leadership_balanced,
    preferred_elected,
)
from actors.controller.events import Changes
from actors.controller.metadata_log import MetadataLog
from actors.controller.monitoring import Monitoring
from actors.controller.sessions import Launcher, Session, described
from actors.controller.unacked import Unacked
from actors.links.acceptance import listen_for_links
from actors.links.calls import Calls
from actors.links.chronicle import Chronicle
from actors.links.connection import ControlProtocol, Message
from actors.links.control import (
    CODEC,
    Answer,
    Applied,
    Call,
    Confirmed,
    Failed,
    Heartbeat,
    Hello,
    Image,
    Join,
    Joined,
    WantSpares,
    Welcome,
)
from actors.links.operations import (
    AllocateProducerIds,
    AlterPartitions,
    DescribeQuorum,
    Observer,
    Operation,
    Quorum,
    Result,
)
from actors.links.secret import Secrets
from actors.links.status import BrokerStatus, ClusterStatus
from actors.links.unproved import Unproved
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.liveness import Silence
from actors.runtime.logs import about
from actors.settings import BrokerConfig
from placement.metadata import BrokerInfo, broker_record

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5  # before a start that failed is tried again
_LEASES_FOR_A_DISK = 2  # how many leases a silent broker may wait for its disk
_ANSWERED_AT_ONCE = (AllocateProducerIds, AlterPartitions)  # answered without waiting until all brokers know
ACK_WAIT_SECONDS = 1.0
_NOTHING = ClusterStatus("", 0, ())


class ControllerServer:
    """The controller of one cluster. Everything runs on one loop.

    A change is answered when all living brokers know it, or after `ack_wait_s`. `process` says what a status shows of
    this process itself.
    """

    def __init__(
        self,
        metadata_log: MetadataLog,
        config: BrokerConfig,
        secrets: Secrets,
        launcher: Launcher,
        loop: asyncio.AbstractEventLoop,
        environment: Environment = REAL,
        ack_wait_s: float = ACK_WAIT_SECONDS,
        process: ClusterStatus = _NOTHING,
    ) -> None:
        self.log = metadata_log
        self.config = config
        self.secrets = secrets
        self._launcher = launcher
        self._loop = loop
        self._unproved = Unproved(loop)
        self._environment = environment
        self._sessions: dict[ControlProtocol, Session] = {}
        self._brokers: dict[int, Session] = {}
        self._unacked = Unacked(loop, ack_wait_s)
        self._lease = int(config["broker.session.timeout.ms"]) / 1000
        self._wanted: set[int] = set()
        self._starts: dict[int, list[float]] = {}
        self._starting: set[int] = set()  # on their way: neither here nor lost
        self._absent: dict[int, Silence] = {}  # who was started before us and has not registered with us
        self._server: asyncio.AbstractServer | None = None
        self._process = process
        self._chronicle = Chronicle(environment.clock.wall_ms)
        self.monitoring = Monitoring(
            self,
            launcher,
            self._chronicle,
            loop,
            environment.clock.wall_ms,
            wanted=config.boolean("coterie.monitor"),
            interval_s=config.integer("coterie.monitor.interval.ms") / 1000,
        )
        self.address: tuple[str, int] = ("", 0)
        self.stopping = False
        records: list[list[Any]] = [["controller_epoch", self.metadata.controller_epoch + 1]]
        if not self.metadata.cluster_id:
            records.append(["cluster", new_uuid(self._environment.chance).hex[:22]])
        self.log.append(records)
        epoch = self.metadata.controller_epoch
        self._chronicle.note("start", "controller", f"The controller has started, at epoch {epoch}.")

    @property
    def metadata(self) -> Any:
        return self.log.metadata

    @property
    def brokers(self) -> Mapping[int, Session]:
        """The brokers that are registered, by their ids."""
        return self._brokers

    async def listen(self, host: str) -> int:
        """Accept brokers on any free port of `host`; returns the port."""
        self._server = await listen_for_links(
            self._accept, host, lambda: self.secrets, lambda: self.config.link_security, self.config.link_stores
        )
        self.address = (host, self._server.sockets[0].getsockname()[1])
        self._started = self._balanced = self._loop.time()
        self._tick_later()
        return self.address[1]

    def _accept(self) -> ControlProtocol:
        chance = self._environment.chance
        return ControlProtocol(
            "controller", self.secrets, chance, self._on_ready, self._on_message, self._on_lost, self._unproved
        )

    def expect(self, broker_ids: list[int]) -> None:
        """Count these brokers as the cluster's. One that does not register within a lease is started again."""
        self._wanted.update(broker_ids)

    def start(self, broker_ids: list[int]) -> None:
        """Start a cluster's brokers. None of an earlier run is alive, whatever the log says."""
        self.expect(broker_ids)
        self.log.append(all_stopped(self.metadata))  # those deaths are nobody's news
        for broker_id in broker_ids:
            self._starting.add(broker_id)
            self._launcher.start_broker(broker_id)

    def start_failed(self, broker_id: int) -> None:
        """A broker's process ended before it registered, or could not begin: try again."""
        self._starting.discard(broker_id)
        session = self._brokers.get(broker_id)
        if session is not None and session.protocol not in self._sessions:
            del self._brokers[broker_id]  # its hello was read only after it had ended
            self._record_loss(broker_id)
        if not self.stopping and broker_id in self._wanted and broker_id not in self._brokers:
            self._restart(broker_id, at_least_s=_RETRY_SECONDS)

    # --- sessions ---

    def _on_ready(self, protocol: ControlProtocol) -> None:
        if protocol.peer == "monitor":
            self.monitoring.came(protocol)
            return
        self._sessions[protocol] = Session(protocol, Calls(protocol.send), last_heard=self._loop.time())

    def _on_message(self, protocol: ControlProtocol, message: Message) -> None:
        if protocol.peer == "monitor":
            self.monitoring.on_message(protocol, message)
            return
        session = self._sessions[protocol]
        session.last_heard, session.silence = self._loop.time(), None
        match message:
            case Heartbeat() if session.broker_id < 0:
                self._launcher.heard(session.joins)
            case Heartbeat(sent, load, leaving):
                session.load, session.answered = load, True
                protocol.send(Confirmed(sent))
                if not leaving and self._brokers.get(session.broker_id) is session:
                    self._record_stay(session.broker_id)
            case Call(number, operation, by):
                self._call(session, number, operation, by)
            case Applied(version):
                session.acked_version, session.answered = version, True
                self._release_acked()
            case WantSpares(count, urgent, here) if session.broker_id >= 0:
                self._launcher.start_shards(session.broker_id, count, urgent, here)
            case Answer() | Failed():
                session.calls.answered(message)
            case Join() | Hello() if not session.may_be(message.broker_id):
                protocol.close()
            case Join(broker_id):
                session.joins = broker_id
                self._launcher.heard(broker_id)
                protocol.send(Joined(self.metadata.cluster_id, self.metadata, self.config["authorizer.class.name"]))
            case Hello():
                self._register(session, message)
        if session.acked_version >= self.metadata.version:
            session.caught_up = session.last_heard

    def _register(self, session: Session, hello: Hello) -> None:
        metadata = self.metadata
        broker_id = hello.broker_id
        older = self._brokers.get(broker_id)
        if older is not None and older is not session:
            older.protocol.close()
        known = metadata.brokers.get(broker_id)
        session.broker_id = broker_id
        session.pid, session.process_started = hello.pid, hello.process_started
        same_process = known is not None and known.alive and hello.epoch == known.epoch
        session.epoch = known.epoch if same_process and known else (known.epoch + 1 if known else 0)
        self._brokers[broker_id] = session
        self._absent.pop(broker_id, None)
        self._starting.discard(broker_id)
        if not same_process:
            self._commit(broker_lost(metadata, broker_id, config=self.config), tell=False)  # if unnoticed till now
            self._commit([broker_record(described(hello, session.epoch))], tell=False)
            elected = broker_registered(metadata, broker_id, intact=hello.intact, config=self.config)
            self._commit(elected, tell=False)
        session.protocol.send(Welcome(session.epoch, metadata.cluster_id))
        self._tell()
        self._launcher.registered(broker_id, hello.ports)
        log.info(
            "broker %d (pid %d) registered at epoch %d",
            broker_id,
            session.pid,
            session.epoch,
            extra=about(broker=broker_id, pid=session.pid, epoch=session.epoch),
        )

    def _on_lost(self, protocol: ControlProtocol) -> None:
        session = self._sessions.pop(protocol, None)
        if session is None:
            self.monitoring.lost(protocol)
            return
        session.ended.set()
        session.calls.lose("the broker has hung up")
        if self._brokers.get(session.broker_id) is not session:
            return
        if self.stopping:
            del self._brokers[session.broker_id]
        elif session.answered:
            self._session_lost(session)
        else:
            # It may have waited too long for us, and comes again. If not, its process or its silence will show it.
            log.warning(
                "broker %d (pid %d) hung up before its hello was answered",
                session.broker_id,
                session.pid,
                extra=about(broker=session.broker_id, pid=session.pid),
            )

    def _session_lost(self, session: Session) -> None:
        log.warning(
            "broker %d (pid %d) is gone",
            session.broker_id,
            session.pid,
            extra=about(broker=session.broker_id, pid=session.pid),
        )
        del self._brokers[session.broker_id]
        self._broker_lost(session.broker_id)

    def _broker_lost(self, broker_id: int) -> None:
        self._record_loss(broker_id)
        self._release_acked()
        if broker_id in self._wanted:
            self._restart(broker_id)

    def _record_loss(self, broker_id: int) -> None:
        try:
            self._commit(broker_lost(self.metadata, broker_id, config=self.config))
        except OSError as error:
            log.error(
                "broker %d still counts as alive, the metadata log cannot be written: %s",
                broker_id,
                error,
                extra=about(broker=broker_id),
            )

    def _record_stay(self, broker_id: int) -> None:
        try:
            self._commit(broker_staying(self.metadata, broker_id))
        except OSError as error:  # its next heartbeat says it again
            log.error(
                "broker %d still counts as leaving, the metadata log cannot be written: %s",
                broker_id,
                error,
                extra=about(broker=broker_id),
            )

    def _restart(self, broker_id: int, at_least_s: float = 0.0) -> None:
        """Start a broker again. If it keeps dying, the pauses grow."""
        now = self._loop.time()
        recent = [at for at in self._starts.get(broker_id, []) if now - at < 60.0]
        self._starts[broker_id] = [*recent, now]
        delay = 0.0 if len(recent) < 3 else min(0.5 * 2 ** (len(recent) - 3), 30.0)
        self._starting.add(broker_id)
        self._launcher.kill_broker(broker_id)
        self._loop.call_later(max(delay, at_least_s), self._start_if_wanted, broker_id)

    def _start_if_wanted(self, broker_id: int) -> None:
        if not self.stopping and broker_id in self._wanted and broker_id not in self._brokers:
            self._launcher.start_broker(broker_id)

    def _tick_later(self) -> None:
        self._tick_due = self._loop.time() + self._lease / 4
        self._loop.call_later(self._lease / 4, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        if now > self._tick_due + self._lease / 4:
            # We stood still ourselves, perhaps for a slow disk, and have not read what brokers said meanwhile. It is
            # always safe to give a broker up later than it gives up its lease.
            log.warning("this controller stood still for %.1f s: brokers have another lease", now - self._tick_due)
            self._started = now
            for session in (*self._sessions.values(), *self._brokers.values()):
                session.last_heard, session.silence = now, None
            self._absent.clear()
        if not self.stopping:
            self.monitoring.tick(now, serving=self.ready())
        try:
            self._look_after_brokers(now)
        except OSError as error:
            log.error("leadership stays where it is, the metadata log cannot be written: %s", error)
        finally:
            if not self.stopping:
                self._tick_later()

    def _look_after_brokers(self, now: float) -> None:
        for session in list(self._brokers.values()):
            if self._is_dead(session, now):
                log.warning(
                    "broker %d silent for %.1f s: killed",
                    session.broker_id,
                    now - session.last_heard,
                    extra=about(broker=session.broker_id, pid=session.pid),
                )
                if session.protocol in self._sessions:
                    session.protocol.close()
                else:
                    self._session_lost(session)
        if self.stopping:
            return
        alive = {info.id for info in self.metadata.alive()}
        for broker_id in sorted((alive & self._starting) - self._brokers.keys()):
            self._record_loss(broker_id)  # when it was lost, the metadata log could not be written
        recovering = {s.joins for s in self._sessions.values() if now - s.last_heard < self._lease}
        for broker_id in sorted((self._wanted | alive) - self._brokers.keys() - self._starting - recovering):
            if self._stays_away(broker_id, now):
                log.warning("broker %d has not registered within a lease", broker_id, extra=about(broker=broker_id))
                self._absent.pop(broker_id, None)
                self._broker_lost(broker_id)
        self._balance(now)

    def _is_dead(self, session: Session, now: float) -> bool:
        """Whether a broker was silent for a lease although it had CPU time.

        To wait for it is safe: nobody else is elected meanwhile, and its lease has run out by its own clock.
        """
        if session.silence is None:
            session.silence = Silence()
        return session.silence.is_death(
            now - session.last_heard,
            self._lease,
            lambda: self._launcher.look_at(session.broker_id, session.pid, session.process_started),
            disk_s=_LEASES_FOR_A_DISK * self._lease,
        )

    def _stays_away(self, broker_id: int, now: float) -> bool:
        """Whether a broker of an earlier controller has not registered within a lease although it had CPU time."""
        known = self.metadata.brokers.get(broker_id)
        pid, started = (known.pid, known.process_started) if known is not None and known.alive else (0, 0)
        return self._absent.setdefault(broker_id, Silence()).is_death(
            now - self._started,
            self._lease,
            lambda: self._launcher.look_at(broker_id, pid, started),
            disk_s=_LEASES_FOR_A_DISK * self._lease,
        )

    def _balance(self, now: float) -> None:
        config = self.config
        if not config.boolean("auto.leader.rebalance.enable"):
            return
        if now >= self._balanced + config.integer("leader.imbalance.check.interval.seconds"):
            records = leadership_balanced(self.metadata, config.integer("leader.imbalance.per.broker.percentage"))
            self._commit(records)
            self._balanced = now
            if records:
                log.info("leadership of %d partitions goes back to their preferred replicas", len(records))

    # --- changes ---

    def _commit(self, records: list[list[Any]], *, tell: bool = True) -> None:
        if records:
            changes = Changes(self.metadata, records)
            self.log.append(records)
            if tell:
                self._tell()
            changes.note(self._chronicle)

    def _tell(self) -> None:
        """Send brokers the new image. Credentials and ACLs, which may be many, are in it only if they have changed."""
        metadata = self.metadata
        images: dict[bool, bytes] = {}
        for session in self._brokers.values():
            known = session.security_version == metadata.security_version
            if known not in images:
                images[known] = CODEC.encode(Image(metadata.without_security() if known else metadata))
            session.protocol.send_encoded(images[known])
            session.security_version = metadata.security_version

    def _call(self, session: Session, number: int, operation: Operation[Result], by: str) -> None:
        try:
            check_allowed(operation, session)
            result, records = self._operate(operation)
            self._commit(records)
        except Exception as error:
            log.exception("%s failed", type(operation).__name__)
            session.protocol.send(Failed(number, f"{type(error).__name__}: {error}"))
            return
        answer, name = Answer(number, result), type(operation).__name__
        if records:
            at = max(session.broker_id, session.joins)
            log.info("%s by %r at broker %d: %d records", name, by, at, len(records), extra=about(broker=at))
        if not records or isinstance(operation, _ANSWERED_AT_ONCE):
            session.protocol.send(answer)
            return
        self._unacked.add(self.metadata.version, lambda: session.protocol.send(answer))
        self._release_acked()

    def _operate(self, operation: Operation[Result]) -> tuple[Result, list[list[Any]]]:
        if isinstance(operation, DescribeQuorum):
            return self.quorum(self._environment.clock.wall_ms()), []
        return topics.operate(self.metadata, self.config, operation, lambda: self._environment.chance.randbytes(16))

    def _release_acked(self) -> None:
        self._unacked.send_up_to(min((s.acked_version for s in self._brokers.values()), default=1 << 62))

    # --- status ---

    def status(self) -> ClusterStatus:
        """What the controller knows of its brokers."""

        def row(broker: BrokerInfo) -> BrokerStatus:
            session = self._brokers.get(broker.id)
            pid, load = (None, None) if session is None else (session.pid, session.load)
            node_id = self._launcher.node_of(broker.id)
            address = (broker.host, broker.port, broker.rack)
            return BrokerStatus(broker.id, *address, broker.epoch, broker.alive, pid, load, node_id)

        return replace(
            self._process,
            cluster_id=self.metadata.cluster_id,
            controller_epoch=self.metadata.controller_epoch,
            brokers=tuple(row(broker) for _, broker in sorted(self.metadata.brokers.items())),
            monitor=self.monitoring.status,
        )

    def quorum(self, now_ms: int) -> Quorum:
        """Where the metadata log ends, and how far each connected broker has it. `now_ms` is wall time."""
        now, version = self._loop.time(), self.metadata.version

        def row(broker_id: int, session: Session) -> Observer:
            caught_up = session.last_heard if session.acked_version >= version else session.caught_up
            times = [-1 if at is None else now_ms - round((now - at) * 1000) for at in (session.last_heard, caught_up)]
            return Observer(broker_id, session.acked_version, *times)

        return Quorum(
            controller_epoch=self.metadata.controller_epoch,
            log_end_offset=version,
            now_ms=now_ms,
            host=self.address[0],
            port=self.address[1],
            brokers=tuple(row(broker_id, session) for broker_id, session in sorted(self._brokers.items())),
        )

    def ready(self, these: Sequence[int] | None = None) -> bool:
        """Whether these brokers, or all that are expected, are registered and know of one another."""
        version = self.metadata.version
        asked = self._wanted if these is None else these
        return bool(asked) and all(b in self._brokers and self._brokers[b].acked_version >= version for b in asked)

    def next_id(self) -> int:
        """The first broker id above all that have been given out."""
        return max(self._wanted | self.metadata.brokers.keys(), default=-1) + 1

    def in_sync_everywhere(self, broker_id: int) -> bool:
        """Whether a broker is in the in-sync set of every partition it holds."""
        partitions = (partition for topic in self.metadata.topics.values() for partition in topic.partitions)
        return all(broker_id in p.isr for p in partitions if broker_id in p.replicas)

    def elect_preferred(self) -> None:
        """Make the first replica of each partition its leader, if that one is in sync."""
        self._commit(preferred_elected(self.metadata, config=self.config))

    def add(self, broker_ids: list[int]) -> None:
        """Start more brokers."""
        self.expect(broker_ids)
        for broker_id in broker_ids:
            self._starting.add(broker_id)
            self._launcher.start_broker(broker_id)

    def hang_up_on_strangers(self) -> None:
        """Close connections by a secret that is valid no longer: what has been started since has made new ones."""
        for protocol in list(self._sessions):
            if protocol.proved_by not in self.secrets.known:
                protocol.close()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on. The lease stays as it is."""
        self.config = config

    def start_again(self, broker_id: int) -> None:
        """Start a broker that does not run, at once, with what it is to be told now."""
        self._starts.pop(broker_id, None)
        self._restart(broker_id)

    def close(self) -> None:
        """Stop listening and close all connections."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        for protocol in list(self._sessions):
            protocol.close()
        self.monitoring.close()
        self.log.close()
