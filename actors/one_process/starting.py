"""The parent's side of a cluster in a child process: it starts the child, asks it, and ends it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import IO, Final

import actors
from actors.one_process.orders import (
    CODEC,
    LENGTH_BYTES,
    Done,
    Failed,
    Message,
    Order,
    OrderError,
    Ready,
    Start,
    framed,
)

_SOCKET_PATH_MAX: Final = 107 - len("/s/999")
_END_SECONDS: Final = 5.0
_ORDER_SECONDS: Final = 120.0
_SAID_BYTES: Final = 4000
_BOOT: Final = """
import gc, sys
gc.disable()
sys.path[:] = sys.argv[2:]
from actors.one_process.child import main
main(sys.argv[1])
"""
"""What the child runs. It has the parent's path, and so the same code. The collector finds nothing in imports."""


class ClusterProcess:
    """A child process with a cluster. It is there when this is made, and may be asked by any thread."""

    def __init__(self, brokers: int, settings: Mapping[str, str], start_s: float, within: Path | None) -> None:
        """Start it. Its files are in a folder `within`.

        Raises OrderError if it is not ready within `start_s` seconds.
        """
        self.folder = _folder(within or Path(tempfile.gettempdir()))
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it has no name, and ends with us
        self._asking = Lock()
        start = Start(str(self.folder), brokers, os.getpid(), dict(settings))
        self._link, theirs = socket.socketpair()
        with theirs:
            self._process = _started(start, theirs, self._said)
        try:
            self._link.settimeout(start_s)
            self.bootstrap_servers = self._ready()
        except BaseException:
            self.close()
            raise
        self._link.settimeout(_ORDER_SECONDS)

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._process.pid

    def _ready(self) -> str:
        first = self._read()
        if not isinstance(first, Ready):
            raise OrderError(f"the cluster has not started: {first.reason if isinstance(first, Failed) else first}")
        return first.bootstrap_servers

    def ask(self, order: Order) -> str:
        """Have an order carried out. Raises OrderError."""
        with self._asking:
            try:
                self._link.sendall(framed(order))
            except OSError as error:
                raise self._gone() from error
            answer = self._read()
        if isinstance(answer, Failed):
            raise OrderError(answer.reason)
        assert isinstance(answer, Done)
        return answer.text

    def _read(self) -> Message:
        length = int.from_bytes(self._receive(LENGTH_BYTES), "big")
        return CODEC.decode(self._receive(length))

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            try:
                piece = self._link.recv(size - len(received))
            except TimeoutError:
                self._link.close()  # its answer would be taken for another order's
                raise OrderError(f"the cluster does not answer.{self.said()}") from None
            except OSError as error:
                raise self._gone() from error
            if not piece:
                raise self._gone()
            received += piece
        return received

    def _gone(self) -> OrderError:
        return OrderError(f"the cluster's process has ended.{self.said()}")

    def said(self) -> str:
        """The end of what the child has written, for people."""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(size - _SAID_BYTES, 0))
        text = self._said.read().decode(errors="replace").strip()
        return f" It said:\n{text}" if text else ""

    def close(self) -> None:
        """End the child, and remove its files."""
        self._link.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # it has done so, unless it was killed


def _folder(within: Path) -> Path:
    """A path at which there is nothing. Raises OrderError if sockets within would have too long a name."""
    path = within.absolute() / f"coterie-test-{os.getpid()}-{os.urandom(6).hex()}"
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise OrderError(f"{path} is too long for Unix sockets: choose a shorter path, or set TMPDIR to one")
    return path


def _started(start: Start, link: socket.socket, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """The child. It looks for no packages but where we find ours, which saves it what `site` takes."""
    paths = [path or os.getcwd() for path in sys.path]
    paths.append(str(Path(actors.__file__).parents[1]))  # we may have it by other ways
    options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    if sys.pycache_prefix:
        options.append(f"-Xpycache_prefix={sys.pycache_prefix}")
    program = [sys.executable, *options, "-c", _BOOT, CODEC.encode(start).hex(), *paths]
    return subprocess.Popen(program, stdin=link.fileno(), stdout=said, stderr=said)
