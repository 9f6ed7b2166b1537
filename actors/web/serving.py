"""Serves an ASGI app in the loop that runs, behind bounds and deadlines (`callers`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from actors.web.callers import Bounds, Callers
from actors.web.proxies import NO_PROXIES, Proxies

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from actors.links.tls_transport import TlsTransport

_GRACE_S: Final = 1
_UNFINISHED: Final = (h11.IDLE, h11.SEND_BODY)


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files: the certificate, and its key unless that is in the same file."""

    certfile: Path
    keyfile: Path | None = None


class Conversation(H11Protocol):
    """One connection, which tells the callers whether its request is whole and its answer is read."""

    def __init__(self, callers: Callers, **given: Any) -> None:
        super().__init__(**given)
        self.logger = cast(logging.Logger, callers.errors)
        self._callers = callers
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.peer = self.client[0] if self.client else ""
        if transport.get_extra_info("ssl_object") is not None:
            self.scheme = "https"
        if not self._callers.came(self):
            self.close()

    def close(self, reason: str = "") -> None:
        """End it at once, whatever waits to be sent."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        super().data_received(data)
        self._look()

    def send_400_response(self, msg: str) -> None:
        """The bytes that came are no HTTP."""
        self._callers.nonsense(self)
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """A request is answered: the next one has its own time."""
        self._callers.asks(self)
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        if self.conn.their_state in _UNFINISHED:
            self._callers.waits(self)
        else:
            self._callers.asks(self)

    def pause_writing(self) -> None:
        """The other end does not read."""
        super().pause_writing()
        self._callers.clogged(self)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._callers.flows(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._callers.gone(self)
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """A server that leaves signals to the process it is in."""

    def __init__(self, config: uvicorn.Config, callers: Callers) -> None:
        super().__init__(config)
        self._callers = callers

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. An accepted connection counts from then on, and not only after its TLS handshake."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise OSError("the app does not begin")
        loop = asyncio.get_running_loop()
        self.servers = [await loop.create_server(self._accepted, sock=each) for each in sockets or ()]
        self.started = True

    def _accepted(self) -> asyncio.BaseProtocol:
        made = Conversation(
            self._callers, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        if self.config.ssl is None:
            return made
        from actors.links.tls_transport import TlsTransport  # only for TLS

        return TlsTransport(self.config.ssl, made, self)

    def secured(self, transport: TlsTransport) -> bool:
        """A handshake is done."""
        return True

    def failed(self, transport: TlsTransport, why: str) -> None:
        """A handshake has failed."""
        self._callers.failures.note(cast(Conversation, transport.app).peer, "https", f"TLS handshake failed: {why}")

    async def on_tick(self, counter: int) -> bool:
        """Look at the deadlines, ten times a second."""
        self._callers.tick()
        return await super().on_tick(counter)


class Served:
    """An app that is served. Its socket listens from the beginning."""

    def __init__(self, server: _Server, listening: socket.socket, ending: Callable[[], None]) -> None:
        self._server = server
        self._socket = listening
        self._ending = ending
        self.port = int(listening.getsockname()[1])

    async def run(self) -> None:
        """Answer until `stop`, or until cancelled: then nothing is listened to any more, and streams end."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self.close()

    def close(self) -> None:
        """Listen no more, also if nothing has run yet. May be called twice."""
        self._ending()
        for listener in getattr(self._server, "servers", ()):
            listener.close()
        self._socket.close()

    def stop(self) -> None:
        """Have `run` end soon."""
        self._ending()
        self._server.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def serve(
    app: ASGIApp,
    listening: socket.socket,
    name: str,
    bounds: Bounds,
    clock: Callable[[], float],
    *,
    proxies: Proxies = NO_PROXIES,
    certificate: Certificate | None = None,
    ending: Callable[[], None] = lambda: None,
) -> Served:
    """An app on a socket. `ending` is called when it ends. Raises OSError if the certificate cannot be used."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=None if certificate is None else certificate.certfile,
        ssl_keyfile=None if certificate is None else certificate.keyfile,
    )
    config.load()
    return Served(_Server(config, Callers(name, bounds, clock, proxies)), listening, ending)
