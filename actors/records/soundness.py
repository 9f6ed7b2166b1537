"""The quick way through batches that are as they should be: in a row, with offsets without gaps. A hot path."""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from actors.records.batch import LENGTH_BYTES, MAGIC, MIN_LENGTH

_BEGINNING: Final = struct.Struct(">qiibIhi")  # a header up to the last offset delta
_ATTRIBUTES_AT: Final = 21


def sound_row(view: memoryview, low: int, end_offset: int, latest_epoch: int) -> tuple[int, int]:
    """The size of the sound batches at the beginning with offsets from `low` on, and the offset after them.

    Later batches may be sound as well, after a gap or cut off: the caller has to look at them more closely.
    """
    unpack, checksum, need = _BEGINNING.unpack_from, crc32c.crc32c, _BEGINNING.size
    position, size = 0, len(view)
    while position + need <= size:
        base, length, epoch, magic, crc, _, delta = unpack(view, position)
        end = position + LENGTH_BYTES + length
        if base != low or magic != MAGIC or length < MIN_LENGTH or end > size:
            break
        if delta < 0 or base + delta >= end_offset or epoch > latest_epoch:
            break
        if checksum(view[position + _ATTRIBUTES_AT : end]) != crc:
            break
        position, low = end, base + delta + 1
    return position, low
