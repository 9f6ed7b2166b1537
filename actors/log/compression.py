"""The compression codecs of record batches: ids, names, compress, bounded decompress.

Snappy is written with xerial's block framing, as the Java clients do, and read with or without it.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import lz4.frame
import zstandard

from actors.log.errors import UNSUPPORTED_COMPRESSION_TYPE, CorruptBatchError, LogError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODEC_IDS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
CODEC_NAMES: Final = {number: name for name, number in CODEC_IDS.items()}

# A batch of max.message.bytes that blows up to more than this is an attack or damage, not data.
MAX_DECOMPRESSED_BYTES: Final = 512 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">I")
_GZIP_WINDOW: Final = 31  # zlib's way to ask for a gzip header and trailer

Buffer = bytes | bytearray | memoryview


def codec_id(name: str) -> int:
    """The number of a codec name; LogError UNSUPPORTED_COMPRESSION_TYPE for an unknown one."""
    try:
        return CODEC_IDS[name]
    except KeyError:
        raise LogError(UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression {name!r}") from None


def compress(codec: int, data: Buffer) -> bytes:
    """`data` compressed with codec 0..4 at that codec's default level."""
    if codec not in _COMPRESSORS:
        raise LogError(UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
    return _COMPRESSORS[codec](data)


def decompress(codec: int, data: Buffer, limit_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The bytes that `compress` was given. Raises CorruptBatchError if they are damaged or longer than the limit."""
    if codec not in _DECOMPRESSORS:
        raise LogError(UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
    try:
        out = _DECOMPRESSORS[codec](data, limit_bytes)
    except CorruptBatchError:
        raise
    except Exception as error:  # each library has exceptions of its own
        raise CorruptBatchError(f"{CODEC_NAMES[codec]} data cannot be decompressed: {error}") from error
    if len(out) > limit_bytes:
        raise CorruptBatchError(f"{CODEC_NAMES[codec]} data expands to more than {limit_bytes} bytes")
    return out


def _gzip(data: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _gunzip(data: Buffer, limit_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
    out = unpacker.decompress(data, limit_bytes + 1)
    if not unpacker.eof and len(out) <= limit_bytes:
        raise CorruptBatchError("gzip data ends early")
    return out


def _xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Buffer, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _raw_unsnappy(view, limit_bytes)
    parts: list[bytes] = []
    position, left = len(_XERIAL_HEADER), limit_bytes
    while position < len(view):
        start = position + _BLOCK_LENGTH.size
        end = start + _BLOCK_LENGTH.unpack_from(view, position)[0]
        if end > len(view):
            raise CorruptBatchError("snappy data ends inside a block")
        parts.append(_raw_unsnappy(view[start:end], left))
        left -= len(parts[-1])
        position = end
    return b"".join(parts)


def _raw_unsnappy(view: memoryview, limit_bytes: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(view) > limit_bytes:
        raise CorruptBatchError(f"snappy data expands to more than {limit_bytes} bytes")
    return bytes(cramjam.snappy.decompress_raw(view))


def _lz4(data: Buffer) -> bytes:
    # Kafka's readers refuse linked blocks (KIP-57).
    return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))


def _unlz4(data: Buffer, limit_bytes: int) -> bytes:
    unpacker = lz4.frame.LZ4FrameDecompressor()
    out: bytes = unpacker.decompress(data, limit_bytes + 1)
    if not unpacker.eof and len(out) <= limit_bytes:
        raise CorruptBatchError("lz4 data ends early")
    return out


def _zstd(data: Buffer) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _unzstd(data: Buffer, limit_bytes: int) -> bytes:
    # Read as a stream: Java writes frames without a content size, and one that is there may be wrong.
    parts: list[bytes] = []
    left = limit_bytes + 1
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        while left > 0 and (part := reader.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


_COMPRESSORS: Final[dict[int, Callable[[Buffer], bytes]]] = {
    NONE: bytes,
    GZIP: _gzip,
    SNAPPY: _xerial,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESSORS: Final[dict[int, Callable[[Buffer, int], bytes]]] = {
    NONE: lambda data, _limit: bytes(data),
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
