"""What every actor process of ours has: a uvloop in a thread of its own, a log file, and the version of its code."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import logging
import re
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from actors import __version__

T = TypeVar("T")

_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
_CLASS_NAME = re.compile(r"^(?:\w+\.)+\w+: ")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LoopThread:
    """A running event loop, to be used from the thread that Ray runs an actor's methods in."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run `work` on the loop and wait for its result; its exception is raised here."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` on the loop without waiting."""
        asyncio.run_coroutine_threadsafe(work, self.loop)


def settle_memory() -> None:
    """Have the garbage collector look seldom, and never at what was imported.

    A server's requests make and drop many small containers and hardly ever a cycle: at the default thresholds the
    collector took two thirds of the time of a commit.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    # Large buffers go back to the system when they are freed, instead of staying with the process.
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 18)


def log_to(folder: str, name: str) -> None:
    """Send this process's log to `folder/name.log`; a crash of the interpreter leaves its stacks there too."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    root = logging.getLogger("actors")
    root.handlers.clear()
    handler = logging.FileHandler(path / f"{name}.log")
    handler.setFormatter(logging.Formatter(_FORMAT))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False
    faulthandler.enable(handler.stream.fileno() if handler.stream else 2)


def code_version() -> str:
    """The version of Coterie this process runs."""
    return __version__


def check_code_version(expected: str) -> None:
    """Raises RuntimeError naming the file, if a process was started with other code than its driver's."""
    if __version__ != expected:
        raise RuntimeError(
            f"this process imported another version of Coterie ({__version__}, from {__file__}) than the driver has "
            f"({expected}): install the same version on every Ray node, and keep packages called 'actors' out of "
            "the job's working_dir"
        )


def last_line(error: BaseException) -> str:
    """What an error from another process says at its end, without the traceback and the class's name."""
    line = (str(error).strip() or type(error).__name__).splitlines()[-1]
    return _CLASS_NAME.sub("", line)
