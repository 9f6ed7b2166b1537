"""Reading a log: whole batches by offset, in this thread or, as an extent, in another; and offsets by time."""

from collections.abc import Iterator
from typing import Final

from actors.log.errors import FetchOffsetOutOfRange, StorageError
from actors.log.files import read_exactly
from actors.log.segment import OpenFile
from actors.log.segments import Place
from actors.log.state import LogState
from actors.records.reading import Record

FILES_MAX: Final = 256
"""How many files clients that read slowly may keep open. A process may have 1024 in all, where nobody has raised it."""


class Extent:
    """Whole batches in a file: what `PartitionLog.read` would return, to be read later, piece by piece.

    It keeps the file open until then, because a compaction may put another file under that name. One thread at a time
    reads it. Its length is what is left to read.
    """

    __slots__ = ("_cuts", "_file", "_left", "_position", "_segment", "next_offset")

    def __init__(self, place: Place) -> None:
        self._segment = segment = place.segment
        self._cuts = segment.cuts
        self._position = place.position
        self._left = place.size_bytes
        self._file: OpenFile | None = segment.open_to_read()
        self.next_offset = place.next_offset

    def __len__(self) -> int:
        return self._left

    @staticmethod
    def may_be_kept() -> bool:
        """Whether few enough files are open for one to be kept open for long."""
        return OpenFile.count() < FILES_MAX

    def read(self, most_bytes: int | None = None) -> bytes:
        """The next bytes, or all of them. StorageError if they are no longer there."""
        size = self._left if most_bytes is None else min(self._left, most_bytes)
        if self._file is None:
            return b""
        data = read_exactly(self._file.fd, size, self._position)
        if len(data) < size or self._segment.cuts != self._cuts:
            path = self._segment.path
            raise StorageError(f"{path}: {size} bytes at byte {self._position} are no longer what they were")
        self._position += size
        self._left -= size
        if not self._left:
            self._file = None
        return data


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
