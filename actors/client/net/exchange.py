"""Requests and answers over one socket, matched by correlation id. Runs on the event loop.

It knows nothing of versions and sessions: see `connection`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from actors.client.errors import (
    AuthenticationError,
    HungUpError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationError,
    SecurityProtocolError,
)
from actors.client.net.calls import Calls
from actors.client.net.frames import FrameReader
from actors.client.net.transport import NOT_CONNECTED, Transport
from actors.wire.errors import WireError
from actors.wire.framing import encode_request
from actors.wire.messages import ApiMessage, response_class

_MAX_FRAME_BYTES: Final = (1 << 31) - 1
_MAX_EARLY_BYTES: Final = 1 << 20
_EXPECTS_TLS: Final = (
    "the broker expects TLS here: set security_protocol to SASL_SSL, with sasl_mechanism, sasl_plain_username and "
    "sasl_plain_password or sasl_password_file; or to SSL, if clients do not log in"
)
_TLS_ALERT: Final = 0x1503  # the beginning of the alert with which a TLS server answers plain bytes

Lost = Callable[[KafkaError], None]
"""Hears of the end of a connection, and the reason, once."""


class Exchange(asyncio.BufferedProtocol):
    """`call` sends a request and returns a future of its answer. `has_tls`, `logs_in`: how the client is set up.

    When the socket breaks, every open call fails with KafkaConnectionError, and `on_lost` is called once. An answer
    that cannot be read breaks it, too; its call fails with IllegalStateError, as a retry would not help.
    """

    def __init__(self, client_id: str, on_lost: Lost, *, has_tls: bool = False, logs_in: bool = False) -> None:
        self.is_lost = False
        self._client_id = client_id
        self._on_lost = on_lost
        self._has_tls = has_tls
        self._logs_in = logs_in
        self._calls = Calls(self.timed_out)
        self._tokens: deque[asyncio.Future[bytes]] = deque()
        self._frames = FrameReader(self._check, self._take)
        self._transport: Transport = NOT_CONNECTED
        self._last_id = 0
        self._is_trusted = False

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return len(self._calls)

    def trust(self) -> None:
        """The other end is a broker that let this client in: its frames may be large from now on."""
        self._is_trusted = True

    def call(self, request: ApiMessage, version: int, timeout_ms: int) -> asyncio.Future[Any]:
        """Send a request. Raises KafkaConnectionError, as the future does; it also raises KafkaTimeoutError."""
        number = self.send(request, version)
        return self._calls.add(number, response_class(request.api_key), version, timeout_ms)

    def send(self, request: ApiMessage, version: int) -> int:
        """Send a request that is not answered. Returns its correlation id."""
        if self.is_lost:
            raise KafkaConnectionError
        self._last_id = number = (self._last_id + 1) & 0x7FFFFFFF
        self._transport.write(encode_request(request, version, number, self._client_id))
        return number

    async def call_raw(self, token: bytes) -> bytes:
        """The answer to a token of a login that is sent without a header, as after SaslHandshake version 0."""
        if self.is_lost:
            raise KafkaConnectionError
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._transport.write(len(token).to_bytes(4, "big") + token)
        self._tokens.append(answer)
        return await answer

    async def written(self) -> None:
        """Wait until all that was sent is with the operating system. Raises KafkaConnectionError if it breaks."""
        while not self.is_lost:
            if not self._transport.get_write_buffer_size():
                return
            await asyncio.sleep(0.001)
        raise KafkaConnectionError

    async def all_answered(self) -> None:
        """Wait until no call is open. Raises the error by which calls fail."""
        await self._calls.all_answered()

    def timed_out(self, name: str, timeout_ms: int) -> None:
        """A request was not answered in time. Answers come in order: all later ones would wait just as long."""
        self.close(KafkaConnectionError(f"the broker did not answer {name} within {timeout_ms} ms"))

    def close(self, error: KafkaError | None = None) -> None:
        """Close the socket; open calls fail with `error`."""
        self._transport.abort()
        self._end(error or KafkaConnectionError("the connection was closed"))

    def _end(self, error: KafkaError) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        for token in self._tokens:
            if not token.done():
                token.set_exception(type(error)(str(error)))
        self._calls.fail(error)
        self._on_lost(error)

    # --- called by asyncio ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, AuthenticationError):
            self._end(exc)
            return
        if self._tokens:
            self._end(SaslAuthenticationError("the broker hung up in the login: user or password may be wrong"))
            return
        text = f"the broker closed the connection{f': {exc}' if exc else ''}"
        hint = self._hint()
        self._end(HungUpError(f"{text}{hint}") if hint else KafkaConnectionError(text))

    def _hint(self) -> str:
        """A guess at the reason if a broker that has answered once at most hangs up on a connection without a login."""
        answered = self._last_id - len(self._calls)
        if not self._calls or answered > 1 or self._logs_in:
            return ""
        if not answered and self._has_tls:
            return ""  # it has TLS, and its alert, which says why, may be lost with the connection
        what = "a login (security_protocol=SASL_SSL or SASL_PLAINTEXT)" if answered else "TLS (security_protocol=SSL)"
        return f" at the first request; it may expect {what}"

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer to read into (asyncio.BufferedProtocol)."""
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_lost:
            return
        try:
            self._frames.received(nbytes)
        except SecurityProtocolError as error:
            self.close(error)
        except (KafkaError, WireError) as error:
            self.close(KafkaConnectionError(f"the broker's answer cannot be read: {error}"))

    def _check(self, size: int) -> None:
        """Raise an error if a frame cannot have this size. Before the login is done the other end may be anybody."""
        if self._is_trusted:
            if size > _MAX_FRAME_BYTES or size < 4:
                raise WireError(f"a frame of {size} bytes")
        elif size >> 16 == _TLS_ALERT:
            raise SecurityProtocolError(_EXPECTS_TLS)
        elif size > _MAX_EARLY_BYTES or (size < 4 and not self._tokens):
            raise WireError(f"a frame of {size} bytes")

    def _take(self, frame: bytes) -> None:
        if self._tokens:
            token = self._tokens.popleft()
            if not token.done():
                token.set_result(frame)
            return
        self._calls.answer(frame)
