"""Facts about batches that are read without their whole headers, for a caller that passes over many."""

from __future__ import annotations

import struct
from typing import Final

from actors.records.batch import HEADER_BYTES, LENGTH_BYTES, Buffer

BRIEF: Final = struct.Struct(">qi11xi")
"""Base offset, length, last offset delta: all that finding a batch by its offset needs."""
_KIND: Final = struct.Struct(">8xi10xB")
"""A batch's length, and the half of its attributes that is in use."""
_MAGIC_AT: Final = 16


def magic_of(buffer: Buffer) -> int | None:
    """The format of the batch, or message set, at the beginning of a buffer; None if there is too little of it."""
    return buffer[_MAGIC_AT] if len(buffer) > _MAGIC_AT else None


def any_marked(batches: bytes, attributes: int) -> bool:
    """True if one of whole batches has one of these attributes."""
    position, size, unpack = 0, len(batches), _KIND.unpack_from
    while position + HEADER_BYTES <= size:
        length, found = unpack(batches, position)
        if found & attributes:
            return True
        if length < 0:
            return False  # corrupt, as whoever reads it will find
        position += LENGTH_BYTES + length
    return False
