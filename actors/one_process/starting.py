"""The parent's side of a cluster in a child process: it starts the child, asks it, and ends it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from threading import Lock
from typing import IO, Final

import actors
from actors.one_process.orders import (
    CODEC,
    PACKET_BYTES,
    Done,
    Failed,
    Message,
    Order,
    OrderError,
    Ready,
    Start,
    packed,
    parted,
)

_SOCKET_PATH_MAX: Final = 107 - len("/s/999")
_END_SECONDS: Final = 5.0
_STATUS_SECONDS: Final = 1.0
_LATER_SECONDS: Final = 10.0
"""The time for which the parent waits longer for a start than the child, which knows what it waits for."""
_ORDER_SECONDS: Final = 120.0
_SAID_BYTES: Final = 4000
_BOOT: Final = """
import gc, sys
gc.disable()
sys.path += [path for path in sys.argv[3:] if path not in sys.path]
from actors.one_process.child import main
main(*sys.argv[1:3])
"""
"""The program of the child. It has the parent's path, and so the same code, but the standard library's folders come
first: a test has modules beside it, whose names may be anything. The collector finds nothing in imports."""
_PACKAGES: Final = ("site-packages", "dist-packages")


class ClusterProcess:
    """A child process with a cluster. It is there when this is made, and may be asked by any thread.

    A fork of this process has no part in it: there it is not asked, and closing it lets go of the socket alone.
    """

    def __init__(self, brokers: int, settings: Mapping[str, str], start_s: float, within: Path | None) -> None:
        """Start it. Its files are in a folder `within`.

        Raises OrderError if it is not ready within `start_s` seconds.
        """
        self.folder = _folder(within or Path(tempfile.gettempdir()))
        self._owner = os.getpid()
        self._closed = False
        self._asking = Lock()
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._files = contextlib.ExitStack()
        try:
            self._said: IO[bytes] = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - has no name
            self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._files.enter_context(self._link)
            with theirs:
                self._process = _started(self.folder, theirs, self._said)
            self._link.settimeout(start_s + _LATER_SECONDS)
            self.bootstrap_servers = self._ready(Start(brokers, start_s, dict(settings)))
            self._link.settimeout(_ORDER_SECONDS)
        except BaseException:  # Ctrl-C, too: the child would stay
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the child."""
        assert self._process is not None
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The code with which the child has ended, or minus the signal; None while it runs."""
        assert self._process is not None
        return self._process.returncode

    def _ready(self, start: Start) -> str:
        first = self._answered(start)
        if not isinstance(first, Ready):
            reason = first.reason if isinstance(first, Failed) else first
            raise OrderError(f"the cluster has not started: {reason}{self.said()}")
        return first.bootstrap_servers

    def ask(self, order: Order) -> str:
        """Have an order carried out. Raises OrderError.

        If an exception breaks it off, such as that of a signal's handler, it is carried out nevertheless.
        """
        if os.getpid() != self._owner:
            raise OrderError("a cluster is asked by the process that started it, and this is a fork of it")
        with self._asking:
            answer = self._answered(order)
        if isinstance(answer, Failed):
            raise OrderError(answer.reason)
        assert isinstance(answer, Done)
        return answer.text

    def _answered(self, message: Start | Order) -> Message:
        number = next(self._numbers)
        packet = packed(number, message)
        if len(packet) > PACKET_BYTES:
            raise OrderError(f"{type(message).__name__} is too long: {len(packet)} bytes")
        try:
            self._link.send(packet)
            while True:
                of, answer = parted(self._received())
                if of == number:
                    return CODEC.decode(answer)
        except TimeoutError:
            raise OrderError(f"the cluster does not answer.{self.said()}") from None
        except OSError as error:
            raise self._gone() from error

    def _received(self) -> bytes:
        """The next packet. If this is broken off, that packet may be lost, and no other one."""
        packet = self._link.recv(PACKET_BYTES)
        if not packet:
            raise ConnectionResetError
        return packet

    def _gone(self) -> OrderError:
        if self._closed:
            return OrderError("the cluster is closed")
        return OrderError(f"the cluster's process has ended{self._how()}.{self.said()}")

    def _how(self) -> str:
        assert self._process is not None
        try:
            status = self._process.wait(_STATUS_SECONDS)
        except subprocess.TimeoutExpired:
            return ""
        names = {each.value: each.name for each in signal.Signals}
        return f" with status {status}" if status >= 0 else f" by {names.get(-status, f'signal {-status}')}"

    def said(self) -> str:
        """The end of what the child has written, for people."""
        if self._closed:
            return ""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(size - _SAID_BYTES, 0))
        text = self._said.read().decode(errors="replace").strip()
        return f" It said:\n{text}" if text else ""

    def close(self) -> None:
        """End the child, and remove its files. In a fork of this process the cluster goes on."""
        self._closed = True
        if self._process is not None and os.getpid() == self._owner:
            self._end(self._process)
        self._files.close()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(OSError):  # the child has gone, or it was closed before
            self._link.shutdown(socket.SHUT_RDWR)  # forks of ours may have this end, too
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # it has done so, unless it was killed


def _folder(within: Path) -> Path:
    """A path at which there is nothing. Raises OrderError if sockets within would have too long a name."""
    path = within.absolute() / f"coterie-test-{os.getpid()}-{os.urandom(6).hex()}"
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise OrderError(f"{path} is too long for Unix sockets: choose a shorter path, or set TMPDIR to one")
    return path


def _started(folder: Path, link: socket.socket, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """The child. It looks for no packages but where we find ours, which saves it what `site` takes.

    It is in no process group of ours: the signals of a terminal, and those to the group, are for us.
    """
    options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    if sys.pycache_prefix:
        options.append(f"-Xpycache_prefix={sys.pycache_prefix}")
    paths = [str(Path(actors.__file__).parents[1]), *sorted(_path(), key=_is_of_the_program)]
    program = [sys.executable, *options, "-c", _BOOT, str(os.getpid()), str(folder), *paths]
    return subprocess.Popen(program, stdin=link.fileno(), stdout=said, stderr=said, start_new_session=True)


def _path() -> list[str]:
    """The folders in which we look for modules. An empty entry is the working folder, which may have been removed."""
    here = ""
    with contextlib.suppress(FileNotFoundError):
        here = os.getcwd()
    return [path or here for path in sys.path if path or here]


def _is_of_the_program(path: str) -> bool:
    """True if this is no folder of installed packages: the child's needs are in those."""
    return Path(path).name not in _PACKAGES
