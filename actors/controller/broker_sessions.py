"""The sessions of brokers with their controller: a broker connects, joins, registers, reports, and hangs up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from actors.controller.broker_changes import BrokerChanges
from actors.controller.broker_liveness import BrokerLiveness
from actors.controller.broker_waits import BrokerWaits
from actors.controller.decisions.replacement import directory_refused
from actors.controller.faults import Faults
from actors.controller.metadata.commits import Commit, NotControllerError
from actors.controller.metadata.log import Log
from actors.controller.metadata.publisher import Publisher
from actors.controller.operations import Operations
from actors.controller.sessions import Launcher, Session
from actors.controller.starts import Starts
from actors.links.calls import Calls
from actors.links.connection import ControlProtocol, Message
from actors.links.control import (
    Answer,
    Applied,
    Call,
    Failed,
    Heartbeat,
    Hello,
    Join,
    Joined,
    WantSpares,
    Welcome,
)
from actors.runtime.logs import about
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)


class BrokerSessions:
    """Speaks with brokers. Everything runs on the controller's loop.

    `confirm` extends the lease of a broker that has asked at a time of its own clock. `begun` is the first change of
    this controller: no broker joins before it has committed.
    """

    def __init__(
        self,
        metadata_log: Log,
        publisher: Publisher,
        changes: BrokerChanges,
        operations: Operations,
        launcher: Launcher,
        starts: Starts,
        liveness: BrokerLiveness,
        waits: BrokerWaits,
        loop: asyncio.AbstractEventLoop,
        confirm: Callable[[ControlProtocol, float], None],
        config: Callable[[], BrokerConfig],
        begun: Commit,
        faults: Faults,
    ) -> None:
        self._log = metadata_log
        self._publisher = publisher
        self._changes = changes
        self._operations = operations
        self._launcher = launcher
        self._starts = starts
        self._liveness = liveness
        self._waits = waits
        self._loop = loop
        self._confirm = confirm
        self._config = config
        self._begun = begun
        self._faults = faults
        self._sessions: dict[ControlProtocol, Session] = {}

    @property
    def connected(self) -> Collection[Session]:
        """The sessions of all connections, also of brokers that have not registered yet."""
        return self._sessions.values()

    def recovering(self) -> set[int]:
        """The brokers that have joined and not registered yet, and give signs of life."""
        now, lease_s = self._loop.time(), self._liveness.lease_s
        return {session.joins for session in self.connected if now - session.last_heard < lease_s}

    def wait_anew(self, now: float) -> None:
        """This controller stood still and heard nothing: what it has not read is no silence."""
        for session in self.connected:
            session.heard_at(now)

    def came(self, protocol: ControlProtocol) -> None:
        """A broker has connected."""
        self._sessions[protocol] = Session(protocol, Calls(protocol.send), last_heard=self._loop.time())

    def heard(self, protocol: ControlProtocol, message: Message) -> None:
        """It has said this."""
        session = self._sessions[protocol]
        session.heard_at(self._loop.time())
        match message:
            case Heartbeat() if session.broker_id < 0:
                self._launcher.heard(session.joins)
            case Heartbeat():
                self._heartbeat(session, message)
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
        if session.acked_version >= self._log.committed.version:
            session.caught_up = session.last_heard
        self._waits.look()

    def _heartbeat(self, session: Session, heartbeat: Heartbeat) -> None:
        session.load, session.unreachable = heartbeat.load, heartbeat.unreachable
        if session.welcomed:  # else its lease would begin before it is registered
            session.answered = True
            self._confirm(session.protocol, heartbeat.sent)
        if self._liveness.brokers.get(session.broker_id) is session:
            if not heartbeat.leaving:
                self._changes.stays(session.broker_id)
            if session.welcomed:
                self._changes.has(session.broker_id, session.directory)
            if session.unreachable:
                self._liveness.unreachable(self.recovering)

    def _tell_joined(self, protocol: ControlProtocol) -> None:
        metadata = self._log.committed
        protocol.send(Joined(metadata.cluster_id, metadata, self._config()["authorizer.class.name"]))

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
        refused = directory_refused(self._log.decided, hello.broker_id, hello.directory)
        if refused is not None:
            log.error("broker %d is fenced: %s", hello.broker_id, refused, extra=about(broker=hello.broker_id))
            session.protocol.close()
            return
        older = self._liveness.brokers.get(hello.broker_id)
        if older is not None and older is not session:
            older.protocol.close()
        known = self._log.decided.brokers.get(hello.broker_id)
        session.broker_id = hello.broker_id
        session.pid, session.process_started = hello.pid, hello.process_started
        session.directory = hello.directory
        same_process = known is not None and known.alive and hello.epoch == known.epoch
        session.epoch = known.epoch if same_process and known else (known.epoch + 1 if known else 0)
        self._liveness.came(session)
        if not same_process:
            self._changes.registered(hello, session.epoch)
        self._log.end.then(lambda: self._welcome(session, hello))

    def _welcome(self, session: Session, hello: Hello) -> None:
        """A registration has committed."""
        if self._liveness.brokers.get(session.broker_id) is not session:
            return
        session.protocol.send(Welcome(session.epoch, self._log.committed.cluster_id))
        session.welcomed = True
        self._publisher.tell()
        self._launcher.registered(session.broker_id, hello.ports)
        self._starts.forgive(session.broker_id)
        self._waits.look()
        log.info(
            "broker %d (pid %d) registered at epoch %d",
            session.broker_id,
            session.pid,
            session.epoch,
            extra=about(broker=session.broker_id, pid=session.pid, epoch=session.epoch),
        )

    def lost(self, protocol: ControlProtocol) -> bool:
        """Its connection has ended. False if it was no broker's."""
        session = self._sessions.pop(protocol, None)
        if session is None:
            return False
        session.ended.set()
        session.calls.lose("the broker has hung up")
        if self._liveness.brokers.get(session.broker_id) is session:
            self._liveness.hung_up(session)
        return True

    def close(self) -> None:
        """Close all connections."""
        for protocol in list(self._sessions):
            protocol.close()
