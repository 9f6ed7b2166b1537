"""The clients' way into a broker: the listeners, the limits on connections, and where each request goes."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from actors.broker.clients import Clients
from actors.broker.connection import Connection, Server
from actors.broker.connection_rates import ConnectionRates
from actors.broker.coordinators.host import Coordinators
from actors.broker.coordinators.hub import ShardHub
from actors.broker.handlers import api_versions
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.features import serves_consumer_groups
from actors.broker.handlers.group_requests import guard
from actors.broker.handlers.registry import APIS, ENTRIES_LIMIT, Api
from actors.broker.listening import PortTakenError, listen
from actors.broker.over_quota import OverQuota
from actors.broker.reception import Reception
from actors.broker.request_time import RequestTime
from actors.broker.slots import Slot
from actors.broker.spec import BrokerSpec, Door, StartError
from actors.broker.tls_doors import TlsDoors
from actors.links.status import Connections, Load
from actors.links.strangers import FailureLog
from actors.runtime.logs import about
from actors.settings import BrokerConfig
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode, TooManyEntriesError, WireError
from actors.wire.framing import decode_request_header, encode_large_response, encode_response
from actors.wire.messages import api_name
from actors.wire.varints import read_uvarint, skip_tags
from placement.metadata import Endpoint

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">hhih")
_LATE_SECONDS = 1.0
_LARGE_BYTES = 64 << 10
_PRODUCE = ApiKey.PRODUCE
_OFFSET_FETCH = ApiKey.OFFSET_FETCH
_CONSUMER_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)  # an enum's member costs more to compare


_Route: TypeAlias = tuple[Api, int, int, int, int, str, ShardHub | None]
"""Of an API's requests: the row, the first and the last version, the first flexible one, the limit in bytes, the
setting of that limit, and the shards of the kind that the first field names a key of; None if a handler answers all.

A plain tuple is unpacked in a third of the time that a named one takes, and that is done for each request."""


def _route(api: Api, config: BrokerConfig, coordinators: Coordinators) -> _Route:
    shards = coordinators[api.names.kind] if api.names is not None else None
    limit = config.integer(api.limit)
    return api, api.served_from, api.last, api.request.flexible_from, limit, api.limit, shards


Before: TypeAlias = Callable[["FrontDoor"], Server]
"""Makes what stands between the clients' connections and a front door."""


def nothing_before(door: FrontDoor) -> Server:
    """Connections give their requests to the front door itself."""
    return door


class FrontDoor:
    """The clients of one broker. Requests go to the handlers, those about a key of coordinators to the shards."""

    def __init__(
        self,
        spec: BrokerSpec,
        context: HandlerContext,
        clients: Clients,
        coordinators: Coordinators,
        tls: TlsDoors,
        tick_seconds: float,
        apis: Mapping[int, Api] = APIS,
        before: Before = nothing_before,
    ) -> None:
        broker = context.broker
        config = broker.config
        self.socket_request_max_bytes = config.integer("socket.request.max.bytes")
        self.failures = FailureLog(broker.loop.time)
        """Of connections, whoever has them."""
        self._entries_max = config.integer(ENTRIES_LIMIT)
        # By API key, so that a request needs one lookup.
        self._routes = {int(key): _route(api, config, coordinators) for key, api in apis.items()}
        self._idle_seconds = config.integer("connections.max.idle.ms") / 1000
        self._spec = spec
        self._context = context
        self._broker = broker
        self._clients = clients
        self._coordinators = coordinators
        self._reception = Reception(broker)
        self._rates = ConnectionRates(broker)
        self._over_quota = OverQuota(broker, self.on_frame)
        self._request_time = RequestTime(broker, self.on_frame)
        self._loop = broker.loop
        self._tls = tls
        self._servers: list[asyncio.AbstractServer] = []
        self._closed = False
        self._next_connection = 0
        self._server = before(self)
        self._exact_time = broker.environment.clock.monotonic  # the loop's stands still during a turn
        self._counts = broker.counts.requests
        self._counted, self._masks = self._counts.requests, self._counts.masks
        self._tick_seconds = tick_seconds
        self._last_tick = self._loop.time()  # the clock of what clients do
        self._late = 0.0

    async def listen(self) -> None:
        """Listen for clients at each door. Raises StartError if a port cannot be had."""
        self._last_tick = self._loop.time()
        await self._clients.address_limits.read()
        await self._reception.open()
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
        self._reception.close()

    # --- time ---

    def begin_ticks(self) -> None:
        """Count delays from now on: the time that the start took is not one."""
        self._last_tick = self._loop.time()

    def tick(self) -> None:
        """Note the time, and how late this tick is."""
        now = self._loop.time()
        self._late = now - self._last_tick - self._tick_seconds
        if self._broker.counts.stalls.tick_late(self._late):
            self._broker.chronicle.note(
                "stall", "loop", f"The broker's loop stood still for {self._late * 1000:.0f} ms."
            )
        self._last_tick = now
        self._tls.tick()
        self._clients.address_limits.tick()

    def close_idle(self) -> None:
        """Close idle connections and overdue ones; not after this broker stood still, for then bytes wait unread."""
        if self._late >= _LATE_SECONDS:
            return
        self._tls.close_overdue()
        self._reception.close_overdue()
        if self._idle_seconds <= 0:
            return
        for connection in self._clients:
            if self._last_tick - connection.last_active > self._idle_seconds and not len(connection.slots):
                connection.close(f"idle for more than connections.max.idle.ms={self._idle_seconds * 1000:.0f}")

    def load(self) -> Load:
        """The load of this broker, for the controller and `coterie status`."""
        return Load(
            connections=len(self._clients),
            requests=self._counts.total,
            longest_turn_ms=self._broker.counts.stalls.figures.longest_ms,
            logs=len(self._broker.data_dir.logs),
            listeners=tuple(self._present(at.listener) for at in self._clients.listening),
            logins=self._reception.figures(),
            tls=self._tls.figures(),
            priority=self._broker.priority,
        )

    def _present(self, listener: str) -> Connections:
        handshaking = self._tls.under_way(listener)
        strangers, failed = self._reception.present(listener)
        authenticating = max(strangers - handshaking, 0)
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
        self._reception.receive(connection)
        self._rates.pace(connection)
        return True

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None:
        """A client has gone."""
        self._clients.remove(connection)
        self._tls.gone(connection)
        self._reception.dismiss(connection)
        self._broker.fetches.forget(connection)
        self._coordinators.disconnected(connection, unanswered)

    # --- requests ---

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        """Pass a request to its shard or its handler."""
        if self._broker.quotas is not None and (
            self._over_quota.holds(connection, data, start, end)
            or self._request_time.serves(connection, data, start, end)
        ):
            return
        connection.last_active = self._last_tick
        api_key, version, correlation_id, length = _HEAD.unpack_from(data, start)
        route = self._routes.get(api_key)
        if route is None:
            raise WireError(f"{api_name(api_key)} is not served")
        api, first, last, flexible_from, limit, limited_by, shards = route
        count = self._counted[api_key] = self._counted[api_key] + 1
        if not first <= version <= last:
            self._refuse_version(connection, data[start:end], api)
            return
        if end - start > limit:
            raise WireError(f"{api.key.label} of {end - start} bytes exceeds {limited_by}={limit}")
        if shards is not None and (api_key != _CONSUMER_HEARTBEAT or serves_consumer_groups(self._broker)):
            group = self._group_of(data, start, end, api_key, version, length, version >= flexible_from)
            if group is not None:
                authorizer = self._broker.authorizer
                if (
                    authorizer is not None
                    and connection.cleared.get(api_key) is not authorizer.edition
                    and guard.answers(self._context, authorizer, connection, api, data[start:end], group)
                ):
                    return
                partition = shards.partition_of(group)
                shards.relay(connection, partition, data[start:end], version, api_key, correlation_id)
                if not count & self._masks[api_key]:
                    self._sample(connection, api_key, correlation_id)
                return
        if end - start > _LARGE_BYTES and api_key != _PRODUCE:
            self._handle_in_turn(connection, data[start:end], api)
            return
        begun = self._exact_time() if not count & self._masks[api_key] else None
        self._handle(connection, data[start:end], api)
        if begun is not None:
            self._sample(connection, api_key, correlation_id, begun)

    def _sample(self, connection: Connection, api_key: int, correlation_id: int, begun: float | None = None) -> None:
        """Have the time taken until the answer to the request that came last leaves."""
        since = self._exact_time() if begun is None else begun
        connection.slots.time_last(api_key, correlation_id, partial(self._left, api_key, since))

    def _left(self, api_key: int, since: float) -> None:
        self._counts.latencies[api_key].add(self._exact_time() - since)

    def _group_of(
        self, data: bytes, start: int, end: int, api_key: int, version: int, length: int, flexible: bool
    ) -> bytes | None:
        """The group id of a group request, its first field; None if the request names several groups (KIP-709)."""
        try:
            at = start + 10 + max(length, 0)
            if flexible:
                at = at + 1 if data[at] == 0 else skip_tags(data, at)
                if api_key == _OFFSET_FETCH and version >= 8:
                    count, at = read_uvarint(data, at)
                    if count != 2:  # the length of a compact array is the number of its items plus 1
                        return None
                size = data[at]
                if size < 128:  # nearly all
                    at += 1
                else:
                    size, at = read_uvarint(data, at)
                size -= 1
            else:
                size = int.from_bytes(data[at : at + 2], "big", signed=True)
                at += 2
        except IndexError as error:
            raise WireError("the request ends within its header") from error
        if size < 0 or at + size > end:
            raise WireError("the group id is null or reaches beyond the request")
        return data[at : at + size]

    def _refuse_version(self, connection: Connection, frame: bytes, api: Api) -> None:
        """Answer ApiVersions in version 0, so that the client can ask again (KIP-511). Others raise WireError."""
        header = decode_request_header(frame)
        if api.key is not ApiKey.API_VERSIONS:
            served = f"({api.served_from} to {api.last} are)"
            raise WireError(f"{api.key.label} v{header.api_version} is not served {served}")
        slot = connection.slots.open(0, header.api_key, 0, header.correlation_id)
        slot.finish(encode_response(api_versions.unsupported(), 0, header.correlation_id))

    def _handle_in_turn(self, connection: Connection, frame: bytes, api: Api) -> None:
        """Long lists take long to be read, so that one of them is read in a turn of the loop, whoever sends more."""
        connection.hold()

        def handle() -> Iterator[None]:
            if connection.transport is not None:
                try:
                    self._handle(connection, frame, api)
                except WireError as error:
                    connection.close(str(error))
                except Exception:  # a bug: the connection is held, and its client would wait for ever
                    log.exception("%s from %s", api.key.label, connection.peer, extra=about(peer=connection.peer))
                    connection.close("its request could not be handled")
                connection.flush()
                self._loop.call_soon(connection.release)
            yield

        self._broker.turns.begin(handle(), connection, decode_request_header(frame).client_id)

    def _handle(self, connection: Connection, frame: bytes, api: Api) -> None:
        assert api.handle is not None, "a request that is relayed names its group"
        header = decode_request_header(frame)
        version = header.api_version
        try:
            message: Any = api.request.decode(frame, version, header.body_offset, self._entries_max)
        except TooManyEntriesError:
            raise WireError(f"{api.key.label} has more entries than {ENTRIES_LIMIT}={self._entries_max}") from None
        silent = header.api_key == _PRODUCE and message.acks == 0
        slot = None if silent else connection.slots.open(0, header.api_key, version, header.correlation_id)
        request = Request(header, message, connection, slot, self._counts.answered)
        try:
            response = api.handle(self._context, request)
        except Exception:  # a bug of the API's handler: its client is told, and the others are served
            log.exception(
                "%s v%d from %s failed", api.key.label, version, connection.peer, extra=about(peer=connection.peer)
            )
            if api.failed is None:
                connection.close("the request could not be handled")
                return
            response = api.failed(message, version, ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is not None and slot is not None and slot.answer is None:
            self._counts.answered(header.api_key, response)
            slot.finish(encode_large_response(response, version, header.correlation_id))
