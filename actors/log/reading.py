"""Reading a log: whole batches by offset, in this thread or, as an extent, in another; and offsets by time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from actors.log.errors import FetchOffsetOutOfRange, StorageError
from actors.log.files import read_exactly
from actors.log.segment import OpenFile, Segment
from actors.log.segments import Place
from actors.log.state import LogState
from actors.records.batch import BatchHeader
from actors.records.bounds import STORED, Bounds, bounds_at_once, may_read_at_once
from actors.records.errors import OverBoundsError
from actors.records.reading import payload_of
from actors.records.scan import FEW, is_imported
from actors.records.searching import Timed, first_at_or_after

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


@dataclass(slots=True)
class StoredBatch:
    """A batch in which the first record at or after a time is looked for. It keeps its file open."""

    header: BatchHeader
    extent: Extent
    timestamp_ms: int
    low: int
    high: int
    data: bytes = b""

    def find_at_once(self) -> Timed | None:
        """`find`, if that takes less than a millisecond; OverBoundsError if it may take longer."""
        header = self.header
        slow = header.record_count > FEW and not is_imported()
        if slow or not may_read_at_once(header):
            raise OverBoundsError(f"the batch at offset {header.base_offset} may take long to read")
        return self.find(bounds_at_once(header.codec))

    def find(self, bounds: Bounds = STORED) -> Timed | None:
        """The first such record, in any thread. Raises CorruptBatchError, StorageError."""
        self.data = self.data or self.extent.read()
        payload = payload_of(self.data, self.header, bounds)
        return first_at_or_after(payload, self.header, self.timestamp_ms, self.low, self.high)


def _stored(segment: Segment, header: BatchHeader, timestamp_ms: int, low: int, high: int) -> StoredBatch | None:
    at = segment.find(header.base_offset)
    if at is None:
        return None
    extent = Extent(Place(segment, at.position, at.size_bytes, header.next_offset))
    return StoredBatch(header, extent, timestamp_ms, low, high)


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

    def batch_with(self, timestamp_ms: int, since: int, max_offset: int | None) -> StoredBatch | None:
        """The first batch from `since` on, below `max_offset`, that has a record at or after `timestamp_ms`."""
        low, high = max(self._state.start, since), self._bound(max_offset)
        found = self._state.segments.batch_with(timestamp_ms, low, high)
        return None if found is None else _stored(*found, timestamp_ms, low, high)

    def newest(self, max_offset: int | None) -> StoredBatch | None:
        """The batch with the largest timestamp. As in Kafka, DeleteRecords takes nothing away from it."""
        found = self._state.segments.newest()
        if found is None:
            return None
        return _stored(*found, found[1].max_timestamp, 0, self._bound(max_offset))

    def _bound(self, max_offset: int | None) -> int:
        return self._state.watermark if max_offset is None else max_offset
