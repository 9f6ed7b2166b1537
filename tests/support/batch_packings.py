"""The frames in which producers may put their records, and the records that the libraries alone read in them.

Nothing here uses `actors.records`.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.block
import lz4.frame
import zstandard

from tests.support import raw_batches as raw

_ZSTD_BLOCK = 128 << 10
LONGEST = 4 << 20
"""The longest records, decompressed, that a broker should take."""

_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def _halves(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def both(plain: bytes) -> bytes:
        middle = len(plain) // 2
        return pack(plain[:middle]) + pack(plain[middle:])

    return both


def _one(codec: str) -> Callable[[bytes], bytes]:
    return lambda plain: raw.pack(codec, plain)


def _gzip_with_fields(plain: bytes) -> bytes:
    """A member with a name, a comment, extra bytes and a checksum of its header."""
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + struct.pack("<H", 3) + b"abc" + b"name\0" + b"comment\0"
    packer = zlib.compressobj(wbits=-15)
    sums = struct.pack("<II", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)
    return head + struct.pack("<H", zlib.crc32(head) & 0xFFFF) + packer.compress(plain) + packer.flush() + sums


def _snappy(block: int) -> Callable[[bytes], bytes]:
    def pack(plain: bytes) -> bytes:
        parts = [bytes(cramjam.snappy.compress_raw(plain[at : at + block])) for at in range(0, len(plain), block)]
        return _XERIAL + b"".join(struct.pack(">i", len(part)) + part for part in parts)

    return pack


def _lz4(**options: Any) -> Callable[[bytes], bytes]:
    return lambda plain: bytes(lz4.frame.compress(plain, **{"block_linked": False, **options}))


def _zstd(**options: Any) -> Callable[[bytes], bytes]:
    return lambda plain: zstandard.ZstdCompressor(**options).compress(plain)


def _zstd_of_window(log: int) -> Callable[[bytes], bytes]:
    """A frame that states a window of 2^log bytes, in blocks that are not compressed."""
    head = struct.pack("<IBB", 0xFD2FB528, 0, log - 10 << 3)

    def pack(plain: bytes) -> bytes:
        blocks = [plain[at : at + _ZSTD_BLOCK] for at in range(0, len(plain), _ZSTD_BLOCK)] or [b""]
        sizes = [(len(block) << 3).to_bytes(3, "little") for block in blocks]
        sizes[-1] = (len(blocks[-1]) << 3 | 1).to_bytes(3, "little")
        return head + b"".join(size + block for size, block in zip(sizes, blocks, strict=True))

    return pack


def _lz4_legacy(plain: bytes) -> bytes:
    block = lz4.block.compress(plain, store_size=False)
    return struct.pack("<II", 0x184C2102, len(block)) + block


PACKINGS: dict[str, dict[str, Callable[[bytes], bytes]]] = {
    "none": {"one": bytes},
    "gzip": {
        "one": _one("gzip"),
        "stored": lambda plain: gzip.compress(plain, 0),
        "fields": _gzip_with_fields,
        "two members": _halves(gzip.compress),
        "an empty member first": lambda plain: gzip.compress(b"") + gzip.compress(plain),
        "an empty member last": lambda plain: gzip.compress(plain) + gzip.compress(b""),
        "zeros behind": lambda plain: gzip.compress(plain) + bytes(5),
    },
    "snappy": {
        "one": _one("snappy"),
        "raw": lambda plain: bytes(cramjam.snappy.compress_raw(plain)),
        "blocks of 20 bytes": _snappy(20),
        "an empty block": lambda plain: _snappy(1 << 15)(plain) + struct.pack(">i", 1) + b"\0",
        "two streams": _halves(_one("snappy")),
        "other versions": lambda plain: _XERIAL[:8] + bytes(8) + _snappy(1 << 15)(plain)[16:],
    },
    "lz4": {
        "one": _one("lz4"),
        "linked": lambda plain: bytes(lz4.frame.compress(plain, block_linked=True)),
        "size": _lz4(store_size=True),
        "checksums": _lz4(content_checksum=True, block_checksum=True),
        "the older format": _lz4_legacy,
        "large blocks": _lz4(block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        "two frames": _halves(_one("lz4")),
        "an empty frame first": lambda plain: raw.pack("lz4", b"") + raw.pack("lz4", plain),
        "skippable behind": lambda plain: raw.pack("lz4", plain) + raw.skippable(b"abc"),
    },
    "zstd": {
        "one": _one("zstd"),
        "unknown size": raw.zstd_of_unknown_size,
        "checksum": _zstd(write_checksum=True),
        "level 19": _zstd(level=19),
        "no checksum nor size": _zstd(write_content_size=False),
        "a dictionary": _zstd(dict_data=zstandard.ZstdCompressionDict(bytes(range(256)) * 4)),
        **{f"a window of 2^{log}": _zstd_of_window(log) for log in (26, 27, 28, 31)},
        "two frames": _halves(_one("zstd")),
        "two frames of unknown size": _halves(raw.zstd_of_unknown_size),
        "an empty frame first": lambda plain: raw.pack("zstd", b"") + raw.pack("zstd", plain),
        "skippable first": lambda plain: raw.skippable(b"abc") + raw.pack("zstd", plain),
        "skippable behind": lambda plain: raw.pack("zstd", plain) + raw.skippable(b""),
    },
}


def records_of(data: bytes) -> list[raw.Raw]:
    """The records of a batch in frames of any kind, read by the libraries alone. Raises an exception of theirs if it is
    no batch.

    Each has its own time, though the batch may say that it is the time of an append.
    """
    ((header, packed),) = raw.batches_in(data)
    plain = _unpacked(header.codec, packed)
    assert len(plain) <= LONGEST
    return raw.records_in(raw.batch(plain, header.count, first_time=header.first_time))


def size_of(data: bytes) -> int:
    """The length of such a batch's records, decompressed."""
    ((header, packed),) = raw.batches_in(data)
    return len(_unpacked(header.codec, packed))


def _unpacked(codec: str, packed: bytes) -> bytes:
    match codec:
        case "gzip":
            return gzip.decompress(packed)
        case "snappy":
            return _xerial(packed) if packed.startswith(_XERIAL[:8]) else _raw_snappy(packed)
        case "lz4":
            return bytes(lz4.frame.decompress(packed))
        case "zstd":
            with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
                return reader.read(LONGEST + 1)
    return packed


def _xerial(packed: bytes) -> bytes:
    """Blocks behind a header that states any versions, which may come again in the middle."""
    parts, at = [], 0
    while at < len(packed):
        if packed.startswith(_XERIAL[:8], at):
            at += len(_XERIAL)
            continue
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        assert end <= len(packed)
        parts.append(_raw_snappy(packed[at + 4 : end]))
        at = end
    return b"".join(parts)


def _raw_snappy(packed: bytes) -> bytes:
    return bytes(cramjam.snappy.decompress_raw(packed))
