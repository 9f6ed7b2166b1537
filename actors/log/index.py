"""Sparse indexes of a segment, in Kafka's file formats: offset to position, timestamp to offset.

In memory an index is the content of its file: a bytearray while the segment grows, a memory map afterwards. A search
unpacks only the few entries that it compares.
"""

import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

OFFSET_ENTRY: Final = struct.Struct(">II")
"""Base offset of a batch relative to the segment's; its byte position."""
TIME_ENTRY: Final = struct.Struct(">qI")
"""Largest timestamp so far in ms; relative base offset of the first batch that has it."""

Pair = tuple[int, int]


class SparseIndex:
    """One index: pairs of integers, of which both ascend."""

    def __init__(self, path: Path, entry: struct.Struct) -> None:
        self.path = path
        self._entry = entry
        self._buffer: bytearray | mmap.mmap = bytearray()

    def __len__(self) -> int:
        return len(self._buffer) // self._entry.size

    def __iter__(self) -> Iterator[Pair]:
        return (self._pair(number) for number in range(len(self)))

    def is_full(self, limit_bytes: int) -> bool:
        """True if one more pair would make the file larger than that."""
        return len(self._buffer) + self._entry.size > limit_bytes

    def append(self, first: int, second: int) -> None:
        """Add a pair not below the last one."""
        self._grown().extend(self._entry.pack(first, second))

    def floor_first(self, first: int) -> Pair | None:
        """The last pair whose first part is at most `first`."""
        return self._before(bisect_right(range(len(self)), first, key=self._first))

    def floor_second(self, second: int) -> Pair | None:
        """The last pair whose second part is at most `second`."""
        return self._before(bisect_right(range(len(self)), second, key=self._second))

    def last(self) -> Pair | None:
        return self._before(len(self))

    def truncate(self, second: int) -> None:
        """Drop the pairs whose second part is `second` or more."""
        keep = bisect_right(range(len(self)), second - 1, key=self._second)
        del self._grown()[keep * self._entry.size :]

    def clear(self) -> None:
        self._buffer = bytearray()

    def packed(self) -> bytes:
        """The entries as the file holds them."""
        return bytes(self._buffer)

    def load(self) -> bool:
        """Map the file. False if it is missing or cannot be an index."""
        try:
            with self.path.open("rb") as file:
                empty = file.seek(0, 2) == 0
                self._buffer = bytearray() if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return False
        if len(self._buffer) % self._entry.size == 0 and self._ascends():
            return True
        self._buffer = bytearray()
        return False

    def _ascends(self) -> bool:
        if len(self) < 2:
            return True
        (first, second), (last_first, last_second) = self._pair(0), self._pair(len(self) - 1)
        return first <= last_first and second <= last_second

    def _pair(self, number: int) -> Pair:
        first, second = self._entry.unpack_from(self._buffer, number * self._entry.size)
        return first, second

    def _first(self, number: int) -> int:
        return self._pair(number)[0]

    def _second(self, number: int) -> int:
        return self._pair(number)[1]

    def _before(self, number: int) -> Pair | None:
        return self._pair(number - 1) if number else None

    def _grown(self) -> bytearray:
        if not isinstance(self._buffer, bytearray):
            self._buffer = bytearray(self._buffer)
        return self._buffer
