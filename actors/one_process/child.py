"""The process that has a cluster: it carries out its parent's orders, and ends with it.

It ends when the parent closes the socket, or has gone: then it leaves neither a process nor a file. Nothing is closed
in order, because nobody will read it again.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import Final, NoReturn

from actors import CoterieError
from actors.one_process.answers import Answers
from actors.one_process.clock import MovableLoop, MovableTime
from actors.one_process.faults import Faults
from actors.one_process.hosting import Cluster
from actors.one_process.orders import CODEC, LENGTH_BYTES, Done, Failed, Message, Ready, Start, framed
from actors.runtime.logs import TEXT, formatter
from actors.runtime.private import keep_private

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_REMOVALS: Final = 5


class Child:
    """The end of the child. `end` may be called at any time."""

    def __init__(self, start: Start) -> None:
        self._folder = Path(start.folder)
        self._parent = start.parent

    def watch_parent(self) -> None:
        """Have the kernel send a signal when the parent has gone. It does so, too, when a thread of the parent ends."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which is in the same group
        for number in (signal.SIGTERM, signal.SIGHUP):
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


async def _serve_and_end(start: Start, link: socket.socket, time: MovableTime, child: Child) -> NoReturn:
    """Serve until the parent hangs up. Then the process ends: to end the loop in order would only take time."""
    try:
        await _serve(start, link, time)
    except Exception:  # a bug: the parent shows what was written
        log.exception("the cluster ends by an error")
    finally:
        child.end()


async def _serve(start: Start, link: socket.socket, time: MovableTime) -> None:
    reader, writer = await asyncio.open_connection(sock=link)
    answers = Answers(asyncio.get_running_loop())
    try:
        cluster = Cluster(Path(start.folder), start.brokers, start.settings, time, answers.before)
        writer.write(framed(Ready(await cluster.start())))
    except (CoterieError, OSError, ValueError) as error:
        writer.write(framed(Failed(str(error))))
        await reader.read()
        return
    _collect_seldom()
    faults = Faults(cluster, answers, time)
    while (order := await _next_order(reader)) is not None:
        writer.write(framed(await _carried_out(faults, order)))


def _collect_seldom() -> None:
    """As the processes of a cluster do (`runtime/process.py`). There was nothing to collect so far."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


async def _next_order(reader: asyncio.StreamReader) -> Message | None:
    """The parent's next order; None if it has hung up."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        return CODEC.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _carried_out(faults: Faults, order: Message) -> Done | Failed:
    try:
        return Done(await faults.carry_out(order))
    except (CoterieError, OSError, ValueError) as error:
        return Failed(str(error) or type(error).__name__)


def main(told: str) -> NoReturn:
    """Serve until the parent hangs up. `told` is a Start in hexadecimal digits; the socket is standard input."""
    start = CODEC.read(Start, bytes.fromhex(told))
    child = Child(start)
    child.watch_parent()
    keep_private()
    lines = logging.StreamHandler()
    lines.setFormatter(formatter(TEXT, {"role": "test"}))
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    try:
        time = MovableTime()
        with asyncio.Runner(loop_factory=lambda: MovableLoop(time)) as runner:
            runner.run(_serve_and_end(start, socket.socket(fileno=0), time, child))
    finally:
        child.end()
