"""A client's connection to a broker: frames in, answers out in request order, and the limits that protect the broker.

The server knows what a frame means (`Server.on_frame`); slots.py has the order of answers.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import Protocol, cast

from actors.broker.connections.outgoing import PIECE_BYTES, Outgoing
from actors.broker.connections.slots import Slot, SlotQueue
from actors.records.errors import LogError
from actors.runtime.logs import about
from actors.security.acl import ANONYMOUS
from actors.wire.framing import LARGE_BYTES
from actors.wire.gathering import Gathering
from placement.metadata import PLAINTEXT

log = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")
_READY_BYTES_MAX = 1 << 20  # if more answers are ready, they are written or waited for before more requests are handled
MAX_OPEN_SLOTS = 512
SMALLEST_REQUEST = 10  # api key, version, correlation id, length of the client id
_TURN_PIECES = 8  # of large answers; then it is the turn of other clients


class Failures(Protocol):
    """The reporter of closed connections and their causes: not more often than somebody can read."""

    def note(self, peer: str, listener: str, text: str) -> None:
        """A connection of this address has failed."""


class Server(Protocol):
    """The part of a broker that a connection needs."""

    socket_request_max_bytes: int

    @property
    def failures(self) -> Failures: ...

    def on_connect(self, connection: Connection) -> bool:
        """A client has connected; False refuses it."""

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        """One whole request is `data[start:end]`, without its length. May raise WireError: the connection closes."""

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None:
        """The client has gone. `unanswered` are the slots that had no answer yet."""


class Gate(Protocol):
    """The gate of a peer that has not proved its identity, or whose session ends. It takes the server's place."""

    def takes(self, length: int) -> bool:
        """True if the next frame may have this length."""

    def refuse(self, length: int) -> None:
        """A frame of a length that it may not have has been announced."""

    def on_frame(self, data: bytes, start: int, end: int) -> None:
        """One whole frame. May raise WireError, or replace itself: the next frame is looked at anew."""


class Connection(asyncio.Protocol):
    """One client. Reading stops while too many slots are open or the client does not read its answers."""

    def __init__(self, server: Server, connection_id: int, now: float, listener: str = PLAINTEXT) -> None:
        self.server = server
        self.id = connection_id
        self.listener = listener
        self.cleared: dict[int | tuple[int, bytes], object] = {}
        """The client's rights as long as certain ACLs are in force; see `Authorization.clear`."""
        self.principal = ANONYMOUS
        self.software = ""
        """The client's software, as it says itself (KIP-511): for people to read, and for no decision."""
        self.slots = SlotQueue(self)
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.gate: Gate | None = None
        """The object to be asked for each frame; None if every served request may come."""
        self.last_active = now
        self._outgoing = Outgoing()
        self.gathering = Gathering()
        """The beginning of a frame, as far as it has come."""
        self.held: bytes = b""
        """Bytes that came and are not looked at before requests are read again."""
        self._write_paused = False
        self._read_paused = False
        self._holds = 0

    @property
    def principal(self) -> str:
        """The client as `User:name`."""
        return self._principal

    @principal.setter
    def principal(self, principal: str) -> None:
        self._principal = principal
        self.cleared.clear()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=PIECE_BYTES // 2, low=PIECE_BYTES // 4)
        name = transport.get_extra_info("peername")
        self.peer = name[0] if isinstance(name, tuple) else ""
        if not self.server.on_connect(self):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._outgoing.clear()
        self.gathering.clear()
        self.held = b""
        self.server.on_disconnect(self, self.slots.clear())
        self.gate = None  # it has this connection: without circles it is freed at once

    def pause_writing(self) -> None:
        self._write_paused = True
        self._update_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._write_on()

    def data_received(self, data: bytes) -> None:
        if self.held:
            self.held += data
            return
        whole = self.gathering.whole(data)
        if whole:
            self._parse(whole)

    # --- frames ---

    def _parse(self, data: bytes) -> None:
        position, size, need = 0, len(data), 4
        server, slots = self.server, self.slots
        try:
            while size - position >= 4:
                if slots.ready_bytes > _READY_BYTES_MAX:
                    self._write_ready()
                if self._must_wait():
                    self.held = data[position:]
                    break
                (length,) = _LENGTH.unpack_from(data, position)
                gate = self.gate
                if gate is None and not SMALLEST_REQUEST <= length <= server.socket_request_max_bytes:
                    self.close(
                        f"a request of {length} bytes is outside {SMALLEST_REQUEST} to "
                        f"socket.request.max.bytes={server.socket_request_max_bytes}"
                    )
                    return
                if gate is not None and not gate.takes(length):
                    gate.refuse(length)
                    return
                end = position + 4 + length
                if end > size:
                    need = 4 + length
                    break
                if gate is None:
                    server.on_frame(self, data, position + 4, end)
                else:
                    gate.on_frame(data, position + 4, end)
                if self.transport is None:
                    return
                position = end
        except ValueError as error:  # WireError: only this connection ends
            self.close(str(error))
            return
        except Exception:  # the event loop would close it too, but say so where nobody reads it
            log.exception("connection %d from %s", self.id, self.peer or "?", extra=about(peer=self.peer))
            self.close("its request could not be handled")
            return
        if not self.held and position < size:
            self.gathering.keep(data[position:], need)
        if slots.ready_bytes or self.held or self._read_paused:  # else nothing is to be done: answers come later
            self.flush()
            self._update_reading()

    def _continue(self) -> None:
        if self.held and not self._must_wait():
            held, self.held = self.held, b""
            self._parse(held)
        else:
            self._update_reading()

    def _must_wait(self) -> bool:
        slots = self.slots
        return (
            self._write_paused
            or bool(self._outgoing)
            or self._holds > 0
            or len(slots) >= MAX_OPEN_SLOTS
            or slots.ready_bytes > _READY_BYTES_MAX
        )

    def _update_reading(self) -> None:
        stop = self._write_paused or self._holds > 0 or bool(self.held)
        if self.transport is not None and stop != self._read_paused:
            self._read_paused = stop
            if stop:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def hold(self) -> None:
        """Stop reading until `release`: a shard can take no more from this client, or work for it goes on."""
        self._holds += 1
        self._update_reading()

    @property
    def is_read(self) -> bool:
        """True unless reading has stopped."""
        return not self._read_paused

    def stay_on_hold(self) -> None:
        """After a `hold` in `connection_made`: uvloop begins to read after that, paused or not."""
        if self._read_paused and self.transport is not None:
            self.transport.pause_reading()

    def release(self) -> None:
        """Undo one `hold`."""
        self._holds -= 1
        self._continue()

    # --- answers ---

    def flush(self) -> None:
        """Write the answers whose turn has come, then go on with requests that waited for a free slot."""
        if self.slots.ready_bytes:
            self._write_ready()
        if self.held:
            self._continue()

    def _write_ready(self) -> None:
        out = self.slots.take()
        if not out or self.transport is None:
            return
        if self._outgoing:
            self._outgoing.add(out)
        elif len(out) == 1 and isinstance(out[0], bytes):
            self.transport.write(out[0])
        elif sum(map(len, out)) > LARGE_BYTES:
            self._outgoing.add(out)
            self._write_pieces()
        else:
            self.transport.write(b"".join(cast(list[bytes], out)))  # parts in files are larger

    def _write_on(self) -> None:
        self._write_pieces()
        self._continue()

    def _write_pieces(self) -> None:
        """Write large answers until the socket takes no more or others have waited long enough."""
        left = _TURN_PIECES
        try:
            while self._outgoing and self.transport is not None and not self._write_paused:
                if not left:
                    asyncio.get_running_loop().call_soon(self._write_on)
                    return
                self.transport.writelines(self._outgoing.next_piece())
                left -= 1
        except (LogError, OSError) as error:  # the beginning of the answer has left: only a new connection helps
            self.close(f"an answer cannot be read: {error}")

    @property
    def write_buffer_size(self) -> int:
        """Bytes of answers in memory that the kernel has not taken yet."""
        if self.transport is None:
            return 0
        return self.transport.get_write_buffer_size() + self.slots.ready_bytes + self._outgoing.memory_bytes

    def end(self) -> None:
        """Close once the peer has been sent what was written; nothing more is read."""
        if self.transport is not None:
            self.transport.close()

    def close(self, reason: str = "") -> None:
        """Close at once. A reason is logged, with the peer."""
        if reason:
            self.server.failures.note(self.peer, self.listener, f"closing connection {self.id}: {reason}")
        if self.transport is not None:
            self.transport.abort()
