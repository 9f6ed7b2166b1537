"""The public keys by which a listener verifies tokens: from a file or an https address, read in a thread.

They are read anew from time to time, and when a token names one that is not there. Keys that cannot be read leave those
in force that are there.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from actors.broker.spec import StartError
from actors.security.jwks import Keys, read_keys
from actors.settings import ListenerConfig

log = logging.getLogger(__name__)

_SIZE_MAX: Final = 1 << 20
SECONDS: Final = 5.0
"""The longest time that a reading may take."""
_UNKNOWN_SECONDS: Final = 60.0
"""A key that nobody knows has all keys read once within this."""
_TROUBLES: Final = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals at which keys are read, and read again if that has failed."""

    refresh_seconds: float
    backoff_seconds: float
    backoff_max_seconds: float

    @classmethod
    def of(cls, config: ListenerConfig) -> Pace:
        """The pace that the settings give."""
        return cls(
            config.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
            config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
            config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
        )

    def pause(self, failures: int) -> float:
        """The wait after so many failures in a row."""
        if not failures:
            return self.refresh_seconds
        return float(min(self.backoff_max_seconds, self.backoff_seconds * 2 ** min(failures - 1, 32)))


class Read(Protocol):
    """One reading, in a thread."""

    def read(self) -> bytes:
        """The document. Blocks. Raises OSError, HTTPException, ValueError."""

    def abort(self) -> None:
        """Nobody waits for it any more. Called from another thread."""


class KeySource:
    """The keys of one listener. `begin` makes one reading, which is given up after `patience_s`."""

    def __init__(
        self,
        listener: str,
        url: str,
        begin: Callable[[], Read],
        pace: Pace,
        loop: asyncio.AbstractEventLoop,
        patience_s: float = SECONDS,
    ) -> None:
        self._local = url.startswith("file:")
        self.keys: Keys = {}
        """The keys in force; none before the first reading."""
        self._name = f"listener {listener}: the keys of {url}"
        self._begin = begin
        self._pace = pace
        self._loop = loop
        self._patience_s = patience_s
        self._thread = ThreadPoolExecutor(1, "token-keys")
        self._failures = 0
        self._reading: asyncio.Task[None] | None = None
        self.follower: asyncio.Task[None] | None = None
        """Reads the keys again and again, once the source is open."""
        self._sought = -_UNKNOWN_SECONDS

    @classmethod
    def of(cls, listener: str, config: ListenerConfig, loop: asyncio.AbstractEventLoop) -> KeySource:
        """The key source that the settings of a listener's OAUTHBEARER give."""
        url = config.text("sasl.oauthbearer.jwks.endpoint.url") or ""
        parts = urlsplit(url)
        ca_file = config.text("coterie.oauthbearer.jwks.ca.file")

        def begin() -> Read:
            return FileRead(Path(unquote(parts.path))) if parts.scheme == "file" else HttpsRead(url, ca_file)

        return cls(listener, parts._replace(query="").geturl(), begin, Pace.of(config), loop)

    async def open(self) -> None:
        """Read a file, and raise StartError if it will not do; an https address is read from now on, without waiting.

        Keys that cannot be had by https are logged, and tried again: nobody can log in until then.
        """
        if self._local:
            try:
                await self._take()
            except _TROUBLES as error:
                raise StartError(f"{self._name} cannot be used: {error}") from None
        self.follower = self._loop.create_task(self._follow())

    def close(self) -> None:
        """Read no more."""
        for task in (self.follower, self._reading):
            if task is not None:
                task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def look_for_unknown(self) -> None:
        """A token has named a key that is not there: read them, unless that was done for another one a moment ago."""
        if self._reading is None:
            now = self._loop.time()
            if now - self._sought < _UNKNOWN_SECONDS:
                return
            self._sought = now
        await self.read()

    async def _follow(self) -> None:
        if not self._local:
            await self.read()
        while True:
            await asyncio.sleep(self._pace.pause(self._failures))
            await self.read()

    async def read(self) -> None:
        """Read the keys, or wait for the reading that is under way."""
        if self._reading is None:
            self._reading = self._loop.create_task(self._try())
        await asyncio.shield(self._reading)

    async def _try(self) -> None:
        try:
            await self._take()
        except Exception as error:  # whatever it is: it is tried again
            self._failed(error)
        finally:
            self._reading = None

    async def _take(self) -> None:
        reading = self._begin()
        try:
            async with asyncio.timeout(self._patience_s):
                self.keys = await self._loop.run_in_executor(self._thread, _keys_of, reading)
        except TimeoutError:
            raise TimeoutError(f"it took longer than {self._patience_s:.0f} s") from None
        finally:
            reading.abort()
        if self._failures:
            self._failures = 0
            log.info("%s have been read again", self._name)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            go_on = "those from before stay in force" if self.keys else "nobody can log in by OAUTHBEARER until then"
            log.warning("%s cannot be read, which is tried again: %s; %s", self._name, error or repr(error), go_on)


def _keys_of(reading: Read) -> Keys:
    return read_keys(reading.read())


def _limited(data: bytes) -> bytes:
    if len(data) > _SIZE_MAX:
        raise ValueError(f"it has more than {_SIZE_MAX} bytes")
    return data


class FileRead:
    """A file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        """The content of the file."""
        with self._path.open("rb") as file:
            return _limited(file.read(_SIZE_MAX + 1))

    def abort(self) -> None:
        """A file is not waited for."""


class HttpsRead:
    """One GET by https. The server's certificate has to be for the host, and of an authority in `ca_file`.

    Each step of it may take `patience_s`.
    """

    def __init__(self, url: str, ca_file: str | None, patience_s: float = SECONDS) -> None:
        self._url = urlsplit(url)
        self._ca_file = ca_file
        self._patience_s = patience_s
        self._socket: socket.socket | None = None
        self._given_up = False

    def read(self) -> bytes:
        """The document. Anything but status 200 is an error, a redirect as well."""
        context = ssl.create_default_context(cafile=self._ca_file)
        host = self._url.hostname or ""
        connection = http.client.HTTPSConnection(host, self._url.port, timeout=self._patience_s, context=context)
        try:
            connection.connect()
            self._socket = connection.sock
            if self._given_up:
                raise TimeoutError
            query = f"?{self._url.query}" if self._url.query else ""
            connection.request("GET", f"{self._url.path or '/'}{query}", headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise OSError(f"HTTP status {answer.status}")
            return _limited(answer.read(_SIZE_MAX + 1))
        finally:
            connection.close()

    def abort(self) -> None:
        """Wake the thread up, if it still reads."""
        self._given_up = True
        if (sock := self._socket) is not None:
            with suppress(OSError):  # it is closed, mostly
                sock.shutdown(socket.SHUT_RDWR)
