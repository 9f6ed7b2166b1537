"""The parts of every actor process: a uvloop loop, a log file, and a check of its code's version."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import logging
import re
import threading
from collections.abc import Coroutine
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, TypeVar, Unpack

import uvloop

from actors import __version__
from actors.runtime.data_folder import check_own_folder
from actors.runtime.garbage import collect_seldom
from actors.runtime.logs import AUDIT, WRITTEN, Fields, LogPlace, formatter
from actors.runtime.private import FOLDER_MODE

T = TypeVar("T")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_CLASS_NAME = re.compile(r"^(?:\w+\.)+\w+: ")
_NEVER_RAN = "The actor never ran - it was cancelled before it started running."
"""Ray's last words about an actor that has not started; the reason is the line before them."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Ray colours the names of its processes


def run_in_main_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` on a loop in the thread of the actor's method that calls this, until it ends.

    An actor that serves over sockets has one method that never returns, and keeps the main thread by it. Ray would
    otherwise wake that a hundred times a second to look for signals, which is a large part of what an idle process
    costs. The price: Ray calls no other method meanwhile.
    """
    uvloop.run(work)


class LoopThread:
    """An event loop in a thread of its own, for an actor whose methods Ray calls."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run `work` on the loop and wait for its result. An error that it raises is raised here."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def close(self) -> None:
        """End the loop and its thread. Its work goes no further."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` on the loop without waiting for it."""
        asyncio.run_coroutine_threadsafe(work, self.loop)


def settle_memory() -> None:
    """Have the garbage collector run seldom, and large buffers come from the heap."""
    gc.collect()
    collect_seldom()
    # A buffer that is new from the system costs a page fault for each 4 KiB, a third of the CPU of produce and fetch.
    # So those up to 32 MiB, glibc's most, come from the heap, which keeps 16 MiB at its end for the next ones.
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 25)
        libc.mallopt(_M_TRIM_THRESHOLD, 16 << 20)


def log_to(place: LogPlace, name: str, **own: Unpack[Fields]) -> None:
    """Write this process's log to `name.log` in its place, and there, too, the stacks if the interpreter crashes.

    All its lines have the fields `own` and the cluster. The logger `asyncio` is written there, too: it is told of the
    errors of tasks that nobody waits for. Raises PermissionError if the folder is another user's or a link.
    """
    path = Path(place.folder)
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    check_own_folder(path)
    handler = logging.FileHandler(path / f"{name}.log", encoding="utf-8")
    handler.setFormatter(formatter(place.log_format, {"cluster": place.cluster, **own}))
    logging.getLogger().setLevel(logging.INFO)
    for root in map(logging.getLogger, WRITTEN):
        root.handlers.clear()
        root.addHandler(handler)
        root.setLevel(logging.NOTSET)
        root.propagate = False
    faulthandler.enable(handler.stream.fileno() if handler.stream else 2)


def audit_to(place: LogPlace, name: str, file_max_bytes: int, files_max: int, **own: Unpack[Fields]) -> None:
    """Write what the logger `coterie.audit` says to files of its own: `name.log`, and older ones from `name.log.1` on.

    A file that would be larger than `file_max_bytes` is renamed; at most `files_max` are kept. Clients decide how much
    is said there, and so push nothing else out. To be called after `log_to`.
    """
    path = Path(place.folder) / f"{name}.log"
    handler = RotatingFileHandler(
        path, maxBytes=file_max_bytes, backupCount=files_max - 1, encoding="utf-8", delay=True
    )
    handler.setFormatter(formatter(place.log_format, {"cluster": place.cluster, **own}))
    log = logging.getLogger(AUDIT)
    log.handlers.clear()
    log.addHandler(handler)
    log.propagate = False


def code_version() -> str:
    """The version of Coterie this process runs."""
    return __version__


def check_code_version(starter: str) -> None:
    """Called by actor classes of builds from before versions were told: this one speaks with all of them.

    Ray brings an actor's class along from the process that starts it, and the modules are those that are installed.
    """
    if __version__ != starter:
        logging.getLogger(__name__).warning("version %s was started by version %s", __version__, starter)


def check_same_version(expected: str) -> None:
    """Raise RuntimeError if this process has imported another version of Coterie than its driver."""
    if __version__ != expected:
        raise RuntimeError(
            f"this process imported another version of Coterie ({__version__}, from {__file__}) than the driver has "
            f"({expected}): install the same version on every Ray node, and keep packages called 'actors' out of "
            "the job's working_dir"
        )


def last_line(error: BaseException) -> str:
    """The last line of another process's error, without its traceback, the name of its class and colours."""
    text = str(error).strip().removesuffix(_NEVER_RAN).rstrip()
    line = (text or type(error).__name__).splitlines()[-1]
    return _CLASS_NAME.sub("", _COLOUR.sub("", line))


def error_text(error: BaseException) -> str:
    """The text of an error of the user's code, in characters that UTF-8 has; its class if the text cannot be had."""
    try:
        text = str(error)
    except Exception:  # whatever its `__str__` raises
        text = type(error).__name__
    return text.encode(errors="backslashreplace").decode()
