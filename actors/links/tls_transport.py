"""TLS on an accepted connection: bytes from and to the socket on one side, its protocol's own bytes on the other.

It is the protocol's transport from accept on, so that a connection counts while it shakes hands; data comes once that
is done. uvloop has TLS too, but tells of a connection after the handshake, reads on while reading is paused, and lets a
failing handshake end without the alert that tells the client why.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from actors.security.tls_memory import TlsMemory

_RECORD_BYTES: Final = 1 << 14  # the most that one read of the library gives
_BUFFER: Final = memoryview(bytearray(1 << 18))  # of all connections: what is read into it is taken out at once
_PLAIN: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "RECORD_LAYER_FAILURE")

_ALERT: Final = bytes.fromhex("15 0303 0002 02 46")
"""Fatal, protocol version. The library sends none to who does not speak TLS; clients know the broker by it."""


class Watch(Protocol):
    """The observer of a handshake, who is told how it ends."""

    def secured(self, transport: TlsTransport) -> bool:
        """It is done. False if the peer is not welcome: the connection ends."""

    def failed(self, transport: TlsTransport, why: str) -> None:
        """It has failed, and the connection ends. A peer that has sent nothing at all is not told of."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The server's end. To the socket it is a protocol, to `app` it is a transport.

    Everything that has arrived is decrypted at once, and everything written is encrypted at once: what waits, waits in
    the socket's transport, whose limits and pauses therefore hold as without TLS.
    """

    def __init__(self, context: ssl.SSLContext, app: asyncio.Protocol, watch: Watch) -> None:
        super().__init__()
        self.app = app
        self._watch = watch
        self._memory = memory = TlsMemory(context, accepts=True)
        self._incoming, self._outgoing, self._tls = memory.incoming, memory.outgoing, memory.tls
        self._encrypt = memory.encrypt
        self._raw: asyncio.Transport | None = None
        self._heard = False  # anything at all
        self._paused = False
        self._open = False  # after the handshake, until either end closes
        self._closing = False

    @property
    def certificate(self) -> bytes | None:
        """The peer's verified certificate in DER; None if it showed none."""
        return self._tls.getpeercert(binary_form=True)

    # --- the socket's side: asyncio.BufferedProtocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self.app.connection_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(_BUFFER[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Take what has been read, here or by who had the socket before."""
        if self._closing:
            return
        self._heard = True
        self._incoming.write(data)
        if self._open:
            self._read()
        elif not self._paused:  # uvloop reads once after connection_made, even if it was paused there
            self._begin()

    def eof_received(self) -> None:
        """Without the other end's farewell, as Kafka clients do. The socket's transport closes itself."""
        self._ended("the peer hung up during the handshake")

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended("the connection broke during the handshake")
        self._raw = None
        self.app.connection_lost(exc)

    def pause_writing(self) -> None:
        self.app.pause_writing()

    def resume_writing(self) -> None:
        self.app.resume_writing()

    # --- the handshake ---

    def _begin(self) -> None:
        if self._shake():
            self._read()

    def _shake(self) -> bool:
        try:
            done = self._memory.shake_hands()
        except ssl.SSLError as error:
            if getattr(error, "reason", None) in _PLAIN and not self._outgoing.pending:
                self._outgoing.write(_ALERT)
            self._end(_reason(error))
            return False
        self._send()
        self._open = done
        if done and not self._watch.secured(self):
            self.abort()
        return self._open

    def _ended(self, why: str) -> None:
        if not self._open and not self._closing and self._heard:
            self._watch.failed(self, why)
        self._open, self._closing = False, True

    def _end(self, why: str) -> None:
        """Close after the alert, if there is one, has been sent."""
        self._send()
        self._ended(why)
        if self._raw is not None:
            self._raw.close()

    # --- data ---

    def _read(self) -> None:
        chunks: list[bytes] = []
        ended = False
        try:
            while self._open and (self._incoming.pending or self._tls.pending()):
                chunk = self._tls.read(_RECORD_BYTES)
                if not chunk:
                    ended = True
                    break
                chunks.append(chunk)
                if len(chunk) == _RECORD_BYTES:  # a part of something large, which joins its parts itself
                    self._deliver(chunks)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._end(_reason(error))
            return
        if self._outgoing.pending:
            self._send()
        self._deliver(chunks)
        if ended:
            self.close()

    def _deliver(self, chunks: list[bytes]) -> None:
        if chunks and self._open:
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            chunks.clear()
            self.app.data_received(data)

    def _send(self) -> None:
        data = self._outgoing.read()
        if data and self._raw is not None:
            self._raw.write(data)

    # --- the connection's side: asyncio.Transport ---

    def write(self, data: Any) -> None:
        if self._open:
            try:
                self._encrypt(data)
            except ssl.SSLError:
                self.abort()
            else:
                self._send()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self._open:
            try:
                for data in list_of_data:
                    self._encrypt(data)
            except ssl.SSLError:
                self.abort()
            else:
                self._send()

    def pause_reading(self) -> None:
        self._paused = True
        if self._raw is not None and not self._closing:
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._raw is not None and not self._closing:
            self._raw.resume_reading()
            if not self._open and self._incoming.pending:
                self._begin()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._raw is not None:
            self._raw.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._tls
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close once what was written is sent, with TLS's farewell."""
        if self._open:
            with suppress(ssl.SSLError):  # the peer's farewell is not waited for
                self._tls.unwrap()
            self._send()
        self._open, self._closing = False, True
        if self._raw is not None:
            self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        self._open, self._closing = False, True
        if self._raw is not None:
            self._raw.abort()


def _reason(error: ssl.SSLError) -> str:
    reason = getattr(error, "reason", None) or str(error.args[-1])
    if reason in _PLAIN:
        return "no TLS: the client may need security.protocol SSL or SASL_SSL"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    return reason.lower().replace("_", " ")
