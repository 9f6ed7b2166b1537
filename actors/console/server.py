"""Serves a console in the loop that runs: in the command's own process, or in the Monitor's."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from actors import OutsideError
from actors.console.app import Options, make_app
from actors.console.entrance import Entrance
from actors.runtime.environment import REAL, Environment
from actors.security.acl import is_loopback
from actors.web.callers import Bounds
from actors.web.proxies import Proxies
from actors.web.serving import Certificate, Served, listen, serve

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9080
BOUNDS: Final = Bounds(of_address=64, at_all=512, silent=256)
"""An open page has a connection for what changes on it, and each click another one."""


class ConsoleError(OutsideError):
    """The console cannot be served so. The text says what would help."""


@dataclass(frozen=True, slots=True)
class Place:
    """The address that it listens on. Port 0: any free one."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure: bool = False
    """True if other machines may look at it though nobody is asked for a login, or passwords travel in the clear."""

    @property
    def scheme(self) -> str:
        """Http or https."""
        return "http" if self.certfile is None else "https"


class Console:
    """A console that is served. Its socket listens from the beginning."""

    def __init__(self, served: Served, address: str, close: Callable[[], Awaitable[None]]) -> None:
        """`close` ends all visits."""
        self._served = served
        self._close = close
        self.address = address
        """The address to open in a browser."""

    async def run(self) -> None:
        """Answer until `stop`, or until cancelled. Then all visits are over, and what they had open is closed."""
        try:
            await self._served.run()
        finally:
            await self._close()

    def stop(self) -> None:
        """Have `run` end soon."""
        self._served.stop()


def served(entrance: Entrance, options: Options, place: Place, environment: Environment = REAL) -> Console:
    """A console at a place. Raises ConsoleError if it cannot listen there, or should not.

    Whoever has the entrance closes it then (`entrance.shut`), as after `run`.
    """
    _refuse_open(entrance, place)
    listening = _listen(place)
    port = listening.getsockname()[1]
    certificate = None if place.certfile is None else Certificate(place.certfile, place.keyfile)
    app = make_app(entrance, replace(options, port=port, encrypted=certificate is not None), environment)
    try:
        made = serve(
            app,
            listening,
            "the console",
            BOUNDS,
            environment.clock.monotonic,
            proxies=Proxies(options.proxies),
            certificate=certificate,
            ending=app.state.closing.set,
        )
    except OSError as error:  # ssl's errors are such, too
        listening.close()
        raise ConsoleError(f"the certificate {place.certfile} cannot be used: {error}") from error
    host = f"[{place.host}]" if ":" in place.host else place.host
    return Console(made, f"{place.scheme}://{host}:{port}/", app.state.close)


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
    try:
        return listen(place.host, place.port)
    except OSError as error:
        text = error.strerror or error
        raise ConsoleError(f"the console cannot listen at {place.host}:{place.port}: {text}") from error
