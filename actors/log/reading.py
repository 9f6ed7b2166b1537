"""Reading a log: whole batches by offset, in this thread or, as an extent, in another; and offsets by time."""

import os
from collections.abc import Iterator

from actors.log.batch import Record
from actors.log.errors import FetchOffsetOutOfRange, StorageError
from actors.log.files import read_exactly
from actors.log.segments import Place
from actors.log.state import LogState


class Extent:
    """Whole batches in a file: what `PartitionLog.read` would return, for another thread to read once.

    It keeps the file open until then, because a compaction may put another file under that name.
    """

    __slots__ = ("_fd", "next_offset", "path", "position", "size_bytes")

    def __init__(self, place: Place) -> None:
        self._fd = -1
        self.path = place.segment.path
        self.position = place.position
        self.size_bytes = place.size_bytes
        self.next_offset = place.next_offset
        self._fd = place.segment.open_to_read()

    def read(self) -> bytes:
        """The bytes. StorageError where the file has fewer."""
        try:
            data = read_exactly(self._fd, self.size_bytes, self.position)
        finally:
            self._close()
        if len(data) < self.size_bytes:
            raise StorageError(f"{self.path}: {len(data)} of {self.size_bytes} bytes at byte {self.position}")
        return data

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = _close  # closes one that is never read; a thread that reads it still refers to it


class Reader:
    """Reads one log. Offsets are checked against its start and end; bounds default to the watermark."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def place(self, offset: int, max_bytes: int, max_offset: int | None, min_one_batch: bool) -> Place | None:
        """Where the batches from `offset` to `max_offset` are; None if there are none. Raises FetchOffsetOutOfRange."""
        state = self._state
        if not state.start <= offset <= state.end:
            raise FetchOffsetOutOfRange(f"offset {offset} is not within {state.start}..{state.end}")
        limit = state.watermark if max_offset is None else min(max_offset, state.end)
        if offset >= limit:
            return None
        return state.segments.locate(offset, max_bytes, limit, state.end, min_one_batch)

    def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from `offset` on, committed or not, and the offset to read from next."""
        end = self._state.end
        place = self.place(offset, max_bytes, end, True)
        if place is None:
            return b"", end
        return place.segment.read(place.position, place.size_bytes), place.next_offset

    def extents(self, max_bytes: int, max_offset: int | None) -> Iterator[Extent]:
        """The log from its start to `max_offset`, in pieces."""
        offset = self._state.start
        while (place := self.place(offset, max_bytes, max_offset, True)) is not None:
            extent = Extent(place)
            yield extent
            offset = extent.next_offset

    def first_at_or_after(self, timestamp_ms: int, max_offset: int | None) -> Record | None:
        """The first record at or after `timestamp_ms`, below `max_offset`."""
        state = self._state
        return state.segments.first_at_or_after(timestamp_ms, state.start, self._bound(max_offset))

    def newest(self, max_offset: int | None) -> Record | None:
        """The first record with the largest timestamp below `max_offset`."""
        return self._state.segments.newest(self._state.start, self._bound(max_offset))

    def _bound(self, max_offset: int | None) -> int:
        return self._state.watermark if max_offset is None else max_offset
