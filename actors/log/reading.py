"""Reading a log: whole batches by offset, in this thread or, as an extent, in another; and offsets by time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from actors.log.assessment import assess
from actors.log.checking import CUT_OFF, Bounds, Outcome, check, check_in_file, rest_of_batch
from actors.log.damage import DamagedBatchError
from actors.log.errors import FetchOffsetOutOfRange, StorageError
from actors.log.segment import BrokenChainError, OpenFile, Segment
from actors.log.segments import Place
from actors.log.state import LogState
from actors.records import bounds as of_batches
from actors.records.batch import BatchHeader
from actors.records.errors import LogError, OverBoundsError
from actors.records.reading import payload_of
from actors.records.scan import FEW, is_imported
from actors.records.searching import Timed, first_at_or_after

REST_BYTES: Final = 256 << 10
"""A read may be so much longer than it was asked to be, because it ends with the end of a batch."""

FILES_MAX: Final = 256
"""The most files that slow readers may keep open. A process may have 1024 in all, where nobody has raised it."""


class Extent:
    """Whole batches in a file: what `PartitionLog.read` would return, to be read later, piece by piece.

    It keeps the file open until then, because a compaction may put another file under that name. One thread at a time
    reads it. Its length is what is left to read. No byte leaves it before its batch has been checked.
    """

    __slots__ = ("_bounds", "_checked_to", "_cuts", "_file", "_left", "_position", "_segment", "_state", "next_offset")

    def __init__(self, state: LogState, place: Place, offset: int) -> None:
        self._state = state
        self._segment = segment = place.segment
        self._cuts = segment.cuts
        self._position = self._checked_to = place.position
        self._left = place.size_bytes
        self._bounds = _bounds(state, place, offset)
        self._file: OpenFile | None = segment.open_to_read()
        self.next_offset = place.next_offset
        if not segment.known.touches(place.position, place.position + place.size_bytes):
            # Checks wait for whole batches. So the disk reads these, and what is probably asked for next, meanwhile.
            os.posix_fadvise(self._file.fd, place.position, 2 * place.size_bytes, os.POSIX_FADV_WILLNEED)

    def __len__(self) -> int:
        return self._left

    @staticmethod
    def may_be_kept() -> bool:
        """True if few enough files are open for one to be kept open for long."""
        return OpenFile.count() < FILES_MAX

    def read(self, most_bytes: int | None = None) -> bytes:
        """The next bytes, or all of them; with a limit perhaps fewer than it says, or REST_BYTES more.

        Raises StorageError if they are no longer there, DamagedBatchError for a damaged batch. All that comes before
        one can be read with a limit.
        """
        if most_bytes is not None:
            return self._read(min(self._left, most_bytes))
        pieces = [self._read(self._left)]
        while self._left:
            pieces.append(self._read(self._left))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_from_disk(self) -> bytes:
        """All of it, from the disk and not from memory as far as the system lets go of it, and checked."""
        if self._file is not None:
            os.posix_fadvise(self._file.fd, self._position, self._left, os.POSIX_FADV_DONTNEED)
        self._segment.known.forget()
        return self.read()

    def _read(self, size: int) -> bytes:
        if self._file is None:
            return b""
        data = self._segment.read_from(self._file.fd, self._position, size)
        if len(data) < size or self._segment.cuts != self._cuts:
            path = self._segment.path
            raise StorageError(f"{path}: {size} bytes at byte {self._position} are no longer what they were")
        data = self._checked(data)
        self._position += len(data)
        self._left -= len(data)
        if not self._left:
            self._file = None
        return data

    def _checked(self, data: bytes) -> bytes:
        """Those of these bytes, the next ones, that may leave; and the rest of the last batch, unless that is long."""
        begin, end = self._position, self._position + len(data)
        if begin >= self._checked_to and self._segment.known.covers(begin, end):
            return data
        while self._checked_to <= begin:
            data = self._check(data)
        return data[: self._checked_to - begin]

    def _check(self, data: bytes) -> bytes:
        """Check some of the batches after those that were checked; `data` is what comes next, which may become longer.

        A second read of the same bytes comes from memory.
        """
        assert self._file is not None, "it has just been read"
        at, bounds, fd, read = self._checked_to, self._bounds, self._file.fd, data
        if at < self._position:  # the known range in between has been forgotten, and this read may begin within a batch
            read = self._segment.read_from(fd, at, min(bounds.limit - at, len(data)))
        outcome = check(read, at, bounds)
        rest = rest_of_batch(read, outcome.size_bytes) if not outcome.wrong else 0
        if 0 < rest <= min(REST_BYTES, bounds.limit - at - len(read)):
            read += self._segment.read_from(fd, at + len(read), rest)
            after = bounds._replace(low=outcome.low, first=bounds.first and not outcome.size_bytes)
            last = check(memoryview(read)[outcome.size_bytes :], at + outcome.size_bytes, after)
            outcome = Outcome(outcome.size_bytes + last.size_bytes, last.low, last.wrong)
        if not outcome.size_bytes and not outcome.wrong:  # a long batch, or one that needs the next one's header
            outcome = check_in_file(fd, at, bounds)
        if not outcome.size_bytes:
            raise found_damaged(self._state, self._segment, at, outcome.wrong)
        self._checked_to = at + outcome.size_bytes
        self._segment.known.add(at, self._checked_to)
        self._bounds = bounds._replace(low=outcome.low, first=False)
        return read if at == self._position else data


def _bounds(state: LogState, place: Place, offset: int) -> Bounds:
    """The bounds of the batches of a place that has just been found for `offset`."""
    end = state.segments.end_offset(place.segment, state.end)
    assert end is not None, "it has just been found"
    return Bounds(offset, end, place.segment.size_bytes, state.newest_epoch, first=not place.exact)


def _check_place(segment: Segment, data: bytes, begin: int, bounds: Bounds) -> Outcome:
    """Check the batches of a whole place. Only the next header in the file can explain a gap at its end."""
    outcome = check(data, begin, bounds)
    if outcome.wrong or outcome.size_bytes == len(data):
        return outcome
    after = bounds._replace(low=outcome.low, first=bounds.first and not outcome.size_bytes)
    with segment.reading() as fd:
        last = check_in_file(fd, begin + outcome.size_bytes, after)
    return Outcome(outcome.size_bytes + last.size_bytes, last.low, last.wrong)


def found_damaged(state: LogState, segment: Segment, position: int, why: str) -> LogError:
    """Remember that the batch at a position of a segment is damaged. The error to raise."""
    bounds = state.bounds_of(segment)
    if bounds is None:
        return StorageError(f"{segment.path} is no longer what it was")
    damage = assess(segment, position, why, bounds)
    state.damages.add(segment, damage)
    return DamagedBatchError(damage)


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
        if slow or not of_batches.may_read_at_once(header):
            raise OverBoundsError(f"the batch at offset {header.base_offset} may take long to read")
        return self.find(of_batches.bounds_at_once(header.codec))

    def find(self, bounds: of_batches.Bounds = of_batches.STORED) -> Timed | None:
        """The first such record, in any thread. Raises CorruptBatchError, StorageError."""
        self.data = self.data or self.extent.read()
        payload = payload_of(self.data, self.header, bounds)
        return first_at_or_after(payload, self.header, self.timestamp_ms, self.low, self.high)


def _stored(
    state: LogState, segment: Segment, header: BatchHeader, timestamp_ms: int, low: int, high: int
) -> StoredBatch | None:
    at = segment.find(header.base_offset)
    if at is None:
        return None
    extent = Extent(state, Place(segment, at.position, at.size_bytes, header.next_offset), header.base_offset)
    return StoredBatch(header, extent, timestamp_ms, low, high)


class Reader:
    """Reads one log. Offsets are checked against its start and end; bounds default to the watermark."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def place(self, offset: int, max_bytes: int, max_offset: int | None, min_one_batch: bool) -> Place | None:
        """The place of the batches from `offset` to `max_offset`, or None. Raises FetchOffsetOutOfRange."""
        state = self._state
        if not state.start <= offset <= state.end:
            raise FetchOffsetOutOfRange(f"offset {offset} is not within {state.start}..{state.end}")
        limit = state.watermark if max_offset is None else min(max_offset, state.end)
        if offset >= limit:
            return None
        place = self._locate(offset, max_bytes, limit, min_one_batch)
        return None if place is None else state.damages.undamaged(place)

    def _locate(self, offset: int, max_bytes: int, limit: int, min_one_batch: bool) -> Place | None:
        """`Segments.locate`, past damage that ends before `offset`."""
        state = self._state
        while True:  # damage that was found is passed the next time
            try:
                return state.segments.locate(offset, max_bytes, limit, state.end, min_one_batch)
            except BrokenChainError as error:
                found = found_damaged(state, error.segment, error.position, "its header cannot be right")
                if not isinstance(found, DamagedBatchError) or found.damage.last_offset >= offset:
                    raise found from error

    def read(self, place: Place, offset: int) -> tuple[bytes, int]:
        """The batches of a place from `offset` on, those before a damaged one, and the offset to read from next."""
        segment, begin = place.segment, place.position
        data = segment.read(begin, place.size_bytes)
        whole = len(data) == place.size_bytes
        if whole and segment.known.covers(begin, begin + len(data)):
            return data, place.next_offset
        outcome = _check_place(segment, data, begin, _bounds(self._state, place, offset))
        if whole and outcome.size_bytes == len(data):
            segment.known.add(begin, begin + len(data))
            return data, place.next_offset
        error = found_damaged(self._state, segment, begin + outcome.size_bytes, outcome.wrong or CUT_OFF)
        if not outcome.size_bytes:
            raise error
        return data[: outcome.size_bytes], outcome.low

    def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Whole batches from `offset` on, committed or not, and the offset to read from next."""
        end = self._state.end
        place = self.place(offset, max_bytes, end, True)
        if place is None:
            return b"", end
        return self.read(place, offset)

    def extents(self, max_bytes: int, max_offset: int | None) -> Iterator[Extent]:
        """The log from its start to `max_offset`, in pieces."""
        offset = self._state.start
        while (place := self.place(offset, max_bytes, max_offset, True)) is not None:
            extent = Extent(self._state, place, offset)
            yield extent
            offset = extent.next_offset

    def batch_with(self, timestamp_ms: int, since: int, max_offset: int | None) -> StoredBatch | None:
        """The first batch from `since` on, below `max_offset`, that has a record at or after `timestamp_ms`."""
        low, high = max(self._state.start, since), self._bound(max_offset)
        found = self._state.segments.batch_with(timestamp_ms, low, high)
        return None if found is None else _stored(self._state, *found, timestamp_ms, low, high)

    def newest(self, max_offset: int | None) -> StoredBatch | None:
        """The batch with the largest timestamp. As in Kafka, DeleteRecords takes nothing away from it."""
        found = self._state.segments.newest()
        if found is None:
            return None
        return _stored(self._state, *found, found[1].max_timestamp, 0, self._bound(max_offset))

    def _bound(self, max_offset: int | None) -> int:
        return self._state.watermark if max_offset is None else max_offset
