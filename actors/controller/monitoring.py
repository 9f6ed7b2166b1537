"""The controller's side of the cluster's Monitor: its start, its one connection, what it is told, what it is asked.

The Monitor has no connection but this one. It asks for what the cluster knows (`LookAround`), has single brokers asked
(`ForBroker`), and answers the questions of drivers that the controller passes on (`view`). It decides nothing, and
nobody waits for it: whatever it does, no request of a client's, and no decision, goes through it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from actors.controller.allowed import check_allowed_to_monitor
from actors.controller.pools import Pools
from actors.controller.sessions import Launcher, Session
from actors.links.calls import Calls
from actors.links.chronicle import Chronicle
from actors.links.connection import ControlProtocol, Message
from actors.links.control import Answer, Call, Failed
from actors.links.observations import (
    CONTROLLER,
    BrokerObserved,
    ClusterObserved,
    LookAround,
    LookAtBroker,
    Position,
    Watch,
    Watching,
)
from actors.links.operations import Operation, Result
from actors.links.pools import PoolFigures
from actors.links.reading import ForBroker
from actors.links.secret import Secrets
from actors.links.status import ClusterStatus, MonitorStatus
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Result)

BROKER_SECONDS: Final = 2.0
"""A broker that has not answered by then is left out."""
_VIEW_SECONDS: Final = 8.0
_COMING_SECONDS: Final = 60.0  # a process that was started and has not come by then is replaced
_PAUSE_MAX_SECONDS: Final = 60.0
_SILENT_SECONDS: Final = 60.0  # or four of its intervals: it is replaced then, for it asks all the time
_RETURN_SECONDS: Final = 20.0  # so long has one that was hung up on, because of its secret, to connect again
_FIRST_SECONDS: Final = 30.0  # it is started then at the latest, although not all brokers serve


class Cluster(Protocol):
    """The part of the controller that the Monitor's side needs."""

    @property
    def metadata(self) -> ClusterMetadata: ...

    @property
    def brokers(self) -> Mapping[int, Session]: ...

    @property
    def secrets(self) -> Secrets: ...

    def status(self) -> ClusterStatus: ...


class Monitoring:
    """The Monitor of one cluster, as its controller knows it. Without `wanted` none is started; one may come."""

    def __init__(
        self,
        cluster: Cluster,
        launcher: Launcher,
        chronicle: Chronicle,
        loop: asyncio.AbstractEventLoop,
        wall_ms: Callable[[], int],
        *,
        wanted: bool,
        interval_s: float,
    ) -> None:
        self._silent_s = max(_SILENT_SECONDS, 4 * interval_s)
        self._cluster = cluster
        self._launcher = launcher
        self._chronicle = chronicle
        self._loop = loop
        self._wall_ms = wall_ms
        self._wanted = wanted
        self._sessions: dict[ControlProtocol, Calls] = {}
        self._watcher: ControlProtocol | None = None  # the Monitor: the last that has said so
        self._pid: int | None = None
        self._returns = False  # it lives, and connects again by the secret that is valid now
        self._came = self._heard = 0.0
        self._answering: set[asyncio.Task[None]] = set()
        self._due: float | None = None  # the time of its next start; None before the brokers serve
        self._began = loop.time()
        self._pause_s = 1.0
        self._pools = Pools()

    # --- its process ---

    def tick(self, now: float, *, serving: bool) -> None:
        """Start the Monitor if it is missing. `serving`: whether all brokers do; it does not get in their way."""
        if self._watcher is not None and now - self._heard > self._silent_s:
            log.warning("the Monitor (pid %s) is silent: it is replaced", self._pid)
            self._watcher.close()
        if self._returns and self._due is not None and now >= self._due:
            self._died()
        if not self._wanted or self._watcher is not None:
            return
        if self._due is None:
            if serving or now - self._began > _FIRST_SECONDS:
                self._due = now
            else:
                return
        if now >= self._due:
            self._due = now + _COMING_SECONDS
            self._launcher.start_monitor()

    def await_earlier(self, seconds: float) -> None:
        """A Monitor was started by an earlier controller: it has so long to come."""
        self._due = self._loop.time() + seconds

    def renew(self) -> None:
        """Have the Monitor replaced, because its settings have changed."""
        if self._watcher is not None:
            self._watcher.close()

    @property
    def status(self) -> MonitorStatus | None:
        """The Monitor's pid and state; None if there is none and none is wanted."""
        if self._watcher is not None or self._returns:
            return MonitorStatus(self._pid, "Active")
        return MonitorStatus(None, "Starting") if self._wanted else None

    # --- its connection ---

    def came(self, protocol: ControlProtocol) -> None:
        """Somebody has proved to be a Monitor."""
        self._sessions[protocol] = Calls(protocol.send)

    def lost(self, protocol: ControlProtocol) -> None:
        """A connection has ended."""
        calls = self._sessions.pop(protocol, None)
        if calls is not None:
            calls.lose("the Monitor has hung up")
        if protocol is not self._watcher:
            return
        self._watcher, now = None, self._loop.time()
        if protocol.proved_by not in self._cluster.secrets.known:
            self._returns, self._due = True, now + _RETURN_SECONDS
            return
        lived = now - self._came
        self._pause_s = 1.0 if lived > _PAUSE_MAX_SECONDS else min(2 * self._pause_s, _PAUSE_MAX_SECONDS)
        self._due = now + self._pause_s
        self._died()

    def _died(self) -> None:
        self._returns = False
        log.warning("the Monitor (pid %s) is gone", self._pid)
        self._chronicle.note("death", "monitor", f"The Monitor's process {self._pid} has ended.")

    def on_message(self, protocol: ControlProtocol, message: Message) -> None:
        """A message of a Monitor's."""
        calls = self._sessions.get(protocol)
        if calls is None:
            return
        self._heard = self._loop.time()
        match message:
            case Call(number, operation):
                task = self._loop.create_task(self._carry_out(protocol, number, operation))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Answer() | Failed():
                calls.answered(message)
            case _:
                log.error("hung up on a monitor: %s is nothing that it says", type(message).__name__)
                protocol.close()

    async def _carry_out(self, protocol: ControlProtocol, number: int, operation: Operation[Result]) -> None:
        try:
            check_allowed_to_monitor(operation)
            protocol.send(Answer(number, await self._operate(protocol, operation)))
        except Exception as error:  # of a bug, too: the Monitor waits for an answer
            protocol.send(Failed(number, f"{type(error).__name__}: {error}"))

    async def _operate(self, protocol: ControlProtocol, operation: Operation[Result]) -> Result:
        match operation:
            case LookAround():
                return await self._look_around(operation)
            case ForBroker(broker_id, asked):
                session = self._cluster.brokers.get(broker_id)
                if session is None:
                    raise ConnectionError(f"broker {broker_id} is not registered")
                return await session.calls.ask(asked, BROKER_SECONDS)
            case Watch(pid):
                return self._watch(protocol, pid)
            case _:
                raise TypeError(f"{type(operation).__name__} is nothing that a controller does")

    def _watch(self, protocol: ControlProtocol, pid: int) -> Watching:
        older, self._watcher = self._watcher, protocol
        if older is not None and older is not protocol:
            older.close()
        self._pid, self._came, self._returns = pid, self._loop.time(), False
        log.info("the Monitor (pid %d) has come", pid)
        status = self._cluster.status()
        return Watching(status.cluster_id, status.name)

    def close(self) -> None:
        """Close the connections."""
        for protocol in list(self._sessions):
            protocol.close()

    # --- what it asks ---

    def tell_of_pool(self, figures: PoolFigures) -> None:
        """A pool has said what its members do."""
        self._pools.told(figures, self._loop.time())

    async def _look_around(self, asked: LookAround) -> ClusterObserved:
        positions = {each.source: each for each in asked.positions}
        none = Position(CONTROLLER, 0, 0)
        sessions = list(self._cluster.brokers.values())
        answers = await asyncio.gather(*(_look_at(each, positions.get(each.broker_id, none)) for each in sessions))
        metadata, own = self._cluster.metadata, positions.get(CONTROLLER, none)
        return ClusterObserved(
            self._wall_ms(),
            self._cluster.status(),
            self._chronicle.since(own.run, own.number),
            tuple(each for each in answers if each is not None),
            tuple(each.broker_id for each, said in zip(sessions, answers, strict=True) if said is None),
            None if asked.metadata_version == metadata.version else metadata.without_security(),
            self._pools.present(self._loop.time()),
        )

    # --- what it is asked ---

    async def view(self, operation: Operation[R]) -> R:
        """Its answer to a driver's question. Raises ConnectionError if there is no Monitor, and TimeoutError."""
        if self._watcher is None:
            starts = "it starts" if self._wanted else "coterie.monitor=false"
            wanted = "it connects again" if self._returns else starts
            raise ConnectionError(f"the cluster has no Monitor now: {wanted}")
        return await self._sessions[self._watcher].ask(operation, _VIEW_SECONDS)


async def _look_at(session: Session, known: Position) -> BrokerObserved | None:
    try:
        return await session.calls.ask(LookAtBroker(known.run, known.number), BROKER_SECONDS)
    except (OSError, TimeoutError):
        return None
