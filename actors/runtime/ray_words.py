"""Keep what Ray prints out of the standard output of the program that uses it.

A thread of Ray's prints a line for every process of the cluster that dies, whoever ended it, and no setting turns
this off. After a ray.init of ours, what such a thread prints is logged by this module's logger at INFO, and written
to a file if one is given. A Ray that the user has started with ray.init goes on printing.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from actors.runtime import ray_inside
from actors.runtime.escaping import escaped
from actors.runtime.private import private

log = logging.getLogger(__name__)

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class _Stdout:
    """A program's standard output, except for what `threads` write, which is taken line by line."""

    def __init__(self, stream: TextIO, file: Path | None) -> None:
        self.stream = stream
        self.threads: set[threading.Thread] = set()
        self._file = file
        self._begun = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write the text, or take it if it is one of `threads` that writes. Returns the number of characters."""
        thread = threading.current_thread()
        if thread not in self.threads:
            return self.stream.write(text)
        *lines, self._begun = (self._begun + text).split("\n")
        self.threads.discard(thread)  # whoever handles what is logged may write to standard output
        try:
            for line in lines:
                self._take(_COLOUR.sub("", line))
        finally:
            self.threads.add(thread)
        return len(text)

    def _take(self, line: str) -> None:
        log.info("%s", line)
        if self._file is not None:
            # A full disk is no error of the program's.
            with contextlib.suppress(OSError), open(self._file, "a", opener=private) as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {escaped(line)}\n")


_installed: _Stdout | None = None


@contextlib.contextmanager
def kept(file: Path | None) -> Iterator[None]:
    """For a block that calls ray.init: what the threads that start in it print is taken, until `leaving`.

    `file` is made when there is something to write. If the block raises, nothing is changed.
    """
    global _installed
    before = set(threading.enumerate())
    stdout = _Stdout(sys.stdout, file) if sys.stdout is not None else None
    yield
    if stdout is None:  # a program without one, such as a daemon
        return
    stdout.threads.update(t for t in set(threading.enumerate()) - before if t.name.startswith(ray_inside.THREADS))
    sys.stdout, _installed = stdout, stdout


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """For a block that calls ray.shutdown, which prints what it has held back. Then standard output is as before."""
    global _installed
    stdout, _installed = _installed, None
    if stdout is None:
        yield
        return
    stdout.threads.add(threading.current_thread())
    try:
        yield
    finally:
        stdout.threads.clear()
        if sys.stdout is stdout:  # else whoever has replaced it meanwhile may put this one back: it hands all on
            sys.stdout = stdout.stream
