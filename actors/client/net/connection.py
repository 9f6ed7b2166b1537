"""One connection to a broker: sends requests and matches answers by correlation id. Runs on the event loop.

`access` makes it, in TLS or plain, and `login` proves who the client is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from actors.client.errors import (
    AuthenticationError,
    CorrelationIdError,
    HungUpError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationError,
    SecurityProtocolError,
)
from actors.client.net.access import Access
from actors.client.net.versions import Ranges, choose_version
from actors.wire.errors import ErrorCode, WireError
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, ApiVersionsRequest, ApiVersionsResponse, response_class

_BUFFER_BYTES = 64 << 10
_MAX_FRAME_BYTES = (1 << 31) - 1
# The first request; a broker that lacks this version answers UNSUPPORTED_VERSION in version 0, with those it has.
_API_VERSIONS = 3
_STALE = "the login of this connection has to be renewed first"
_MAX_EARLY_BYTES = 1 << 20
_EXPECTS_TLS = (
    "the broker expects TLS here: set security_protocol to SASL_SSL, with sasl_mechanism, sasl_plain_username and "
    "sasl_plain_password or sasl_password_file; or to SSL, if clients do not log in"
)
_TLS_ALERT = 0x1503  # the beginning of the alert with which a TLS server answers plain bytes


class _Wire(Protocol):
    """The part of a transport that a connection needs."""

    def write(self, data: bytes) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def abort(self) -> None: ...


@dataclass(slots=True)
class _Call:
    future: asyncio.Future[Any]
    response: type[ApiMessage]
    version: int
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class Connection(asyncio.BufferedProtocol):
    """A connection to one broker. After `open`, `call` sends a request and returns a future of its answer.

    When the connection breaks, every open call fails with KafkaConnectionError, and `on_lost` is called once. An
    answer that cannot be read breaks it, too; its call fails with IllegalStateError, as a retry would not help.

    A login that ends after a while (KIP-368) makes the connection `stale`, and `renew` makes it usable again.
    """

    client_id: str
    on_lost: Callable[[Connection, KafkaError], None]
    versions: Ranges = field(default_factory=dict)
    stale: bool = False
    _access: Access | None = None
    _timeout_ms: int = 0
    _ready: bool = False
    _expiry: asyncio.TimerHandle | None = None
    _idle: asyncio.Future[None] | None = None
    _raw: asyncio.Future[bytes] | None = None
    _calls: dict[int, _Call] = field(default_factory=dict)
    _transport: _Wire | None = None
    _last_id: int = 0
    _lost: bool = False
    _small: bytearray = field(default_factory=lambda: bytearray(_BUFFER_BYTES))
    _small_end: int = 0
    _big: bytearray | None = None
    _big_end: int = 0

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    @property
    def usable(self) -> bool:
        return self._ready and not self._lost and not self.stale

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str,
        on_lost: Callable[[Connection, KafkaError], None],
        timeout_ms: int,
        access: Access | None = None,
    ) -> Connection:
        """Connect, ask for the versions that the broker serves, and log in. Without `access`: plain, and no login.

        Raises KafkaConnectionError, AuthenticationError.
        """
        loop = asyncio.get_running_loop()

        def make() -> Connection:
            return cls(client_id, on_lost, _access=access, _timeout_ms=timeout_ms)

        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if access is None:
                    _, connection = await loop.create_connection(make, host, port)
                else:
                    connection = await access.connect(make, host, port)
                try:
                    await connection._negotiate(timeout_ms)
                    await connection._log_in()
                except BaseException:  # cancelled, too: the connection would stay open
                    connection.close()
                    raise
                return connection
        except TimeoutError as error:
            raise KafkaConnectionError(f"no connection to {host}:{port} within {timeout_ms} ms") from error
        except AuthenticationError as error:
            raise type(error)(f"{host}:{port}: {error}") from error
        except HungUpError as error:
            raise error if f"{host}:{port}" in str(error) else HungUpError(f"{host}:{port}: {error}") from error
        except (OSError, ValueError, IllegalStateError) as error:
            raise KafkaConnectionError(f"cannot connect to {host}:{port}: {error}") from error

    async def _negotiate(self, timeout_ms: int) -> None:
        ask = ApiVersionsRequest(client_software_name="coterie", client_software_version="0.1.0")
        answer = await self._call(ask, _API_VERSIONS, timeout_ms)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._call(ask, 0, timeout_ms)
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    # --- the login ----------------------------------------------------------------------------------------------------

    async def _log_in(self) -> None:
        access = self._access
        if access is not None and access.login is not None:
            lifetime_ms = await access.login.log_in(self)
            if lifetime_ms:
                delay = access.renew_after_ms(lifetime_ms) / 1000
                self._expiry = asyncio.get_running_loop().call_later(delay, self._expire)
        self._ready = True

    def _expire(self) -> None:
        self.stale = True

    async def renew(self) -> None:
        """Log in again, once all answers have come. If that fails, it raises and the connection is closed."""
        try:
            if self._calls:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self._log_in()
        except (TimeoutError, IllegalStateError) as error:
            self.close()
            raise KafkaConnectionError(f"the login could not be renewed: {str(error) or 'no answer'}") from error
        except KafkaError as error:
            self.close(error)
            raise
        except BaseException:  # cancelled, too: the login is half done
            self.close()
            raise
        self.stale = False

    async def ask(self, request: ApiMessage, version: int) -> Any:
        """Ask in the course of a login."""
        return await self._call(request, version, self._timeout_ms)

    async def ask_raw(self, token: bytes) -> bytes:
        """Send a token of a login without a header, as after SaslHandshake version 0."""
        if self._transport is None or self._lost:
            raise KafkaConnectionError
        self._raw = asyncio.get_running_loop().create_future()
        self._transport.write(len(token).to_bytes(4, "big") + token)
        try:
            return await self._raw
        finally:
            self._raw = None

    # --- requests -----------------------------------------------------------------------------------------------------

    def call(
        self, request: ApiMessage, timeout_ms: int, min_version: int = 0, *, max_version: int | None = None
    ) -> asyncio.Future[Any]:
        """Send `request` in the highest common version. Raises UnsupportedVersionError, KafkaConnectionError."""
        if self.stale:
            raise KafkaConnectionError(_STALE)
        version = choose_version(type(request), self.versions, min_version, max_version)
        return self._call(request, version, timeout_ms)

    def tell(self, request: ApiMessage, min_version: int = 0) -> None:
        """Send a request that is not answered (Produce with acks=0)."""
        if self.stale:
            raise KafkaConnectionError(_STALE)
        self._write(request, choose_version(type(request), self.versions, min_version))

    async def written(self) -> None:
        """Wait until what `tell` has sent is with the operating system. Raises KafkaConnectionError if it breaks."""
        while not self._lost and self._transport is not None:
            if not self._transport.get_write_buffer_size():
                return
            await asyncio.sleep(0.001)
        raise KafkaConnectionError

    def _call(self, request: ApiMessage, version: int, timeout_ms: int) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        number = self._write(request, version)
        call = _Call(future, response_class(request.api_key), version)
        call.timer = loop.call_later(timeout_ms / 1000, self._timed_out, number, timeout_ms)
        self._calls[number] = call
        return future

    def _write(self, request: ApiMessage, version: int) -> int:
        if self._transport is None or self._lost:
            raise KafkaConnectionError
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        self._transport.write(encode_request(request, version, self._last_id, self.client_id))
        return self._last_id

    def _timed_out(self, number: int, timeout_ms: int) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        name = call.response.__name__.removesuffix("Response")
        if not call.future.done():
            call.future.set_exception(KafkaTimeoutError(f"{name} was not answered within {timeout_ms} ms"))
        # Answers come in order, so that all later requests would wait just as long.
        self.close(KafkaConnectionError(f"the broker did not answer {name} within {timeout_ms} ms"))

    def close(self, error: KafkaError | None = None) -> None:
        """Close the connection; open calls fail with `error`."""
        if self._transport is not None:
            self._transport.abort()
        self._end(error or KafkaConnectionError("the connection was closed"))

    def _end(self, error: KafkaError) -> None:
        if self._lost:
            return
        self._lost = True
        if self._expiry is not None:
            self._expiry.cancel()
        for waiting in (self._idle, self._raw):
            if waiting is not None and not waiting.done():
                waiting.set_exception(type(error)(str(error)))
        calls, self._calls = self._calls, {}
        for call in calls.values():
            if call.timer is not None:
                call.timer.cancel()
            if not call.future.done():
                call.future.set_exception(type(error)(str(error)))
        self.on_lost(self, error)

    # --- called by asyncio ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(_Wire, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, AuthenticationError):
            self._end(exc)
            return
        if self._raw is not None:
            self._end(SaslAuthenticationError("the broker hung up in the login: user or password may be wrong"))
            return
        text = f"the broker closed the connection{f': {exc}' if exc else ''}"
        hint = self._hint()
        self._end(HungUpError(f"{text}{hint}") if hint else KafkaConnectionError(text))

    def _hint(self) -> str:
        """A guess at the reason if a broker that has answered once at most hangs up on a connection without a login."""
        answered = self._last_id - len(self._calls)
        if not self._calls or answered > 1 or (self._access is not None and self._access.login is not None):
            return ""
        if not answered and self._access is not None and self._access.has_tls:
            return ""  # it has TLS, and its alert, which says why, may be lost with the connection
        what = "a login (security_protocol=SASL_SSL or SASL_PLAINTEXT)" if answered else "TLS (security_protocol=SSL)"
        return f" at the first request; it may expect {what}"

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer to read into (asyncio.BufferedProtocol); a large frame has one of its own size."""
        if self._big is not None:
            return memoryview(self._big)[self._big_end :]
        return memoryview(self._small)[self._small_end :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._big is None:
                self._small_end += nbytes
                self._take_frames()
                return
            self._big_end += nbytes
            if self._big_end == len(self._big):
                frame, self._big = bytes(self._big), None
                self._on_frame(frame)
        except SecurityProtocolError as error:
            self.close(error)
        except (KafkaError, WireError) as error:
            self.close(KafkaConnectionError(f"the broker's answer cannot be read: {error}"))

    def _take_frames(self) -> None:
        small, start, end = self._small, 0, self._small_end
        while end - start >= 4 and not self._lost:
            size = int.from_bytes(small[start : start + 4], "big")
            if not self._ready:
                self._check_early(size)
            elif size > _MAX_FRAME_BYTES or size < 4:
                raise WireError(f"a frame of {size} bytes")
            begin, stop = start + 4, start + 4 + size
            if stop > end:
                if size + 4 > len(small):
                    self._big = bytearray(size)
                    self._big_end = end - begin
                    self._big[: self._big_end] = small[begin:end]
                    start = end
                break
            self._on_frame(bytes(small[begin:stop]))
            start = stop
        small[: end - start] = small[start:end]
        self._small_end = end - start

    def _check_early(self, size: int) -> None:
        """Before the login is done the other end may be anybody."""
        if size >> 16 == _TLS_ALERT:
            raise SecurityProtocolError(_EXPECTS_TLS)
        if size > _MAX_EARLY_BYTES or (size < 4 and self._raw is None):
            raise WireError(f"a frame of {size} bytes")

    def _on_frame(self, frame: bytes) -> None:
        if self._raw is not None and not self._raw.done():
            self._raw.set_result(frame)
            return
        number = int.from_bytes(frame[:4], "big", signed=True)
        call = self._calls.pop(number, None)
        if call is None:
            raise CorrelationIdError(f"an answer to request {number}, which is not in flight")
        if call.timer is not None:
            call.timer.cancel()
        if call.future.done():
            return
        try:
            call.future.set_result(_decode(call, frame))
        except Exception as error:  # of a bug, too: this call is noted no more, so nobody else ends it
            name = call.response.__name__.removesuffix("Response")
            call.future.set_exception(IllegalStateError(f"the broker's answer to {name} cannot be read: {error!r}"))
            raise WireError(f"{name}: {error!r}") from error
        if self._idle is not None and not self._calls:
            self._idle.set_result(None)
            self._idle = None


def _decode(call: _Call, frame: bytes) -> ApiMessage:
    version = call.version
    unsupported = frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    if call.response is ApiVersionsResponse and unsupported:
        version = 0
    return decode_response(call.response, version, frame)[1]
