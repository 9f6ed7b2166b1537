"""The segments of a log in order: finds the segment and the positions of offsets and timestamps.

Never changes a file.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from actors.log.segment import BrokenChainError, Segment
from actors.log.walking import BatchAt
from actors.records.batch import BatchHeader

_MAX_HINTS: Final = 128


class Place(NamedTuple):
    """Whole batches in one segment; the next read goes on at `next_offset`.

    `exact`: whether the first batch follows the one before the offset that was asked for. Else it may hold that offset.
    """

    segment: Segment
    position: int
    size_bytes: int
    next_offset: int
    exact: bool = False


class Segments:
    """Segments, ascending by base offset. A log that is open has at least one; the last one is the active one."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        # By the offset a reader will ask for next: where that is. So sequential readers need no search.
        self._hints: dict[int, tuple[Segment, int]] = {}
        self._end_of: tuple[int, Segment, int] | None = None

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def after(self, count: int) -> list[Segment]:
        """All but the first `count`."""
        return self._segments[count:]

    def bases(self) -> tuple[int, ...]:
        return tuple(self._bases)

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    def closed(self) -> list[Segment]:
        """All but the active segment."""
        return self._segments[:-1]

    @property
    def size_bytes(self) -> int:
        return sum([segment.size_bytes for segment in self._segments])  # a list, because most logs have one segment

    @property
    def newest_ms(self) -> int:
        """The largest timestamp of all records, committed or not; -1 if there is none. No file is read for it."""
        return max([segment.max_timestamp for segment in self._segments])

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def replace(self, segments: list[Segment]) -> None:
        """Use other segments from now on, and forget remembered positions."""
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._hints.clear()
        self._end_of = None

    def end_of(self, number: int) -> int:
        """The end offset of the closed segment `number`, which is the base offset of the next one."""
        return self._bases[number + 1]

    def end_offset(self, segment: Segment, log_end_offset: int) -> int | None:
        """Before which offset a segment ends; None if it is none of these."""
        number = self.index_of(segment.base_offset)
        if self._segments[number] is not segment:
            return None
        return log_end_offset if segment is self.active else self._bases[number + 1]

    def index_of(self, offset: int) -> int:
        """The number of the segment that has `offset`; 0 if it is before all segments."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def find(self, offset: int) -> tuple[Segment, BatchAt] | None:
        """The first batch whose last offset is at least `offset`, and its segment."""
        for segment in self._segments[self.index_of(offset) :]:
            batch = segment.find(offset)
            if batch is not None:
                return segment, batch
        return None

    def locate(
        self, offset: int, max_bytes: int, max_offset: int, log_end_offset: int, min_one_batch: bool
    ) -> Place | None:
        """Whole batches from the one that holds `offset` on, all below `max_offset`; None if there are none."""
        segment, position, first = self._start(offset)
        if segment is None:
            return None
        end, next_offset = self._end(segment, max_offset, log_end_offset)
        limit, exact = position + max_bytes, first is None
        if limit < end:
            last = segment.last_batch_until(limit, position)
            if last is None:
                first = first or next(segment.walk(position), None)
                if not min_one_batch or first is None or first.end > end:
                    return None
                last = first
            end, next_offset = last.end, last.last_offset + 1
        if end <= position:
            return None
        self._remember(next_offset, segment, end)
        return Place(segment, position, end - position, next_offset, exact)

    def _start(self, offset: int) -> tuple[Segment | None, int, BatchAt | None]:
        hint = self._hints.get(offset)
        if hint is not None and hint[1] < hint[0].size_bytes:
            return hint[0], hint[1], None
        found = self.find(offset)
        if found is None:
            return None, 0, None
        return found[0], found[1].position, found[1]

    def _end(self, segment: Segment, max_offset: int, log_end_offset: int) -> tuple[int, int]:
        """(position, offset) at which reading in `segment` must stop, whatever the size asked for."""
        if segment is self.active:
            segment_end = log_end_offset
        else:
            segment_end = self.end_of(self.index_of(segment.base_offset))
        if max_offset >= segment_end:
            return segment.size_bytes, segment_end
        known = self._end_of
        if known is None or known[0] != max_offset or known[1] is not segment:
            try:
                batch = segment.find(max_offset)
            except BrokenChainError as error:  # reading ends there, if it begins before
                batch = segment.last_batch_until(error.position)
                if batch is None:
                    raise
                return batch.end, batch.last_offset + 1
            known = (max_offset, segment, batch.position if batch else segment.size_bytes)
            self._end_of = known
        return known[2], max_offset

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        hints = self._hints
        if len(hints) >= _MAX_HINTS and offset not in hints:
            del hints[next(iter(hints))]
        hints[offset] = segment, position

    def bytes_from(self, offset: int) -> int:
        """The bytes from the last index entry at or before `offset` on."""
        first, *others = self._segments[self.index_of(offset) :]
        entry = first.offsets.floor_first(max(offset - first.base_offset, 0))
        return first.size_bytes - (entry[1] if entry else 0) + sum(each.size_bytes for each in others)

    # -- timestamps

    def batch_with(self, timestamp_ms: int, low: int, high: int) -> tuple[Segment, BatchHeader] | None:
        """The first batch with offsets from `low` to below `high` that has a record at or after `timestamp_ms`."""
        for segment in self._segments[self.index_of(low) :]:
            if segment.max_timestamp < timestamp_ms:
                continue
            entry = segment.times.floor_first(timestamp_ms - 1)
            start = max(low, segment.base_offset + (entry[1] if entry else 0))
            for header in segment.headers_from(start):
                if header.base_offset >= high:
                    return None
                if header.max_timestamp >= timestamp_ms:
                    return segment, header
        return None

    def newest(self) -> tuple[Segment, BatchHeader] | None:
        """The first batch with the largest timestamp of all that are in files; None if there is no batch."""
        segments = [segment for segment in self._segments if segment.size_bytes]
        if not segments:
            return None
        segment = max(segments, key=lambda each: (each.max_timestamp, -each.base_offset))
        for header in segment.headers_from(segment.max_timestamp_offset):
            return segment, header
        return None
