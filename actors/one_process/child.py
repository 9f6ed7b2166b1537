"""The process that has a cluster: it carries out its parent's orders, and ends with it.

It ends when the parent closes the socket, or has gone: then it leaves neither a process nor a file. Nothing is closed
in order, because nobody will read it again.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import Final, NoReturn

from actors import CoterieError
from actors.one_process.answers import Answers
from actors.one_process.asking import CLIENT_ID
from actors.one_process.clock import MovableLoop, MovableTime
from actors.one_process.faults import Faults
from actors.one_process.hosting import Cluster
from actors.one_process.orders import (
    CODEC,
    PACKET_BYTES,
    Done,
    Failed,
    Message,
    OrderError,
    Ready,
    Start,
    packed,
    parted,
)
from actors.runtime.garbage import collect_seldom
from actors.runtime.logs import TEXT, formatter
from actors.runtime.private import keep_private

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_REMOVALS: Final = 5
_REASON_LENGTH: Final = 20_000


class Child:
    """The end of the child. `end` may be called at any time."""

    def __init__(self, parent: int, folder: Path) -> None:
        """`parent` is the process that the child must not outlive."""
        self._folder = folder
        self._parent = parent

    def watch_parent(self) -> None:
        """Have the kernel send a signal when the parent has gone. It does so, too, when a thread of the parent ends."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, lambda *_: self.end())
        signal.signal(signal.SIGUSR1, lambda *_: self.end_if_orphan())
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
        self.end_if_orphan()  # it may have gone before

    def end_if_orphan(self) -> None:
        """End if the parent has gone."""
        if os.getppid() != self._parent:
            self.end()

    def end(self) -> NoReturn:
        """End at once."""
        for _ in range(_REMOVALS):  # a thread may just be making a file
            shutil.rmtree(self._folder, ignore_errors=True)
            if not self._folder.exists():
                break
        os._exit(0)


class _Parent:
    """The orders that come from the parent, and its end: that is seen at once, whatever the child is doing."""

    def __init__(self, link: socket.socket, child: Child) -> None:
        self._link = link
        self._child = child
        self._loop = asyncio.get_running_loop()
        self.packets: asyncio.Queue[bytes] = asyncio.Queue()
        link.setblocking(False)
        self._loop.add_reader(link, self._readable)

    def _readable(self) -> None:
        try:
            packet = self._link.recv(PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._child.end()
        self.packets.put_nowait(packet)

    async def answer(self, number: int, message: Message) -> None:
        """Answer the order of this number."""
        await self._loop.sock_sendall(self._link, packed(number, message))


async def _serve_and_end(link: socket.socket, folder: Path, time: MovableTime, child: Child) -> NoReturn:
    """Serve until the parent hangs up. Then the process ends: to end the loop in order would only take time."""
    try:
        await _serve(_Parent(link, child), folder, time)
    except Exception:  # a bug: the parent shows what was written
        log.exception("the cluster ends by an error")
    finally:
        child.end()


async def _serve(parent: _Parent, folder: Path, time: MovableTime) -> None:
    number, body = parted(await parent.packets.get())
    answers = Answers(asyncio.get_running_loop(), CLIENT_ID)
    try:
        start = CODEC.read(Start, body)
        cluster = Cluster(folder, start.brokers, start.settings, time, answers.before)
        await parent.answer(number, Ready(await _started(cluster, start.start_s)))
    except (CoterieError, OSError, ValueError) as error:
        await parent.answer(number, _failed(error))
        await asyncio.Event().wait()
        return
    collect_seldom()
    faults = Faults(cluster, answers, time)
    while True:
        number, body = parted(await parent.packets.get())
        await parent.answer(number, await _carried_out(faults, body))


async def _started(cluster: Cluster, within_s: float) -> str:
    """The address for clients. Raises OrderError if that takes too long, and what a broker's start raises."""
    deadline = asyncio.timeout(within_s)
    try:
        async with deadline:
            return await cluster.start()
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise OrderError(f"it waited {within_s:g} s for {cluster.waits_for}") from error


async def _carried_out(faults: Faults, order: bytes) -> Done | Failed:
    try:
        return Done(await faults.carry_out(CODEC.decode(order)))
    except (CoterieError, OSError, ValueError) as error:
        return _failed(error)
    except Exception as error:  # a bug: a whole run may have this cluster, and goes on with it
        log.exception("an order ends by an error")
        return Failed(f"{type(error).__name__}: {error}"[:_REASON_LENGTH])


def _failed(error: Exception) -> Failed:
    return Failed((str(error) or type(error).__name__)[:_REASON_LENGTH])


def main(parent: str, folder: str) -> NoReturn:
    """Serve until the parent, a pid, hangs up. The socket is standard input, and all files are in `folder`."""
    child = Child(int(parent), Path(folder))
    child.watch_parent()
    keep_private()
    lines = logging.StreamHandler()
    lines.setFormatter(formatter(TEXT, {"role": "test"}))
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    try:
        time = MovableTime()
        with asyncio.Runner(loop_factory=lambda: MovableLoop(time)) as runner:
            runner.run(_serve_and_end(socket.socket(fileno=0), Path(folder), time, child))
    finally:
        child.end()
