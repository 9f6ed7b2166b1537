"""Unsigned varints, and the tagged fields whose sizes they are (KIP-482)."""

from __future__ import annotations

from actors.wire.errors import TooManyEntriesError


def uvarint(value: int) -> bytes:
    """An unsigned varint, as flexible versions use for lengths and tags."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL = tuple(uvarint(n) for n in range(1024))


def compact_length(n: int) -> bytes:
    """The compact length of n items or bytes: n + 1, for 0 means null."""
    return SMALL[n + 1] if n < 1023 else uvarint(n + 1)


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """(value, next position). Raises ValueError beyond 32 bits."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                raise ValueError("varint longer than 32 bits")
            return value, pos
        shift += 7
        if shift > 28:
            raise ValueError("varint longer than 32 bits")


_TAGS_MAX = 1000


def skip_tags(data: bytes, pos: int) -> int:
    """The position after a section of tagged fields, all of which are unknown here. Raises ValueError for too many."""
    return skip_counted(data, pos, _TAGS_MAX)[0]


def skip_counted(data: bytes, pos: int, left: int) -> tuple[int, int]:
    """The same, and how many of the entries that are `left` to a message are left after it."""
    count, pos = read_uvarint(data, pos)
    left -= count
    if left < 0:
        too_many()
    for _ in range(count):
        _, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        pos += size
        if pos > len(data):
            raise ValueError("tagged field reaches beyond the frame")
    return pos, left


def too_many() -> None:
    """Raise TooManyEntriesError: a list is longer than what is left to its message."""
    raise TooManyEntriesError("the message has too many entries")


def short(what: str) -> None:
    """Raise ValueError for a length that is null or reaches beyond the frame."""
    raise ValueError(f"{what} reaches beyond the frame or is null where it may not be")
