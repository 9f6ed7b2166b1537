"""A walk over a segment's file when its indexes are made anew: the sound batches, and what is damaged between them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from actors.log.checking import contradicted
from actors.records.batch import (
    HEADER_BYTES,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    crc_matches,
    read_base_offset,
    read_header,
)

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_MAGIC: Final = bytes([MAGIC])
_MAGIC_AT: Final = 16  # in a batch


class BatchAt(NamedTuple):
    """The place of a batch in its segment."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int

    @property
    def end(self) -> int:
        return self.position + self.size_bytes


class Walk:
    """The headers of the batches from the beginning of a file on, up to the first one that is cut off or damaged.

    Damage that is known, or that begins and ends before offset `flushed_to`, is passed over if a sound batch follows.
    `end`: the offset before which all of the file is, if that is known.
    `passed` is what was passed over before the header that was given last; after the walk, what was behind that.
    """

    def __init__(
        self,
        content: mmap.mmap,
        view: memoryview,
        base_offset: int,
        verify: bool,
        flushed_to: int,
        known: Mapping[int, BatchAt],
        end: int | None = None,
    ) -> None:
        self._content = content
        self._view = view
        self._base_offset = base_offset
        self._verify = verify
        self._flushed_to = flushed_to
        self._known = known
        self._limit = base_offset + MAX_RELATIVE_OFFSET + 1 if end is None else end
        self.passed: list[BatchAt] = []

    def __iter__(self) -> Iterator[BatchHeader]:
        position, low = 0, self._base_offset
        while position + HEADER_BYTES <= len(self._view):
            damaged = self._known.get(position)
            header = self._sound(position, low, verify=self._verify) if damaged is None else None
            if header is not None:
                yield header
                self.passed.clear()
                position, low = position + header.size_bytes, header.next_offset
                continue
            damaged = damaged or self._damage(position, low)
            if damaged is None:
                return
            self.passed.append(damaged)
            position, low = damaged.end, damaged.last_offset + 1

    def _sound(self, position: int, low: int, *, verify: bool) -> BatchHeader | None:
        """The header of the batch at a position, after which all offsets below `low` come; None if it is not sound."""
        view = self._view
        header = read_header(view, position)
        end = position + header.size_bytes
        if not header.is_sound or end > len(view):
            return None
        if header.base_offset < low or header.last_offset_delta < 0:
            return None
        if header.last_offset >= self._limit:
            return None
        has_gap = low < min(header.base_offset, self._flushed_to) and end + HEADER_BYTES <= len(view)
        if has_gap and self._contradicts(end, header, low):
            return None
        if verify and not crc_matches(view[position:end], header.crc):
            return None
        return header

    def _contradicts(self, end: int, header: BatchHeader, low: int) -> bool:
        """True if the next batch shows that there is no gap. A batch that a crash has torn shows nothing."""
        after = read_header(self._view, end)
        return after.is_sound and contradicted(header, low, after.base_offset)

    def _damage(self, position: int, low: int) -> BatchAt | None:
        """The damage from a position on, where `low` is the next offset; None if that may be a crash's doing."""
        if low >= self._flushed_to:
            return None
        header = read_header(self._view, position)
        own_end = position + header.size_bytes if header.length >= MIN_LENGTH else -1
        for candidate in self._candidates(position, own_end):
            first = read_base_offset(self._view, candidate)
            if not low < first <= self._flushed_to:
                continue
            found = self._sound(candidate, first, verify=True)
            if found is not None and (candidate == own_end or self._is_followed(candidate, found)):
                return BatchAt(position, candidate - position, low, first - 1)
        return None

    def _candidates(self, position: int, own_end: int) -> Iterator[int]:
        """The positions at which the next sound batch may begin: there is room for a header."""
        last = len(self._view) - HEADER_BYTES
        if position < own_end <= last:
            yield own_end
        end = last + _MAGIC_AT + 1
        found = self._content.find(_MAGIC, position + 1 + _MAGIC_AT, end)
        while found >= 0:
            yield found - _MAGIC_AT
            found = self._content.find(_MAGIC, found + 1, end)

    def _is_followed(self, position: int, header: BatchHeader) -> bool:
        """True if another batch comes after this sound one, or the file or its flushed part ends.

        A record may hold the bytes of a batch. But more bytes of the record follow these.
        """
        end = position + header.size_bytes
        if end == len(self._view) or header.next_offset >= self._flushed_to:
            return True  # a crash may have torn what was not flushed
        if end + HEADER_BYTES > len(self._view):
            return False
        after = read_header(self._view, end)
        return after.is_sound and after.base_offset >= header.next_offset
