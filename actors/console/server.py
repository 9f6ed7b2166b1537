"""Serves a console in the loop that runs: in the command's own process, or in the Monitor's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import uvicorn

from actors import OutsideError
from actors.console.app import Options, make_app
from actors.console.entrance import Entrance
from actors.runtime.environment import REAL, Environment
from actors.security.acl import is_loopback

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9080
_CONNECTIONS: Final = 256
_GRACE_S: Final = 1


class ConsoleError(OutsideError):
    """The console cannot be served so. The text says what would help."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where it listens. Port 0: any free one."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure: bool = False
    """Whether other machines may look at it though nobody is asked who he is, or passwords travel in the clear."""

    @property
    def scheme(self) -> str:
        """Http or https."""
        return "http" if self.certfile is None else "https"


class _Server(uvicorn.Server):
    """A server that leaves signals to the process it is in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Served:
    """A console that is served. Its socket listens from the beginning."""

    def __init__(self, server: uvicorn.Server, listening: socket.socket, address: str, closing: asyncio.Event) -> None:
        self._server = server
        self._socket = listening
        self._closing = closing
        self.address = address
        """What to open in a browser."""

    async def run(self) -> None:
        """Answer until `stop`, or until cancelled: then nothing is listened to any more, and streams end."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._closing.set()
            for listener in self._server.servers:
                listener.close()
            self._socket.close()

    def stop(self) -> None:
        """Have `run` end soon."""
        self._closing.set()
        self._server.should_exit = True


def served(entrance: Entrance, options: Options, place: Place, environment: Environment = REAL) -> Served:
    """A console at a place. Raises ConsoleError if it cannot listen there, or should not."""
    _refuse_open(entrance, place)
    listening = _listen(place)
    port = listening.getsockname()[1]
    app = make_app(entrance, replace(options, port=port, encrypted=place.certfile is not None), environment)
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=place.certfile,
        ssl_keyfile=place.keyfile,
    )
    try:
        config.load()
    except OSError as error:  # ssl's errors are such, too
        listening.close()
        raise ConsoleError(f"the certificate {place.certfile} cannot be used: {error}") from error
    host = f"[{place.host}]" if ":" in place.host else place.host
    return Served(_Server(config), listening, f"{place.scheme}://{host}:{port}/", app.state.closing)


def _refuse_open(entrance: Entrance, place: Place) -> None:
    if place.insecure or is_loopback(place.host):
        return
    if entrance.anybody is not None:
        raise ConsoleError(
            f"nobody is asked who he is, so all who reach {place.host} could look at this cluster: start it with "
            "security, or say --insecure"
        )
    if place.certfile is None:
        raise ConsoleError("passwords would travel in the clear: give --certificate and --key, or say --insecure")


def _listen(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server((place.host, place.port), family=family)
    except OSError as error:
        text = error.strerror or error
        raise ConsoleError(f"the console cannot listen at {place.host}:{place.port}: {text}") from error
