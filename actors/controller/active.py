"""The controller without Ray: who is alive, who leads what, and the changes of metadata that brokers ask for.

Each broker has one connection, whose end says that the broker has died. Every change is committed before anyone is
told: `metadata/__init__.py` says what waits for it. The Launcher starts and kills processes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from actors import __version__
from actors.controller.acceptor import InForce
from actors.controller.broker_changes import BrokerChanges
from actors.controller.deaths import Deaths
from actors.controller.decisions.beginning import begun
from actors.controller.decisions.decision import Decision
from actors.controller.decisions.operations import decide
from actors.controller.decisions.replacement import directory_refused
from actors.controller.draining import Draining
from actors.controller.faults import Faults, logged
from actors.controller.features import raised
from actors.controller.metadata.commits import NotControllerError
from actors.controller.metadata.log import Log
from actors.controller.metadata.publisher import Publisher
from actors.controller.monitoring import Monitoring
from actors.controller.operations import Operations
from actors.controller.others import NOBODY, Others
from actors.controller.removing import Removing
from actors.controller.replacing import Replacing
from actors.controller.reports import cluster_status, controllers_of, described_quorum, quorum_nodes
from actors.controller.sessions import Launcher, Session
from actors.controller.starts import Starts
from actors.links.calls import Calls
from actors.links.chronicle import Chronicle
from actors.links.connection import ControlProtocol, Message
from actors.links.control import (
    Answer,
    Applied,
    Call,
    Confirmed,
    Failed,
    Heartbeat,
    Hello,
    Join,
    Joined,
    Stop,
    WantSpares,
    Welcome,
)
from actors.links.operations import (
    DescribeQuorum,
    Operation,
    Quorum,
    RaiseMetadataVersion,
    Result,
)
from actors.links.secret import Secrets
from actors.links.status import Absence, ClusterStatus
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.logs import about
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata, ControllerInfo
from placement.records import QUORUM, SHARED, Record, RegisterControllerRecord, UnregisterControllerRecord

log = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY_SECONDS = 0.5  # before a start that failed is tried again
ACK_WAIT_SECONDS = 1.0
_NOTHING = ClusterStatus("", 0, ())


class ActiveController:
    """The controller of one cluster. Everything runs on one loop.

    A change is answered when all living brokers know it, or after `ack_wait_s`. `process` says what a status shows of
    this process itself; `faults` hears of bugs; `from_files` gives records of what this process has in files and the
    metadata lacks, from level SHARED on; `others` are the other controllers; `restarted`: the controller before this
    one has died.
    """

    def __init__(
        self,
        metadata_log: Log,
        in_force: InForce,
        launcher: Launcher,
        loop: asyncio.AbstractEventLoop,
        environment: Environment = REAL,
        ack_wait_s: float = ACK_WAIT_SECONDS,
        process: ClusterStatus = _NOTHING,
        faults: Faults = logged,
        from_files: Callable[[ClusterMetadata], list[Record]] = lambda metadata: [],
        others: Others = NOBODY,
        *,
        restarted: bool = False,
    ) -> None:
        config = in_force.config
        self.log = metadata_log
        self.in_force = in_force
        self._launcher = launcher
        self._loop = loop
        self._environment = environment
        self._sessions: dict[ControlProtocol, Session] = {}
        self._brokers: dict[int, Session] = {}
        self._lease = int(config["broker.session.timeout.ms"]) / 1000
        self._starts = Starts(launcher, loop, self._is_missing)
        self._deaths = Deaths(launcher, self._lease)
        self._process = process
        self._chronicle = Chronicle(environment.clock.wall_ms)
        self._faults = faults
        self._from_files = from_files
        self.others = others
        self._has_files = True  # with something that the next controller would lack
        self.epoch = metadata_log.next_epoch
        self.publisher = Publisher(metadata_log, self.epoch, self._brokers, self._chronicle, faults)
        self._changes = BrokerChanges(metadata_log, self.publisher, lambda: self.config, faults)
        self.replacing = Replacing(
            *(metadata_log, self._changes, launcher, self._starts, loop),
            config=lambda: self.config,
            away=lambda: self._starts.wanted - self._brokers.keys() - self._recovering(),
            new_id=lambda: new_uuid(environment.chance).hex,
        )
        self.removing = Removing(
            *(metadata_log, self._changes, lambda: self.config, environment.clock.wall_ms),
            wanted=lambda: self._starts.wanted,
            settled=self._settled,
            gone=self._removed,
        )
        self.draining = Draining(
            *(metadata_log, self._changes, self._chronicle, launcher.node_of),
            present=lambda: self._brokers.keys(),
        )
        self._operations = Operations(self.publisher, self._decide, self._acked, loop, ack_wait_s, faults)
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
        first = begun(self.decided, self.epoch, __version__, lambda: new_uuid(environment.chance).hex[:22])
        self._begun = self.publisher.commit(first, tell=False)
        if restarted:
            died = f"The process of the controller at epoch {self.epoch - 1} has ended. Brokers went on without it."
            self._chronicle.note("death", "controller", died)
        started = f", as process {process.controller_pid}" if process.controller_pid else ""
        self._chronicle.note("start", "controller", f"The controller has started at epoch {self.epoch}{started}.")

    @property
    def metadata(self) -> ClusterMetadata:
        """The committed metadata: what others may be told."""
        return self.log.committed

    @property
    def decided(self) -> ClusterMetadata:
        """The metadata that decisions are made of."""
        return self.log.decided

    @property
    def brokers(self) -> Mapping[int, Session]:
        """The brokers that are registered, by their ids."""
        return self._brokers

    @property
    def config(self) -> BrokerConfig:
        """The settings that it goes by now."""
        return self.in_force.config

    @property
    def secrets(self) -> Secrets:
        """The secrets that are valid now."""
        return self.in_force.secrets

    def begin(self, address: tuple[str, int]) -> None:
        """Speak with brokers, which come to this address. All have a lease from now on to do so."""
        self.address = address
        self._started = self._balanced = self._loop.time()
        self._share_files()
        self._tick_later()

    def _share_files(self) -> None:
        """Have in the log what else another controller would lack. If that cannot be, it is tried again."""
        if not self._has_files or self.decided.level < SHARED:
            return
        try:
            self.publisher.commit(self._from_files(self.decided))
        except (OSError, NotControllerError) as error:
            log.warning("what is in files beside the metadata log is not in it yet: %s", error)
        else:
            self._has_files = False

    def register_controller(self, controller: ControllerInfo) -> None:
        """One of the controllers is here now. If that cannot be recorded, it says so again."""
        if self.decided.level < QUORUM or self.decided.controllers.get(controller.id) == controller:
            return
        if controller.directory not in self.decided.barred:
            self._record(RegisterControllerRecord(controller))

    def unregister_controller(self, controller: ControllerInfo) -> None:
        """One of the controllers is gone. If that cannot be recorded, it is found again."""
        if self.decided.level >= SHARED and self.decided.controllers.get(controller.id) == controller:
            self._record(UnregisterControllerRecord(controller.id, controller.directory, barred=False))

    def _record(self, record: RegisterControllerRecord | UnregisterControllerRecord) -> None:
        try:
            self.publisher.commit([record])
        except (OSError, NotControllerError) as error:
            log.warning("%s cannot be recorded: %s", record, error)

    def expect(self, broker_ids: list[int]) -> None:
        """Count these brokers as the cluster's, but for those that were removed.

        One that does not register within a lease is started again.
        """
        self._starts.wanted.update(broker_ids)
        self._starts.wanted -= self.decided.removed

    def start(self, broker_ids: list[int]) -> None:
        """Start a cluster's brokers. None of an earlier run is alive, whatever the log says."""
        self.expect(broker_ids)
        self._changes.stopped().then(lambda: self._starts.begin(sorted(self._starts.wanted)))

    def start_failed(self, broker_id: int) -> None:
        """A broker's process ended before it registered, or could not begin: try again."""
        self._starts.starting.discard(broker_id)
        session = self._brokers.get(broker_id)
        if session is not None and session.protocol not in self._sessions:
            del self._brokers[broker_id]  # its hello was read only after it had ended
            self._changes.lost(broker_id)
        if self._is_missing(broker_id):
            self._starts.again(broker_id, at_least_s=_RETRY_SECONDS)

    def _removed(self, broker_id: int) -> None:
        """A broker was unregistered: its process closes its logs and ends, and is not started again."""
        self._starts.want_no_more(broker_id)
        session = self._brokers.get(broker_id)
        if session is not None:
            session.protocol.send(Stop())
        else:
            self._launcher.kill_broker(broker_id)

    def _settled(self) -> bool:
        """True if all brokers have registered with this controller, or had a lease for it.

        Those count that the metadata has: a controller that takes over knows of them before it is told what to expect.
        """
        awaited = self._starts.wanted | self.decided.brokers.keys()
        return awaited <= self._brokers.keys() or self._loop.time() - self._started > self._lease

    @property
    def over(self) -> bool:
        """True if this is the controller no more: it was closed, or another node leads, and it will be closed."""
        return self.stopping or not self.log.leads_in(self.epoch)

    def _is_missing(self, broker_id: int) -> bool:
        return not self.over and broker_id in self._starts.wanted and broker_id not in self._brokers

    # --- sessions ---

    def came(self, protocol: ControlProtocol) -> None:
        """A broker or the Monitor has connected."""
        if protocol.peer == "monitor":
            self.monitoring.came(protocol)
            return
        self._sessions[protocol] = Session(protocol, Calls(protocol.send), last_heard=self._loop.time())

    def heard(self, protocol: ControlProtocol, message: Message) -> None:
        """It has said this."""
        if protocol.peer == "monitor":
            self.monitoring.on_message(protocol, message)
            return
        session = self._sessions[protocol]
        session.last_heard, session.silence = self._loop.time(), None
        match message:
            case Heartbeat() if session.broker_id < 0:
                self._launcher.heard(session.joins)
            case Heartbeat(sent, load, leaving):
                session.load = load
                if session.welcomed:  # else its lease would begin before it is registered
                    session.answered = True
                    self._confirm(protocol, sent)
                if not leaving and self._brokers.get(session.broker_id) is session:
                    self._changes.stays(session.broker_id)
                if session.welcomed and self._brokers.get(session.broker_id) is session:
                    self._changes.has(session.broker_id, session.directory)
            case Call(number, operation, by):
                self._operations.call(session, number, operation, by)
            case Applied(version):
                session.acked_version, session.answered = version, True
                self._operations.release_acked()
            case WantSpares(count, urgent, here) if session.broker_id >= 0:
                self._launcher.start_shards(session.broker_id, count, urgent, here)
            case Answer() | Failed():
                session.calls.answered(message)
            case Join() | Hello() if not session.may_be(message.broker_id):
                protocol.close()
            case Join(broker_id):
                session.joins = broker_id
                self._launcher.heard(broker_id)
                self._begun.then(lambda: self._tell_joined(protocol))
            case Hello():
                self._register_or_hang_up(session, message)
        if session.acked_version >= self.metadata.version:
            session.caught_up = session.last_heard

    def _confirm(self, protocol: ControlProtocol, sent: float) -> None:
        """Extend a broker's lease, unless there may be another controller by now, who knows nothing of it."""
        if self.log.confirms():
            protocol.send(Confirmed(sent))

    def _tell_joined(self, protocol: ControlProtocol) -> None:
        protocol.send(Joined(self.metadata.cluster_id, self.metadata, self.config["authorizer.class.name"]))

    def _register_or_hang_up(self, session: Session, hello: Hello) -> None:
        try:
            self._register(session, hello)
        except (OSError, NotControllerError) as error:
            log.error("broker %d cannot register, the metadata log cannot be written: %s", hello.broker_id, error)
            session.protocol.close()
        except Exception as error:  # whatever a bug raises: other brokers have nothing to do with it
            session.protocol.close()
            self._faults(f"the registration of broker {hello.broker_id}", error)

    def _register(self, session: Session, hello: Hello) -> None:
        refused = directory_refused(self.decided, hello.broker_id, hello.directory)
        if refused is not None:
            log.error("broker %d is fenced: %s", hello.broker_id, refused, extra=about(broker=hello.broker_id))
            session.protocol.close()
            return
        older = self._brokers.get(hello.broker_id)
        if older is not None and older is not session:
            older.protocol.close()
        known = self.decided.brokers.get(hello.broker_id)
        session.broker_id = hello.broker_id
        session.pid, session.process_started = hello.pid, hello.process_started
        session.directory = hello.directory
        same_process = known is not None and known.alive and hello.epoch == known.epoch
        session.epoch = known.epoch if same_process and known else (known.epoch + 1 if known else 0)
        self._brokers[hello.broker_id] = session
        self._deaths.settled(hello.broker_id)
        self.replacing.heard(hello.broker_id, self._loop.time())
        self._starts.starting.discard(hello.broker_id)
        if not same_process:
            self._changes.registered(hello, session.epoch)
        self.log.end.then(lambda: self._welcome(session, hello))

    def _welcome(self, session: Session, hello: Hello) -> None:
        """A registration has committed."""
        if self._brokers.get(session.broker_id) is not session:
            return
        session.protocol.send(Welcome(session.epoch, self.metadata.cluster_id))
        session.welcomed = True
        self.publisher.tell()
        self._launcher.registered(session.broker_id, hello.ports)
        log.info(
            "broker %d (pid %d) registered at epoch %d",
            session.broker_id,
            session.pid,
            session.epoch,
            extra=about(broker=session.broker_id, pid=session.pid, epoch=session.epoch),
        )

    def lost(self, protocol: ControlProtocol) -> None:
        """Its connection has ended."""
        session = self._sessions.pop(protocol, None)
        if session is None:
            self.monitoring.lost(protocol)
            return
        session.ended.set()
        session.calls.lose("the broker has hung up")
        if self._brokers.get(session.broker_id) is not session:
            return
        if self.over:  # the next controller finds out what became of the broker
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
        self.replacing.heard(session.broker_id, session.last_heard)
        self._broker_lost(session.broker_id)

    def _broker_lost(self, broker_id: int) -> None:
        lost = self._changes.lost(broker_id)
        if lost is None and self.over:  # the log has ended with it, and the broker may be with the next controller
            return
        self._operations.release_acked()
        if broker_id in self.decided.removed:
            self._launcher.kill_broker(broker_id)
        if broker_id not in self._starts.wanted:
            return
        if lost is None:
            self._starts.again(broker_id)
        else:
            self._starts.starting.add(broker_id)  # as soon as its loss has committed
            lost.then(lambda: self._start_lost(broker_id))

    def _start_lost(self, broker_id: int) -> None:
        if broker_id not in self._brokers:
            self._starts.again(broker_id)

    def _tick_later(self) -> None:
        self._tick_due = self._loop.time() + self._lease / 4
        self._loop.call_later(self._lease / 4, self._tick)

    def _tick(self) -> None:
        if self.over:
            if not self.stopping:
                self._tick_later()
            return
        now = self._loop.time()
        if now > self._tick_due + self._lease / 4:
            # We stood still ourselves, perhaps for a slow disk, and have not read what brokers said meanwhile. It is
            # always safe to give a broker up later than it gives up its lease.
            log.warning("this controller stood still for %.1f s: brokers have another lease", now - self._tick_due)
            self._started = now
            for session in (*self._sessions.values(), *self._brokers.values()):
                session.last_heard, session.silence = now, None
            self._deaths.wait_anew()
            self.replacing.wait_anew()
        self.monitoring.tick(now, serving=self.ready())
        try:
            self._look_after_brokers(now)
        finally:
            if not self.stopping:
                self._tick_later()

    def _look_after_brokers(self, now: float) -> None:
        for session in list(self._brokers.values()):
            if self._deaths.is_dead(session, now - session.last_heard):
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
        if self.over:  # it may be, by now: the first ones led to it
            return
        alive = {info.id for info in self.decided.alive()}
        for broker_id in sorted((alive & self._starts.starting) - self._brokers.keys()):
            self._changes.lost(broker_id)  # when it was lost, the metadata log could not be written
        accounted_for = self._brokers.keys() | self._starts.starting | self._recovering()
        for broker_id in sorted((self._starts.wanted | alive) - accounted_for):
            if self._deaths.stays_away(broker_id, self.decided.brokers.get(broker_id), now - self._started):
                log.warning("broker %d has not registered within a lease", broker_id, extra=about(broker=broker_id))
                self._deaths.settled(broker_id)
                self._broker_lost(broker_id)
        self._share_files()
        self.replacing.tick()
        self.removing.tick()
        self.draining.tick()
        self._balance(now)

    def _recovering(self) -> set[int]:
        """The brokers that have joined and not registered yet, and give signs of life."""
        now = self._loop.time()
        return {s.joins for s in self._sessions.values() if now - s.last_heard < self._lease}

    def _balance(self, now: float) -> None:
        config = self.config
        if not config.boolean("auto.leader.rebalance.enable"):
            return
        due = now >= self._balanced + config.integer("leader.imbalance.check.interval.seconds")
        if due and self._changes.balance():
            self._balanced = now

    # --- changes ---

    def _decide(self, operation: Operation[Result]) -> Decision:
        if isinstance(operation, DescribeQuorum):
            return self.quorum(self._environment.clock.wall_ms()), []
        if isinstance(operation, RaiseMetadataVersion):
            spoken = {broker_id: session.protocol.spoken for broker_id, session in self._brokers.items()}
            return raised(self.decided, spoken, operation)
        return decide(self.decided, self.config, operation, lambda: self._environment.chance.randbytes(16))

    def _acked(self) -> int:
        """The version of the metadata that all registered brokers have."""
        return min((session.acked_version for session in self._brokers.values()), default=1 << 62)

    async def committed(self, answer: Callable[[], T]) -> T:
        """Call `answer`; its result or error, once all that it was made of, and has decided, has committed.

        Raises NotControllerError if that is dropped instead.
        """
        try:
            return answer()
        finally:
            await self.log.end.wait()

    # --- status ---

    def status(self) -> ClusterStatus:
        """The cluster as the controller knows it, broker by broker."""
        here = replace(self._process, monitor=self.monitoring.status)
        told_of = (self._launcher.node_of, self.removing.status, self.draining.until)
        nodes = quorum_nodes(self.others.nodes(), self.metadata, self._environment.clock.wall_ms())
        here = replace(here, controllers=controllers_of(nodes, self.decided.version))
        return cluster_status(here, self.metadata, self._brokers, *told_of)

    def absence(self, broker_id: int) -> Absence | None:
        """The absence of a broker: since when, and what becomes of it; None if it is there."""
        return self.replacing.absence(broker_id, self._environment.clock.wall_ms())

    def quorum(self, now_ms: int) -> Quorum:
        """The end of the metadata log, and the version that each registered broker has. `now_ms` is wall time."""
        about_log = (self.decided.version, self.others.nodes())
        return described_quorum(self.metadata, self._brokers, self.address, self._loop.time(), now_ms, *about_log)

    def ready(self, these: Sequence[int] | None = None) -> bool:
        """True if these brokers, or all that are expected, are registered and know of one another."""
        version = self.decided.version
        asked = self._starts.wanted if these is None else these
        return bool(asked) and all(b in self._brokers and self._brokers[b].acked_version >= version for b in asked)

    def next_id(self) -> int:
        """The first broker id above all that have ever been given out."""
        return max(self._starts.wanted | self.decided.brokers.keys() | self.decided.removed, default=-1) + 1

    def in_sync_everywhere(self, broker_id: int) -> bool:
        """True if a broker is in the in-sync set of every partition it holds."""
        partitions = (partition for topic in self.metadata.topics.values() for partition in topic.partitions)
        return all(broker_id in p.isr for p in partitions if broker_id in p.replicas)

    def elect_preferred(self) -> None:
        """Make the first replica of each partition its leader, if that one is in sync."""
        self._changes.elect_preferred()

    def add(self, broker_ids: list[int]) -> None:
        """Start more brokers."""
        self.expect(broker_ids)
        self._starts.begin(broker_ids)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on. The lease stays as it is."""
        self.in_force.config = config

    def forget_starts(self, broker_id: int) -> None:
        """The next start of this broker has no pause before it, however often it has died."""
        self._starts.forget(broker_id)

    def start_again(self, broker_id: int) -> None:
        """Start a broker that does not run, at once, with what it is to be told now."""
        self._starts.forget(broker_id)
        self._starts.again(broker_id)

    def close(self) -> None:
        """Close all connections, and start nothing more."""
        self.stopping = True
        for protocol in list(self._sessions):
            protocol.close()
        self.monitoring.close()
