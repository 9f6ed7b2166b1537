"""The sockets of a broker's clients: it listens, accepts connections within the limits, and closes idle ones.

`routing` knows where their requests go.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TypeAlias

from actors.broker.connections.connection import Connection, Server
from actors.broker.connections.slots import Slot
from actors.broker.context import BrokerContext
from actors.broker.coordinators.host import Coordinators
from actors.broker.entrance.admission import Admission
from actors.broker.entrance.clients import Clients
from actors.broker.entrance.connection_rates import ConnectionRates
from actors.broker.entrance.listening import PortTakenError, listen
from actors.broker.entrance.routing import Router
from actors.broker.entrance.tls_listeners import TlsListeners
from actors.broker.spec import BrokerSpec, Door, StartError
from actors.links.status import Connections, Load
from actors.links.unauthenticated import FailureLog
from placement.metadata import Endpoint

_LATE_SECONDS = 1.0

Before: TypeAlias = Callable[["SocketServer"], Server]
"""Makes what stands between the clients' connections and a socket server."""


def nothing_before(server: SocketServer) -> Server:
    """Connections give their requests to the socket server itself."""
    return server


class SocketServer:
    """The connections of one broker's clients. `router` gets their requests."""

    def __init__(
        self,
        spec: BrokerSpec,
        broker: BrokerContext,
        clients: Clients,
        coordinators: Coordinators,
        router: Router,
        tls: TlsListeners,
        tick_seconds: float,
        before: Before = nothing_before,
    ) -> None:
        self.socket_request_max_bytes = broker.config.integer("socket.request.max.bytes")
        self.failures = FailureLog(broker.loop.time)
        """Of connections, whoever has them."""
        self.on_frame = router.on_frame
        """Called with each whole request: an attribute, so that no request costs a call here."""
        self._idle_seconds = broker.config.integer("connections.max.idle.ms") / 1000
        self._spec = spec
        self._broker = broker
        self._clients = clients
        self._coordinators = coordinators
        self._router = router
        self.admission = Admission(broker)
        self.rates = ConnectionRates(broker, broker.loop)
        self._loop = broker.loop
        self._tls = tls
        self._servers: list[asyncio.AbstractServer] = []
        self._closed = False
        self._next_connection = 0
        self._tick_seconds = tick_seconds
        self._late = 0.0
        self._server = before(self)

    async def listen(self) -> None:
        """Listen for clients at each listener. Raises StartError if a port cannot be had."""
        self._router.last_tick = self._loop.time()
        await self._clients.address_limits.read()
        await self.admission.open()
        self._clients.listening = tuple([await self._open(door) for door in self._spec.doors])
        self._tls.follow_files()

    async def _open(self, door: Door) -> Endpoint:
        broker_id = self._spec.broker_id
        accept: Callable[[str], asyncio.BaseProtocol] = self._new_connection
        try:
            if door.protocol.tls:
                self._tls.add(door)
                accept = self._new_tls
            server = await listen(
                lambda: accept(door.listener),
                door.host,
                door.port,
                door.port_chosen_by,
                backlog=self._broker.config.integer("socket.listen.backlog.size"),
            )
        except PortTakenError as error:
            raise StartError(f"broker {broker_id} {error.strerror}") from error
        except StartError as error:
            raise StartError(f"broker {broker_id}: {error}") from error
        self._servers.append(server)
        return Endpoint(door.listener, door.host, server.sockets[0].getsockname()[1], door.protocol)

    @property
    def told(self) -> tuple[Endpoint, ...]:
        """The endpoints that clients are told, listener by listener."""
        return tuple(
            Endpoint(door.listener, door.advertised_host, door.advertised_port or at.port, door.protocol)
            for door, at in zip(self._spec.doors, self._clients.listening, strict=True)
        )

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener, once it listens."""
        return {at.listener: at.port for at in self._clients.listening}

    def close(self) -> None:
        """Stop listening, and close all connections, also those that were accepted and are not made yet."""
        self._closed = True
        for server in self._servers:
            server.close()
        self._tls.close()
        self._clients.address_limits.close()
        for connection in self._clients:
            connection.close()
        self.admission.close()

    # --- time ---

    def begin_ticks(self) -> None:
        """Count delays from now on: the time that the start took is not one."""
        self._router.last_tick = self._loop.time()

    def tick(self) -> None:
        """Note the time, and how late this tick is."""
        now = self._loop.time()
        self._late = now - self._router.last_tick - self._tick_seconds
        if self._broker.counts.stalls.tick_late(self._late):
            self._broker.chronicle.note(
                "stall", "loop", f"The broker's loop stood still for {self._late * 1000:.0f} ms."
            )
        self._router.last_tick = now
        self._tls.tick()
        self._clients.address_limits.tick()

    def close_idle(self) -> None:
        """Close idle connections and overdue ones; not after this broker stood still, for then bytes wait unread."""
        if self._late >= _LATE_SECONDS:
            return
        self._tls.close_overdue()
        self.admission.close_overdue()
        if self._idle_seconds <= 0:
            return
        for connection in self._clients:
            if self._router.last_tick - connection.last_active > self._idle_seconds and not len(connection.slots):
                connection.close(f"idle for more than connections.max.idle.ms={self._idle_seconds * 1000:.0f}")

    def load(self) -> Load:
        """The load of this broker, for the controller and `coterie status`."""
        return Load(
            connections=len(self._clients),
            requests=self._broker.counts.requests.total,
            longest_turn_ms=self._broker.counts.stalls.figures.longest_ms,
            logs=len(self._broker.data_dir.logs),
            listeners=tuple(self._present(at.listener) for at in self._clients.listening),
            logins=self.admission.figures(),
            tls=self._tls.figures(),
            priority=self._broker.priority,
        )

    def _present(self, listener: str) -> Connections:
        handshaking = self._tls.under_way(listener)
        unauthenticated, failed = self.admission.present(listener)
        authenticating = max(unauthenticated - handshaking, 0)
        ready = self._clients.at(listener) - handshaking - authenticating - failed
        return Connections(listener, handshaking, authenticating, ready, failed)

    # --- connections ---

    def _new_connection(self, listener: str) -> Connection:
        if self._closed:  # asyncio's server has accepted it before
            raise ConnectionAbortedError("this broker has ended")
        self._next_connection += 1
        return Connection(self._server, self._next_connection, self._loop.time(), listener)

    def _new_tls(self, listener: str) -> asyncio.BaseProtocol:
        return self._tls.protocol_of(self._new_connection(listener))

    def on_connect(self, connection: Connection) -> bool:
        """A client has come."""
        if self._closed or not self._clients.admit(connection):
            return False
        if connection.transport is not None:
            sock = connection.transport.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # If a client's machine has vanished, the system's probes end the connection.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._tls.accepted(connection)
        self.admission.admit(connection)
        self.rates.pace(connection)
        return True

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None:
        """A client has gone."""
        self._clients.remove(connection)
        self._tls.gone(connection)
        self.admission.forget(connection)
        self._broker.fetches.forget(connection)
        self._coordinators.disconnected(connection, unanswered)

    # --- requests ---
