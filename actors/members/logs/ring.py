"""The last lines that a process has written: so many at most, and so many bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from actors.links.member import Line

LINES_MAX: Final = 1000
BYTES_MAX: Final = 256 << 10
LINE_BYTES_MAX: Final = 8 << 10
_CUT: Final = "…".encode()


class Ring:
    """Keeps lines until there are more than `lines_max`, or more than `bytes_max` bytes of text. For any thread.

    A longer line than `line_bytes_max` loses its end.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int],
        *,
        lines_max: int = LINES_MAX,
        bytes_max: int = BYTES_MAX,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self.line_bytes_max = line_bytes_max
        self._wall_ms = wall_ms
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        self._lines: deque[tuple[int, str, bytes]] = deque()
        self._first = 1
        self._bytes = 0
        self._lock = threading.RLock()  # a signal's handler, or a destructor, may write a line while one is added

    def add(self, level: str, text: str) -> None:
        """Keep a line."""
        data = text.encode(errors="backslashreplace")  # a text may have halves of characters
        if len(data) > self.line_bytes_max:
            data = data[: self.line_bytes_max - len(_CUT)] + _CUT
        with self._lock:
            self._lines.append((self._wall_ms(), level, data))
            self._bytes += len(data)
            while len(self._lines) > self._lines_max or self._bytes > self._bytes_max:
                _, _, gone = self._lines.popleft()
                self._bytes -= len(gone)
                self._first += 1

    def read(self, *, after: int = 0, tail: int = LINES_MAX, since_ms: int = 0) -> tuple[Line, ...]:
        """The last `tail` lines with a number above `after`, not older than `since_ms`, the oldest first."""
        with self._lock:
            skipped = max(0, after + 1 - self._first, len(self._lines) - tail)
            kept = list(islice(self._lines, skipped, None))
            first = self._first + skipped
        return tuple(
            Line(number, wall_ms, level, data.decode(errors="ignore"))  # the end may be in the midst of a character
            for number, (wall_ms, level, data) in enumerate(kept, first)
            if wall_ms >= since_ms
        )
