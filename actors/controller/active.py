"""The controller without Ray: it decides, commits and tells changes of the metadata, and looks after the brokers.

Each broker has one connection, whose end says that the broker has died. Every change is committed before anyone is
told: `metadata/__init__.py` says what waits for it. The Launcher starts and kills processes. Here the parts are put
together: `broker_sessions` speaks with brokers, `broker_liveness` knows which are missing or lost, `broker_changes`
and `operations` decide and commit.
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
from actors.controller.broker_liveness import BrokerLiveness
from actors.controller.broker_sessions import BrokerSessions
from actors.controller.broker_waits import BrokerWaits
from actors.controller.decisions.beginning import begun
from actors.controller.decisions.decision import Decision
from actors.controller.decisions.operations import decide
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
from actors.links.chronicle import Chronicle
from actors.links.connection import ControlProtocol, Message
from actors.links.control import Confirmed
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
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata, ControllerInfo
from placement.records import QUORUM, SHARED, Record, RegisterControllerRecord, UnregisterControllerRecord

log = logging.getLogger(__name__)
T = TypeVar("T")

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
        self._brokers: dict[int, Session] = {}
        self._process = process
        self.chronicle = Chronicle(environment.clock.wall_ms)
        self.starts = Starts(launcher, loop, lambda broker_id: self.liveness.is_missing(broker_id))
        self.waits = BrokerWaits(loop, self.starts)
        self._from_files = from_files
        self.others = others
        self._has_files = True  # with something that the next controller would lack
        self.epoch = metadata_log.next_epoch
        self.publisher = Publisher(metadata_log, self.epoch, self._brokers, self.chronicle, faults)
        self._changes = BrokerChanges(metadata_log, self.publisher, lambda: self.config, faults)
        self._operations = Operations(self.publisher, self.decide, self._acked, loop, ack_wait_s, faults)
        self.replacing = Replacing(
            *(metadata_log, self._changes, launcher, self.starts, loop),
            config=lambda: self.config,
            away=lambda: self.starts.wanted - self._brokers.keys() - self.sessions.recovering(),
            new_id=lambda: new_uuid(environment.chance).hex,
        )
        self.liveness = BrokerLiveness(
            *(metadata_log, self._changes, launcher, self.starts, self.replacing, self._brokers, loop),
            lease_s=int(config["broker.session.timeout.ms"]) / 1000,
            over=lambda: self.over,
            released=self._operations.release_acked,
        )
        self.removing = Removing(
            *(metadata_log, self._changes, lambda: self.config, environment.clock.wall_ms),
            wanted=lambda: self.starts.wanted,
            settled=self.liveness.settled,
            gone=self.liveness.removed,
        )
        self.draining = Draining(
            *(metadata_log, self._changes, self.chronicle, launcher.node_of),
            present=lambda: self._brokers.keys(),
        )
        self.monitoring = Monitoring(
            self,
            launcher,
            self.chronicle,
            loop,
            environment.clock.wall_ms,
            wanted=config.boolean("coterie.monitor"),
            interval_s=config.integer("coterie.monitor.interval.ms") / 1000,
        )
        self.address: tuple[str, int] = ("", 0)
        self.stopping = False
        first = begun(self.decided, self.epoch, __version__, lambda: new_uuid(environment.chance).hex[:22])
        self.sessions = BrokerSessions(
            *(metadata_log, self.publisher, self._changes, self._operations, launcher),
            *(self.starts, self.liveness, self.waits, loop),
            confirm=self.confirm,
            config=lambda: self.config,
            begun=self.publisher.commit(first, tell=False),
            faults=faults,
        )
        if restarted:
            died = f"The process of the controller at epoch {self.epoch - 1} has ended. Brokers went on without it."
            self.chronicle.note("death", "controller", died)
        started = f", as process {process.controller_pid}" if process.controller_pid else ""
        self.chronicle.note("start", "controller", f"The controller has started at epoch {self.epoch}{started}.")

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
        self.liveness.began = self._balanced = self._loop.time()
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
        self.starts.wanted.update(broker_ids)
        self.starts.wanted -= self.decided.removed

    def start(self, broker_ids: list[int]) -> None:
        """Start a cluster's brokers. None of an earlier run is alive, whatever the log says."""
        self.expect(broker_ids)
        self._changes.stopped().then(lambda: self.starts.begin(sorted(self.starts.wanted)))

    def start_failed(self, broker_id: int, reason: str = "it ended before it registered") -> None:
        """A broker's process ended before it registered, or could not begin: try again."""
        self.liveness.start_failed(broker_id, reason)
        self.waits.look()

    @property
    def over(self) -> bool:
        """True if this is the controller no more: it was closed, or another node leads, and it will be closed."""
        return self.stopping or not self.log.leads_in(self.epoch)

    # --- connections ---

    def came(self, protocol: ControlProtocol) -> None:
        """A broker or the Monitor has connected."""
        if protocol.peer == "monitor":
            self.monitoring.came(protocol)
        else:
            self.sessions.came(protocol)

    def heard(self, protocol: ControlProtocol, message: Message) -> None:
        """It has said this."""
        if protocol.peer == "monitor":
            self.monitoring.on_message(protocol, message)
        else:
            self.sessions.heard(protocol, message)

    def lost(self, protocol: ControlProtocol) -> None:
        """Its connection has ended."""
        if not self.sessions.lost(protocol):
            self.monitoring.lost(protocol)

    def confirm(self, protocol: ControlProtocol, sent: float) -> None:
        """Extend a broker's lease, unless there may be another controller by now, who knows nothing of it."""
        if self.log.confirms():
            protocol.send(Confirmed(sent))

    # --- time ---

    def _tick_later(self) -> None:
        pause_s = self.liveness.lease_s / 4
        self._tick_due = self._loop.time() + pause_s
        self._loop.call_later(pause_s, self.tick)

    def tick(self) -> None:
        """Look after all that time changes, and again after a quarter of a lease."""
        if self.over:
            if not self.stopping:
                self._tick_later()
            return
        now = self._loop.time()
        if now > self._tick_due + self.liveness.lease_s / 4:
            # We stood still ourselves, perhaps for a slow disk, and have not read what brokers said meanwhile. It is
            # always safe to give a broker up later than it gives up its lease.
            log.warning("this controller stood still for %.1f s: brokers have another lease", now - self._tick_due)
            self.sessions.wait_anew(now)
            self.liveness.wait_anew(now)
        self.monitoring.tick(now, serving=self.ready())
        try:
            self.look_after_brokers(now)
        finally:
            if not self.stopping:
                self._tick_later()

    def look_after_brokers(self, now: float) -> None:
        """Give up brokers that are silent or stay away, and go on with all that is under way."""
        self.liveness.look(now, self.sessions.recovering)
        if self.over:  # it may be, by now: the first ones led to it
            return
        self._share_files()
        self.replacing.tick()
        self.removing.tick()
        self.draining.tick()
        self.balance(now)

    def balance(self, now: float) -> None:
        """Have preferred replicas lead, if that is wanted and due at this time of the loop."""
        config = self.config
        if not config.boolean("auto.leader.rebalance.enable"):
            return
        due = now >= self._balanced + config.integer("leader.imbalance.check.interval.seconds")
        if due and self._changes.balance():
            self._balanced = now

    # --- changes ---

    def decide(self, operation: Operation[Result]) -> Decision:
        """The result of an operation, and the records that it leads to. Raises RefusedError."""
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
        asked = self.starts.wanted if these is None else these
        return bool(asked) and all(b in self._brokers and self._brokers[b].acked_version >= version for b in asked)

    def next_id(self) -> int:
        """The first broker id above all that have ever been given out."""
        return max(self.starts.wanted | self.decided.brokers.keys() | self.decided.removed, default=-1) + 1

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
        self.starts.begin(broker_ids)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings from now on. The lease stays as it is."""
        self.in_force.config = config

    def forget_starts(self, broker_id: int) -> None:
        """The next start of this broker has no pause before it, however often it has died."""
        self.starts.forget(broker_id)

    def start_again(self, broker_id: int) -> None:
        """Start a broker that does not run, at once, with what it is to be told now."""
        self.starts.forget(broker_id)
        self.starts.again(broker_id)

    def close(self) -> None:
        """Close all connections, and start nothing more."""
        self.stopping = True
        self.sessions.close()
        self.monitoring.close()
