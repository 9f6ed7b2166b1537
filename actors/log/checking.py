"""Checks batches that come from a file before anybody is given them: checksum, magic, length, order of offsets.

**The bytes that are checked.** Those of which this process does not know that they are right: it knows it of what it
has written itself since it opened the segment (an append checks each batch), and of what it has checked once. It
forgets that for the whole segment when it meets bytes of it that are no longer in the machine's memory (`in_memory`):
what is read then comes from the disk.

**Limits.** The kernel is asked only about the first and the last page of a read; and pages that something else than the
log has brought back into memory (another process, a walk over headers by time) pass for pages that never left. Base
offset, length and leader epoch are outside a batch's checksum. A wrong offset is seen by its neighbours, unless it
passes for a gap that compaction has left; an epoch is only compared with the newest one.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from actors.records.batch import (
    HEADER_BYTES,
    NO_CRC,
    BatchHeader,
    Buffer,
    crc_continued,
    crc_matches,
    read_base_offset,
    read_header,
)
from actors.records.soundness import sound_row

_RANGES_MAX: Final = 64
_CHUNK_BYTES: Final = 256 << 10
_CHECKSUM: Final = "its checksum does not match"
CUT_OFF: Final = "the file ends within it"
_probed = bytearray(1)  # its content is never looked at


class Known:
    """The parts of a file of which it is known that they are right: ranges of bytes, ascending, apart.

    Readers in several threads add to it; then the worst is that a range is lost, and read and checked again.
    """

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def covers(self, begin: int, end: int) -> bool:
        """True if all bytes from `begin` to `end` are known."""
        ranges = self._ranges
        number = bisect_right(ranges, begin, key=_begin)
        return bool(number) and end <= ranges[number - 1][1]

    def touches(self, begin: int, end: int) -> bool:
        """True if any of these bytes is known."""
        ranges = self._ranges
        number = bisect_left(ranges, end, key=_begin)
        return bool(number) and ranges[number - 1][1] > begin

    def add(self, begin: int, end: int) -> None:
        """These bytes are right."""
        ranges = self._ranges
        if ranges and ranges[-1][1] == begin:  # most often a log grows, or is read in order
            ranges[-1] = (ranges[-1][0], end)
            return
        joined = [(a, b) for a, b in ranges if a <= end and b >= begin]
        apart = [(a, b) for a, b in ranges if a > end or b < begin]
        apart.append((min([begin, *(a for a, _ in joined)]), max([end, *(b for _, b in joined)])))
        apart.sort()
        if len(apart) > _RANGES_MAX:
            apart.remove(min(apart[:-1], key=_length))
        self._ranges = apart

    def forget(self) -> None:
        """Nothing is known any more."""
        self._ranges = []


def _begin(pair: tuple[int, int]) -> int:
    return pair[0]


def _length(pair: tuple[int, int]) -> int:
    return pair[1] - pair[0]


def in_memory(fd: int, begin: int, end: int) -> bool:
    """True if the first and the last byte of a range are in the machine's memory, or the system cannot say."""
    try:
        os.preadv(fd, (_probed,), begin, os.RWF_NOWAIT)
        os.preadv(fd, (_probed,), end - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # tmpfs, which is memory, and old file systems
    return True


class Bounds(NamedTuple):
    """The offsets that batches may have: from `low` on, up to before `end`. The last one ends at byte `limit`.

    `first`: whether the first batch may begin before `low`, because `low` is an offset within it.
    """

    low: int
    end: int
    limit: int
    latest_epoch: int
    first: bool = False


class Outcome(NamedTuple):
    """Sound batches, `size_bytes` of them, after which offset `low` comes.

    `wrong`: what is wrong with the batch after them. "" if nothing is, or if too little of it was there.
    """

    size_bytes: int
    low: int
    wrong: str


def check(data: Buffer, at: int, bounds: Bounds) -> Outcome:
    """Check the batches in a buffer, which was read at byte `at` of the file, as far as they are whole."""
    view = memoryview(data)
    position, low = sound_row(view, bounds.low, bounds.end, bounds.latest_epoch)
    if position:
        bounds = bounds._replace(low=low, first=False)
    while position + HEADER_BYTES <= len(view):
        header = read_header(view, position)
        end = position + header.size_bytes
        wrong = _wrong_fields(header, at + position, bounds)
        if wrong:
            return Outcome(position, bounds.low, wrong)
        if end > len(view):
            break
        if header.base_offset > bounds.low and at + end < bounds.limit:
            if end + HEADER_BYTES > len(view):
                break
            wrong = _wrong_gap(header, bounds.low, read_base_offset(view, end))
        if wrong or not crc_matches(view[position:end], header.crc):
            return Outcome(position, bounds.low, wrong or _CHECKSUM)
        row, low = sound_row(view[end:], header.next_offset, bounds.end, bounds.latest_epoch)
        position = end + row
        bounds = bounds._replace(low=low, first=False)
    return Outcome(position, bounds.low, "")


def check_in_file(fd: int, position: int, bounds: Bounds) -> Outcome:
    """Check the one batch at a position, however long it is."""
    data = os.pread(fd, HEADER_BYTES, position)
    if len(data) < HEADER_BYTES:
        return Outcome(0, bounds.low, CUT_OFF)
    header = read_header(data)
    end = position + header.size_bytes
    wrong = _wrong_fields(header, position, bounds)
    if not wrong and header.base_offset > bounds.low and end < bounds.limit:
        after = os.pread(fd, HEADER_BYTES, end)
        wrong = _wrong_gap(header, bounds.low, read_base_offset(after)) if len(after) == HEADER_BYTES else CUT_OFF
    wrong = wrong or _wrong_checksum(fd, position, end, header.crc)
    return Outcome(0, bounds.low, wrong) if wrong else Outcome(header.size_bytes, header.next_offset, "")


def rest_of_batch(data: Buffer, begin: int) -> int:
    """The missing bytes of the batch that begins at `begin` of a buffer; 0 if no sound header is there."""
    if begin + HEADER_BYTES > len(data):
        return 0
    header = read_header(data, begin)
    return max(begin + header.size_bytes - len(data), 0) if header.is_sound else 0


def _wrong_fields(header: BatchHeader, position: int, bounds: Bounds) -> str:
    """The field without a checksum that cannot be right, in words; "" if all can."""
    if not header.is_sound:
        return f"no batch has length {header.length} and magic {header.magic}"
    if header.last_offset_delta < 0 or (header.last_offset if bounds.first else header.base_offset) < bounds.low:
        return f"offset {header.base_offset} is out of order"
    if header.next_offset > bounds.end:
        return f"offset {header.last_offset} is past the end at {bounds.end}"
    if position + header.size_bytes > bounds.limit:
        return f"its {header.size_bytes} bytes lead past the end"
    if header.leader_epoch > bounds.latest_epoch:
        return f"no leader has epoch {header.leader_epoch}"
    return ""


def _wrong_gap(header: BatchHeader, low: int, next_base: int) -> str:
    return f"offset {header.base_offset} is out of order" if contradicted(header, low, next_base) else ""


def contradicted(header: BatchHeader, low: int, next_base: int) -> bool:
    """True if the next batch's offset shows that compaction did not leave the gap before a batch, from `low` on."""
    return next_base < header.next_offset or next_base == low + header.last_offset_delta + 1


def _wrong_checksum(fd: int, position: int, end: int, crc: int) -> str:
    found, at = NO_CRC, position
    buffer = memoryview(bytearray(min(_CHUNK_BYTES, end - position)))  # one for all chunks: new memory costs more
    while at < end:
        size = os.preadv(fd, (buffer[: end - at],), at)
        if not size:
            return CUT_OFF
        found = crc_continued(buffer[:size], found, begins=at == position)
        at += size
    return "" if found == crc else _CHECKSUM
