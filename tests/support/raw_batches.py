"""Record batches written and read by hand, right ones and wrong ones.

Nothing here uses `actors.records`, so that a mistake there cannot hide itself. Each batch that is built has the right
checksum, unless a test asks for another.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import cramjam
import crc32c
import lz4.frame
import zstandard

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOW = 1_700_000_000_000
LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40
HEADER_BYTES = 61

_AFTER_CRC = struct.Struct(">hiqqqhiI")
_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_ZSTD_BLOCK = 128 << 10

Name = bytes
Headers = Sequence[tuple[Name, bytes | None]]


# -- writing


def zigzag(number: int) -> int:
    """The unsigned number that a signed one is written as. It may have more than 64 bits, as only attacks do."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def varint(number: int, width: int = 0) -> bytes:
    """A signed varint. With `width` it takes so many bytes, though fewer would do."""
    left, out = zigzag(number), bytearray()
    while left > 127 or len(out) < width - 1:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes(out) + bytes([left])


def sized(data: bytes | None, size: int | bytes | None = None) -> bytes:
    """Bytes with their length in front, or with another one."""
    if size is None:
        size = -1 if data is None else len(data)
    return (size if isinstance(size, bytes) else varint(size)) + (data or b"")


def record(
    offset: int | bytes = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Headers = (),
    time: int | bytes = 0,
    *,
    attributes: int = 0,
    length: int | bytes | None = None,
    key_size: int | bytes | None = None,
    value_size: int | bytes | None = None,
    header_count: int | bytes | None = None,
    header_bytes: bytes | None = None,
) -> bytes:
    """One record. `offset` and `time` are deltas. Numbers that are given as bytes are written as they are."""

    def number(given: int | bytes) -> bytes:
        return given if isinstance(given, bytes) else varint(given)

    if header_bytes is None:
        header_bytes = b"".join(sized(name) + sized(content) for name, content in headers)
    content = b"".join(
        [
            bytes([attributes]),
            number(time),
            number(offset),
            sized(key, key_size),
            sized(value, value_size),
            number(len(headers) if header_count is None else header_count),
            header_bytes,
        ]
    )
    return number(len(content) if length is None else length) + content


def records(count: int, times: Iterable[int] = (), **fields: object) -> bytes:
    """So many records with offset deltas 0, 1, 2, ... and different values."""
    given = list(times) or [0] * count
    return b"".join(
        record(number, b"k%d" % number, b"value %d" % number, time=given[number], **fields)  # type: ignore[arg-type]
        for number in range(count)
    )


def batch(
    payload: bytes,
    count: int,
    codec: str = "none",
    *,
    packed: bytes | None = None,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    first_time: int = NOW,
    max_time: int = NOW,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = -1,
    magic: int = 2,
    crc_off_by: int = 0,
) -> bytes:
    """A batch of this payload, which is compressed unless it is given as `packed`. `attributes`: besides the codec."""
    data = pack(codec, payload) if packed is None else packed
    last = count - 1 if last_offset_delta is None else last_offset_delta
    fields = (CODECS[codec] | attributes, last, first_time, max_time, *producer, count & 0xFFFFFFFF)
    body = _AFTER_CRC.pack(*fields) + data
    crc = crc32c.crc32c(body) + crc_off_by & 0xFFFFFFFF
    return struct.pack(">qiibI", base_offset, len(body) + 9, leader_epoch, magic, crc) + body


def pack(codec: str, plain: bytes) -> bytes:
    """One frame, as Kafka's clients write it."""
    match codec:
        case "gzip":
            return gzip.compress(plain)
        case "snappy":
            blocks = (plain[at : at + _XERIAL_BLOCK] for at in range(0, len(plain), _XERIAL_BLOCK))
            packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
            return _XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in packed)
        case "lz4":
            return bytes(lz4.frame.compress(plain, block_linked=False))
        case "zstd":
            return zstandard.ZstdCompressor().compress(plain)
    return plain


def zstd_of_unknown_size(plain: bytes) -> bytes:
    """A zstd frame that does not state how long its content is, as Java writes it."""
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return packer.compress(plain) + packer.flush()


def skippable(content: bytes) -> bytes:
    """A zstd frame that readers pass over."""
    return struct.pack("<II", 0x184D2A53, len(content)) + content


def zstd_bomb(plain_bytes: int, *, states_size: bool = False) -> bytes:
    """A zstd frame of zeros, four bytes for each 128 KiB, whose header may or may not state how many they are."""
    about = b"\xe0" + struct.pack("<Q", plain_bytes) if states_size else b"\x00\x50"
    parts = [struct.pack("<I", 0xFD2FB528), about]
    for at in range(0, plain_bytes, _ZSTD_BLOCK):
        size = min(_ZSTD_BLOCK, plain_bytes - at)
        is_last = at + size == plain_bytes
        parts.append((size << 3 | 1 << 1 | is_last).to_bytes(3, "little") + b"\0")
    return b"".join(parts)


def snappy_that_states(plain_bytes: int) -> bytes:
    """Raw snappy whose first bytes state such a length."""
    out, left = bytearray(), plain_bytes
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes(out) + bytes([left]) + b"\0"


def bomb(codec: str, plain_bytes: int) -> bytes:
    """A frame of so many bytes of zeros; of snappy, which packs nothing that small, one that only states so many."""
    if codec == "zstd":
        return zstd_bomb(plain_bytes)
    return snappy_that_states(plain_bytes) if codec == "snappy" else pack(codec, bytes(plain_bytes))


# -- reading


class Raw(NamedTuple):
    """All of one record that compaction and recompression must keep."""

    offset: int
    time: int
    attributes: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class RawHeader(NamedTuple):
    """The fields of a batch's header that tests look at."""

    base_offset: int
    attributes: int
    last_offset_delta: int
    first_time: int
    max_time: int
    count: int

    @property
    def codec(self) -> str:
        return next(name for name, number in CODECS.items() if number == self.attributes & 7)


def batches_in(data: bytes) -> Iterator[tuple[RawHeader, bytes]]:
    """Header and compressed payload of each batch. The checksums must be right."""
    at = 0
    while at < len(data):
        base, length, _, magic, crc = struct.unpack_from(">qiibI", data, at)
        body = data[at + 21 : at + 12 + length]
        assert (magic, crc) == (2, crc32c.crc32c(body))
        attributes, last, first_time, max_time, _, _, _, count = _AFTER_CRC.unpack_from(body)
        yield RawHeader(base, attributes, last, first_time, max_time, count), body[_AFTER_CRC.size :]
        at += 12 + length


def records_in(data: bytes) -> list[Raw]:
    """Each record of each batch. A batch must hold exactly one frame of its codec, filled by its records."""
    return [each for header, packed in batches_in(data) for each in _records_of(header, packed)]


def unpack(codec: str, packed: bytes) -> bytes:
    """The bytes that `pack` has put into one frame."""
    match codec:
        case "gzip":
            return gzip.decompress(packed)
        case "snappy":
            assert packed.startswith(_XERIAL)
            parts, at = [], len(_XERIAL)
            while at < len(packed):
                end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
                parts.append(bytes(cramjam.snappy.decompress_raw(packed[at + 4 : end])))
                at = end
            return b"".join(parts)
        case "lz4":
            plain, used = lz4.frame.decompress(packed, return_bytes_read=True)
            assert used == len(packed)
            return bytes(plain)
        case "zstd":
            unpacker = zstandard.ZstdDecompressor().decompressobj()
            plain = unpacker.decompress(packed)
            assert unpacker.eof
            assert not unpacker.unused_data
            return plain
    return packed


def _records_of(header: RawHeader, packed: bytes) -> Iterator[Raw]:
    plain = unpack(header.codec, packed)
    reader = _Reader(plain)
    for _ in range(header.count):
        end = reader.varint() + reader.at
        attributes = reader.take(1)[0]
        time, offset = reader.varint(), reader.varint()
        key, value = reader.sized(), reader.sized()
        headers = tuple((reader.sized() or b"", reader.sized()) for _ in range(reader.varint()))
        assert reader.at == end
        stamped = header.max_time if header.attributes & LOG_APPEND_TIME else header.first_time + time
        yield Raw(header.base_offset + offset, stamped, attributes, key, value, headers)
    assert reader.at == len(plain)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        assert 0 <= size <= len(self.data) - self.at
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return -(value + 1 >> 1) if value & 1 else value >> 1

    def sized(self) -> bytes | None:
        size = self.varint()
        return None if size == -1 else self.take(size)
