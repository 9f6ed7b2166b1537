"""The extent of damage in a segment's file: its bytes, and the offsets they should have.

The header of a damaged batch says neither for certain. So damage ends where a sound batch is found: where the header
leads to, or at an entry of the index, or at the end of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from actors.log.checking import Bounds, check_in_file
from actors.log.damage import Damage
from actors.log.segment import BrokenChainError, Segment
from actors.records.batch import HEADER_BYTES, MIN_LENGTH, read_base_offset, read_header


def assess(segment: Segment, position: int, why: str, bounds: Bounds) -> Damage:
    """The damage that begins at the batch at `position`. `bounds` are those of the segment. Raises StorageError."""
    with segment.reading() as fd:
        first = _offset_before(segment, position)
        after = bounds._replace(low=first + 1)
        for candidate in _candidates(segment, fd, position):
            if candidate < bounds.limit and check_in_file(fd, candidate, after).size_bytes:
                last = read_base_offset(os.pread(fd, HEADER_BYTES, candidate)) - 1
                return Damage(segment.path, position, candidate - position, first, last, why)
    return Damage(segment.path, position, bounds.limit - position, first, bounds.end - 1, why)


def _offset_before(segment: Segment, position: int) -> int:
    """The offset after the batch before a position; where the segment begins, if that is the first one."""
    try:
        before = segment.last_batch_until(position) if position else None
    except BrokenChainError:
        before = None  # damaged, too
    return segment.base_offset if before is None else before.last_offset + 1


def _candidates(segment: Segment, fd: int, position: int) -> Iterator[int]:
    """The positions at which the next sound batch may begin."""
    header = read_header(os.pread(fd, HEADER_BYTES, position).ljust(HEADER_BYTES, b"\0"))
    if header.length >= MIN_LENGTH:
        yield position + header.size_bytes
    yield from (indexed for _, indexed in segment.offsets if indexed > position)
