"""Cuts the bytes that come over a socket into frames: a length of four bytes, and then so many bytes. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_BUFFER_BYTES: Final = 64 << 10
_NONE: Final = bytearray()


class FrameReader:
    """Calls `take` with each whole frame. `check` gets its length first, and raises WireError if it cannot be right.

    A frame that is larger than the buffer is read into one of its own size.
    """

    def __init__(self, check: Callable[[int], None], take: Callable[[bytes], None]) -> None:
        self._check = check
        self._take = take
        self._small = bytearray(_BUFFER_BYTES)
        self._small_end = 0
        self._big = _NONE
        self._big_end = 0

    def buffer(self) -> memoryview:
        """The memory for the next bytes."""
        if self._big:
            return memoryview(self._big)[self._big_end :]
        return memoryview(self._small)[self._small_end :]

    def received(self, count: int) -> None:
        """So many bytes have been put into `buffer()`. Raises what `check` and `take` raise."""
        if not self._big:
            self._small_end += count
            self._cut()
            return
        self._big_end += count
        if self._big_end == len(self._big):
            frame, self._big = bytes(self._big), _NONE
            self._take(frame)

    def _cut(self) -> None:
        small, start, end = self._small, 0, self._small_end
        while end - start >= 4:
            size = int.from_bytes(small[start : start + 4], "big")
            self._check(size)
            first, stop = start + 4, start + 4 + size
            if stop > end:
                if size + 4 > len(small):
                    self._big = bytearray(size)
                    self._big_end = end - first
                    self._big[: self._big_end] = small[first:end]
                    start = end
                break
            self._take(bytes(small[first:stop]))
            start = stop
        small[: end - start] = small[start:end]
        self._small_end = end - start
