"""Where a broker's clients come in: the listener, the limits on connections, and who gets which request."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import Counter
from typing import Any

from actors.broker.connection import Connection
from actors.broker.context import BrokerContext, Request
from actors.broker.handlers import api_versions
from actors.broker.handlers.fan_out import HANDLERS as FAN_OUT
from actors.broker.handlers.registry import HANDLERS, error_response
from actors.broker.listening import PortTakenError, listen
from actors.broker.shards.hub import ShardHub
from actors.broker.slots import Slot
from actors.broker.spec import BrokerSpec, StartError
from actors.group_api import VERSIONS as GROUP_VERSIONS
from actors.wire.api_keys import ApiKey
from actors.wire.codec import read_uvarint, skip_tags
from actors.wire.errors import ErrorCode, WireError
from actors.wire.framing import decode_request_header, encode_response
from actors.wire.messages import api_name, request_class

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">hhih")
_LATE_SECONDS = 1.0
_UNREAD_SECONDS = 0.005
_PRODUCE = ApiKey.PRODUCE
_API_VERSIONS = ApiKey.API_VERSIONS
_OFFSET_FETCH = ApiKey.OFFSET_FETCH
# Group requests whose first field is the group's id, and from which version on their header is flexible.
_RELAYED: dict[int, int] = {
    key: request_class(key).flexible_from
    for key in (
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.OFFSET_DELETE,
    )
}


class FrontDoor:
    """The clients of one broker. Requests go to the handlers, those of groups to the shards."""

    def __init__(self, spec: BrokerSpec, context: BrokerContext, shards: ShardHub, tick_seconds: float) -> None:
        config = context.config
        self.port = spec.port
        """The port that is asked for, and once it listens, the one it has."""
        self.socket_request_max_bytes = config.integer("socket.request.max.bytes")
        self._group_request_max_bytes = config.integer("coterie.group.request.max.bytes")
        self._idle_seconds = config.integer("connections.max.idle.ms") / 1000
        self._spec = spec
        self._context = context
        self._shards = shards
        self._loop = context.loop
        self._listener: asyncio.AbstractServer | None = None
        self._connections: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._next_connection = 0
        self._requests = 0
        self._unread = 0
        self._unread_until = 0.0
        self._tick_seconds = tick_seconds
        self._last_tick = self._loop.time()  # the clock of what clients do
        self._late = 0.0
        self._longest_turn = 0.0

    async def listen(self) -> None:
        """Let clients in. Raises StartError if nobody can listen there."""
        self._last_tick = self._loop.time()
        try:
            server = await listen(
                self._new_connection,
                self._spec.bind_host,
                self.port,
                self._spec.port_chosen_by,
                backlog=self._context.config.integer("socket.listen.backlog.size"),
            )
        except PortTakenError as error:
            raise StartError(f"broker {self._spec.broker_id} {error.strerror}") from error
        self._listener = server
        self.port = server.sockets[0].getsockname()[1]
        self._context.listener = (self._spec.bind_host, self.port)

    def close(self) -> None:
        """Let nobody in any more, and hang up on all."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.close()

    # --- time ---

    def begin_ticks(self) -> None:
        """The first tick comes a tick from now: what the start took is not counted as a delay."""
        self._last_tick = self._loop.time()

    def tick(self) -> None:
        """Note the time, and how late it has become known."""
        now = self._loop.time()
        self._late = now - self._last_tick - self._tick_seconds
        self._longest_turn = max(self._longest_turn, self._late)
        self._last_tick = now

    def close_idle(self) -> None:
        """Not after we stood still ourselves: what clients have said meanwhile has not been read yet."""
        if self._idle_seconds <= 0 or self._late >= _LATE_SECONDS:
            return
        for connection in list(self._connections):
            if self._last_tick - connection.last_active > self._idle_seconds and not len(connection.slots):
                connection.close(f"idle for more than connections.max.idle.ms={self._idle_seconds * 1000:.0f}")

    def load(self) -> dict[str, Any]:
        """What the controller and `coterie status` are told."""
        return {
            "connections": len(self._connections),
            "requests": self._requests,
            "longest_turn_ms": round(self._longest_turn * 1000, 1),
            "logs": len(self._context.data_dir.logs),
        }

    # --- connections ---

    def _new_connection(self) -> Connection:
        self._next_connection += 1
        return Connection(self, self._next_connection, self._loop.time())

    def on_connect(self, connection: Connection) -> bool:
        """A client has come."""
        taken = {
            "max.connections": len(self._connections),
            "max.connections.per.ip": self._per_address[connection.peer],
        }
        for setting, count in taken.items():
            if count >= self._context.config.integer(setting):
                log.warning("refusing a connection from %s: %s=%d", connection.peer, setting, count)
                return False
        if connection.transport is not None:
            sock = connection.transport.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A client whose machine has vanished holds its place no longer than the system's probes take.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._connections.add(connection)
        self._per_address[connection.peer] += 1
        return True

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None:
        """A client has gone."""
        if connection in self._connections:  # else it was refused
            self._connections.remove(connection)
            self._per_address[connection.peer] -= 1
            if not self._per_address[connection.peer]:
                del self._per_address[connection.peer]
        self._context.forget(connection)
        self._shards.disconnected(connection, unanswered)

    def response_bytes_waiting(self) -> int:
        """Bytes of answers that clients have not taken yet, as of a moment ago."""
        now = self._loop.time()
        if now > self._unread_until:  # once a while: a broker may have thousands of connections
            self._unread = sum(connection.write_buffer_size for connection in self._connections)
            self._unread_until = now + _UNREAD_SECONDS
        return self._unread

    # --- requests ---

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        """Pass one request to the shard or the handler it is for."""
        self._requests += 1
        connection.last_active = self._last_tick
        api_key, version, correlation_id, length = _HEAD.unpack_from(data, start)
        flexible_from = _RELAYED.get(api_key)
        if flexible_from is None:
            self._handle(connection, data[start:end])
            return
        group = self._group_of(data, start, end, api_key, version, length, version >= flexible_from)
        if group is None:
            self._handle(connection, data[start:end])
        else:
            partition = self._shards.partition_of(group)
            self._shards.relay(connection, partition, data[start:end], version, api_key, correlation_id)

    def _group_of(
        self, data: bytes, start: int, end: int, api_key: int, version: int, length: int, flexible: bool
    ) -> bytes | None:
        """The group id of a group request, which is its first field; None if it names several groups (KIP-709)."""
        first, last = GROUP_VERSIONS[api_key]
        if not first <= version <= last:
            raise WireError(f"{api_name(api_key)} v{version} is not served ({first} to {last} are)")
        if end - start > self._group_request_max_bytes:
            raise WireError(
                f"{api_name(api_key)} of {end - start} bytes exceeds "
                f"coterie.group.request.max.bytes={self._group_request_max_bytes}"
            )
        try:
            at = start + 10 + max(length, 0)
            if flexible:
                at = at + 1 if data[at] == 0 else skip_tags(data, at)
                if api_key == _OFFSET_FETCH and version >= 8:
                    count, at = read_uvarint(data, at)
                    if count != 2:  # a compact array's length is one more than its items
                        return None
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

    def _handle(self, connection: Connection, frame: bytes) -> None:
        api_key = int.from_bytes(frame[:2], "big", signed=True)
        if api_key not in FAN_OUT and api_key not in HANDLERS:
            raise WireError(f"{api_name(api_key)} is not served")
        header = decode_request_header(frame)
        version = header.api_version
        if api_key in FAN_OUT:
            first, last = GROUP_VERSIONS[api_key]
            handle: Any = FAN_OUT[api_key]
        else:
            entry = HANDLERS[api_key]
            first, last, handle = entry.served_from, entry.last, entry.handle
        if not first <= version <= last:
            if api_key == _API_VERSIONS:
                slot = self._slot(connection, header.api_key, 0, header.correlation_id)
                slot.finish(encode_response(api_versions.unsupported(), 0, header.correlation_id))
                return
            raise WireError(f"{api_name(api_key)} v{version} is not served ({first} to {last} are)")
        message: Any = request_class(api_key).decode(frame, version, header.body_offset)
        silent = api_key == _PRODUCE and message.acks == 0
        slot_or_none = None if silent else self._slot(connection, api_key, version, header.correlation_id)
        request = Request(header, message, connection, slot_or_none)
        try:
            response = handle(self._context, request)
        except Exception:
            log.exception("%s v%d from %s failed", api_name(api_key), version, connection.peer)
            if api_key in FAN_OUT:
                connection.close("the request could not be handled")
                return
            response = error_response(message, version, ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is not None and slot_or_none is not None and slot_or_none.answer is None:
            slot_or_none.finish(encode_response(response, version, header.correlation_id))

    def _slot(self, connection: Connection, api_key: int, version: int, correlation_id: int) -> Slot:
        return connection.slots.open(0, api_key, version, correlation_id)
