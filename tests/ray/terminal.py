"""A program on a terminal: with its standard output and error on a pseudo-terminal, and Python's warnings on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tests.ray.support import ROOT, assert_gone, descendants
from tests.support.ray_variables import without_ray

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class OnATerminal:
    """A Python program, and what its terminal has got so far. With `keys` it hears what is typed there, too."""

    def __init__(self, *arguments: str, keys: bool = False, **environment: str) -> None:
        size = {"COLUMNS": "160", "LINES": "60", "TERM": "xterm"}
        self._ours, programs = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=without_ray() | size | {"PYTHONWARNINGS": "default"} | environment,
            stdin=programs if keys else subprocess.DEVNULL,
            stdout=programs,
            stderr=programs,
        )
        os.close(programs)
        self._seen: dict[int, psutil.Process] = {}
        self._got = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while part := self._part():
            self._got += part
            self._seen.update({child.pid: child for child in descendants(self.process.pid)})

    def _part(self) -> bytes:
        """The next output; empty once the last program has closed the terminal."""
        try:
            return os.read(self._ours, 1 << 16)
        except OSError:  # as Linux says it
            return b""

    @property
    def shown(self) -> str:
        """Without its styles."""
        return _STYLE.sub("", self._got.decode(errors="replace"))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def ended(self) -> int:
        """The exit code, once it has ended and closed its terminal; it must leave no process behind."""
        self._reader.join()
        code = self.process.wait(60)
        assert_gone(self._seen.values())
        return code

    def close(self) -> None:
        """End the program and what it has started, however they are doing."""
        family = [*self._seen.values(), *descendants(self.process.pid)]
        self.process.kill()
        self.process.wait()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._reader.join()
        os.close(self._ours)


@contextmanager
def on_a_terminal(*arguments: str, keys: bool = False, **environment: str) -> Iterator[OnATerminal]:
    """Run Python with these arguments; it is ended with the block."""
    program = OnATerminal(*arguments, keys=keys, **environment)
    try:
        yield program
    finally:
        program.close()
