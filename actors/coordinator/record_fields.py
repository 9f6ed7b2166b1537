"""Kafka's primitives in the records of coordinators: how fields are written, and read."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

from actors.coordinator.records import CorruptRecordError

MAX_STRING_BYTES = 32_767

I16 = Struct(">h")
I32 = Struct(">i")
I64 = Struct(">q")


def string(text: str) -> bytes:
    data = text.encode()
    return I16.pack(len(data)) + data


def nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text)


def uvarint(value: int) -> bytes:
    """As compact strings and arrays begin; of what is not negative."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def with_length(data: bytes) -> bytes:
    return I32.pack(len(data)) + data


def fits(*texts: str | None) -> bool:
    """True if each text can stand in a record: a string has 32,767 bytes at most."""
    return all(len(text) * 4 <= MAX_STRING_BYTES or _fits(text) for text in texts if text is not None)


def _fits(text: str) -> bool:
    return len(text.encode()) <= MAX_STRING_BYTES


class FieldReader:
    """Reads Kafka's primitives off `data`, in order. Raises CorruptRecordError when they are not there."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def _take(self, layout: Struct) -> int:
        try:
            (value,) = layout.unpack_from(self.data, self.position)
        except StructError:
            raise CorruptRecordError("a number is cut off") from None
        self.position += layout.size
        return int(value)

    def i16(self) -> int:
        return self._take(I16)

    def i32(self) -> int:
        return self._take(I32)

    def i64(self) -> int:
        return self._take(I64)

    def varint(self) -> int:
        value = shift = 0
        while True:
            if self.position >= len(self.data) or shift > 28:
                raise CorruptRecordError("a varint is cut off or too long")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise CorruptRecordError("a field is longer than its record")
        data = self.data[self.position : end]
        self.position = end
        return data

    def nullable_string(self, flexible: bool) -> str | None:
        length = self.varint() - 1 if flexible else self.i16()
        if length == -1:
            return None
        try:
            return self.raw(length).decode()
        except UnicodeDecodeError:
            raise CorruptRecordError("a string is not UTF-8") from None

    def string(self, flexible: bool) -> str:
        text = self.nullable_string(flexible)
        if text is None:
            raise CorruptRecordError("a string is null that must not be")
        return text

    def tagged(self) -> dict[int, bytes]:
        """The tagged fields that end a struct, by their tags."""
        return {self.varint(): self.raw(self.varint()) for _ in range(self.varint())}

    def bytes(self, flexible: bool) -> bytes:
        length = self.varint() - 1 if flexible else self.i32()
        return b"" if length == -1 else self.raw(length)

    def count(self, flexible: bool) -> int:
        count = self.varint() - 1 if flexible else self.i32()
        if not 0 <= count <= len(self.data):
            raise CorruptRecordError("an array has an impossible length")
        return count

    def tags(self, flexible: bool) -> None:
        if flexible:
            for _ in range(self.varint()):
                self.varint()
                self.raw(self.varint())
