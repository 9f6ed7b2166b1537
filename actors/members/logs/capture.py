"""Copies to a ring what a process writes to standard output, to standard error and to its log.

Output that does not go through `sys.stdout` and `sys.stderr` is not seen: that of C code, and of programs that the
handler starts.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final, TextIO, cast

from actors.members.logs.ring import Ring
from actors.runtime.environment import REAL
from actors.runtime.logs import CapturedLines

STDOUT: Final = "stdout"
STDERR: Final = "stderr"


class _Begun(threading.local):
    """The line that a thread has begun: `print` writes one in two pieces, and threads print at the same time."""

    text = ""


class Tee:
    """A text stream whose finished lines are kept as well. All but writing is the stream's own."""

    def __init__(self, stream: TextIO, level: str, ring: Ring) -> None:
        self._stream = stream
        self._level = level
        self._ring = ring
        self._begun = _Begun()

    def write(self, text: str) -> int:
        """Write to the stream, and keep what is a line now."""
        written = self._stream.write(text)
        begun = self._begun
        begun.text += text
        if "\n" in text or len(begun.text) > self._ring.line_bytes_max:
            self._take(begun)
        return written

    def _take(self, begun: _Begun) -> None:
        *finished, rest = begun.text.split("\n")
        if len(rest) > self._ring.line_bytes_max:
            finished, rest = [*finished, rest], ""
        begun.text = rest
        for line in finished:
            self._ring.add(self._level, _last_state(line) if "\r" in line else line)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class RingHandler(logging.Handler):
    """Keeps log records, a line of its text and traceback each."""

    def __init__(self, ring: Ring) -> None:
        super().__init__()
        self.setFormatter(CapturedLines())
        self._ring = ring

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record. Its time and level are the line's."""
        try:
            text = self.format(record)
        except Exception:  # the arguments do not fit the message
            self.handleError(record)
            return
        for line in text.split("\n"):
            self._ring.add(record.levelname, line)


def captured() -> Ring:
    """A ring that keeps what this process writes from now on."""
    ring = Ring(REAL.clock.wall_ms)
    capture(ring)
    return ring


def capture(ring: Ring) -> None:
    """From now on keep what this process prints, and what reaches its root logger.

    Handlers of `logging` that write to standard error have to be there already, or their lines are kept twice.
    """
    logging.getLogger().addHandler(RingHandler(ring))
    sys.stdout = cast(TextIO, Tee(sys.stdout, STDOUT, ring))
    sys.stderr = cast(TextIO, Tee(sys.stderr, STDERR, ring))


def _last_state(line: str) -> str:
    """The text that a terminal shows of a line in the end: a bar of progress goes back to its beginning by a CR."""
    return line.rstrip("\r").rpartition("\r")[2]
