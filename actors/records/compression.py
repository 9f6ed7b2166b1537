"""The compression codecs of record batches: ids, names, compress, bounded decompress.

A compressed payload is one frame, as all clients write it. Some libraries write several one after the other (zstd
frames, gzip members), which Java reads and others read the first of; `unpack` tells, so that a leader can rewrite them.
Snappy is written with xerial's block framing, as the Java clients do, and read with or without it.
"""

import gzip
import io
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, cast

import cramjam
import lz4.frame
import zstandard

from actors.records.batch import GZIP, LZ4, NONE, SNAPPY, ZSTD, Buffer, Plain
from actors.records.bounds import PLAIN_BYTES_MAX
from actors.records.errors import UNSUPPORTED_COMPRESSION_TYPE, CorruptBatchError, LogError, OverBoundsError

CODEC_IDS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
CODEC_NAMES: Final = {number: name for name, number in CODEC_IDS.items()}

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">I")
_GZIP_WINDOW: Final = 31  # zlib's way to ask for a gzip header and trailer
_GZIP_MEMBER_BYTES: Final = 20
"""No member is shorter: a header, an empty block, a trailer."""
_GZIP_MEMBER_PARTS: Final = 10
"""To read one takes as long as so many blocks."""
_LZ4_FLAGS_AT: Final = 4
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20
_ZSTD_SKIPPABLE_MASK: Final = 0xFFFFFFF0
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_REPEATED_BYTE: Final = 1
_OF_THREAD: Final = threading.local()
"""Each thread's zstd decompressor: to make one takes as long as to decompress a few KiB."""
_FRAMES_MAX: Final = 1000
_PIECE_BYTES: Final = 1 << 20


class Unpacked(NamedTuple):
    """Decompressed bytes, and whether they came as one frame that all of Kafka's clients can read."""

    data: Plain
    is_one_frame: bool


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


def decompress(
    codec: int, data: Buffer, limit_bytes: int = PLAIN_BYTES_MAX, limit_parts: int = PLAIN_BYTES_MAX
) -> bytes:
    """The bytes that `compress` was given.

    Raises CorruptBatchError if they are damaged, OverBoundsError if they are longer than the limit (or as `unpack`).
    """
    return bytes(unpack(codec, data, limit_bytes, limit_parts).data)


def unpack(
    codec: int, data: Buffer, limit_bytes: int = PLAIN_BYTES_MAX, limit_parts: int = PLAIN_BYTES_MAX
) -> Unpacked:
    """`decompress`, and whether the data is one frame. No more than the limit is ever decompressed.

    `limit_parts` bounds the frames, members and blocks that are walked here one by one, each in about a microsecond;
    OverBoundsError if there are more.

    In pieces, and never joined: a thread would keep the interpreter's lock while it moves many megabytes.
    """
    if codec not in _DECOMPRESSORS:
        raise LogError(UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
    try:
        out = _DECOMPRESSORS[codec](data, limit_bytes, limit_parts)
    except CorruptBatchError:
        raise
    except Exception as error:  # each library has exceptions of its own
        raise CorruptBatchError(f"{CODEC_NAMES[codec]} data cannot be decompressed: {error}") from error
    if len(out.data) > limit_bytes:
        raise _too_long(codec, limit_bytes)
    return out


def _too_long(codec: int, limit_bytes: int) -> OverBoundsError:
    return OverBoundsError(f"{CODEC_NAMES[codec]} data expands to more than {limit_bytes} bytes")


def _too_many(codec: int, limit_parts: int) -> OverBoundsError:
    return OverBoundsError(f"{CODEC_NAMES[codec]} data of more than {limit_parts} frames or blocks")


def _followed_by(codec: int, what: object) -> CorruptBatchError:
    return CorruptBatchError(f"the {CODEC_NAMES[codec]} data is followed by bytes that are no more of it: {what}")


def _plain(data: Buffer, _limit_bytes: int, _limit_parts: int) -> Unpacked:
    return Unpacked(bytes(data), True)


def _gzip(data: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _gathered(pieces: Iterator[bytes], codec: int, limit_bytes: int) -> Plain:
    """All pieces. Raises OverBoundsError once they are longer than the limit."""
    plain: Plain = b""
    for piece in pieces:
        if not plain:
            plain = piece  # mostly all there is
        elif isinstance(plain, bytes):
            plain = bytearray(plain)
            plain += piece
        else:
            plain += piece
        if len(plain) > limit_bytes:
            raise _too_long(codec, limit_bytes)
    return plain


def _gunzip(data: Buffer, limit_bytes: int, limit_parts: int) -> Unpacked:
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
    piece_bytes = min(_PIECE_BYTES, limit_bytes + 1)

    def pieces() -> Iterator[bytes]:
        rest: Buffer = data
        while rest and not unpacker.eof:
            yield unpacker.decompress(rest, piece_bytes)
            rest = unpacker.unconsumed_tail

    first = _gathered(pieces(), GZIP, limit_bytes)
    if not unpacker.eof:
        raise CorruptBatchError("gzip data ends early")
    if not unpacker.unused_data:
        return Unpacked(first, True)
    if len(unpacker.unused_data) * _GZIP_MEMBER_PARTS > limit_parts * _GZIP_MEMBER_BYTES:
        raise _too_many(GZIP, limit_parts)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as members:
            return Unpacked(_gathered(iter(lambda: members.read(piece_bytes), b""), GZIP, limit_bytes), False)
    except gzip.BadGzipFile as error:
        raise _followed_by(GZIP, error) from error


def _xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Buffer, limit_bytes: int, limit_parts: int) -> Unpacked:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return Unpacked(_raw_unsnappy(view, limit_bytes), True)
    plain = bytearray()
    position, streams, parts = 0, 0, 0
    while position < len(view):
        parts += 1
        if parts > limit_parts:
            raise _too_many(SNAPPY, limit_parts)
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position, streams = position + len(_XERIAL_HEADER), streams + 1
            continue
        start = position + _BLOCK_LENGTH.size
        end = start + int.from_bytes(view[position:start], "big")
        if max(start, end) > len(view):
            raise CorruptBatchError("snappy data ends inside a block")
        plain += _raw_unsnappy(view[start:end], limit_bytes - len(plain))
        position = end
    if position > len(view):
        raise CorruptBatchError("snappy data ends inside a header")
    # kafka-python knows the one header that everybody writes.
    usual = bytes(view[: len(_XERIAL_HEADER)]) == _XERIAL_HEADER
    return Unpacked(plain, usual and streams == 1)


def _raw_unsnappy(view: memoryview, limit_bytes: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(view) > limit_bytes:
        raise _too_long(SNAPPY, limit_bytes)
    return bytes(cramjam.snappy.decompress_raw(view))


def _lz4(data: Buffer) -> bytes:
    # Kafka's readers refuse linked blocks (KIP-57).
    return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))


def _unlz4(data: Buffer, limit_bytes: int, limit_parts: int) -> Unpacked:
    # Kafka's Java reader takes independent blocks only (KIP-57), and nothing behind the first frame.
    independent = len(data) > _LZ4_FLAGS_AT and bool(data[_LZ4_FLAGS_AT] & _LZ4_INDEPENDENT_BLOCKS)
    frames = 0
    piece_bytes = min(_PIECE_BYTES, limit_bytes + 1)

    def pieces() -> Iterator[bytes]:
        nonlocal frames
        rest = data
        while rest or not frames:
            frames += 1
            if frames > _FRAMES_MAX:
                raise CorruptBatchError(f"lz4 data of more than {_FRAMES_MAX} frames")
            if frames > limit_parts:
                raise _too_many(LZ4, limit_parts)
            unpacker = lz4.frame.LZ4FrameDecompressor()
            yield from _lz4_frame(unpacker, rest, piece_bytes, is_first=frames == 1)
            rest = unpacker.unused_data or b""

    return Unpacked(_gathered(pieces(), LZ4, limit_bytes), independent and frames == 1)


def _lz4_frame(unpacker: Any, data: Buffer, piece_bytes: int, *, is_first: bool) -> Iterator[bytes]:
    try:
        while not unpacker.eof:
            piece = unpacker.decompress(data, piece_bytes)
            data = b""
            if not piece and not unpacker.eof and unpacker.needs_input:
                raise RuntimeError("the data ends early")
            yield piece
    except RuntimeError as error:
        if is_first:
            raise CorruptBatchError(f"lz4: {error}") from error
        raise _followed_by(LZ4, error) from error


def _zstd(data: Buffer) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _unzstd(data: Buffer, limit_bytes: int, limit_parts: int) -> Unpacked:
    view = memoryview(data)
    frames = _zstd_frames(view, limit_bytes, limit_parts)
    if frames == 1 and limit_bytes <= _PIECE_BYTES and (whole := _whole_zstd(view, limit_bytes)) is not None:
        return Unpacked(whole, True)
    with zstandard.ZstdDecompressor().stream_reader(view, read_across_frames=True) as reader:
        piece_bytes = min(_PIECE_BYTES, limit_bytes + 1)
        plain = _gathered(iter(lambda: reader.read(piece_bytes), b""), ZSTD, limit_bytes)
    return Unpacked(plain, frames == 1)


def _whole_zstd(view: memoryview, limit_bytes: int) -> bytes | None:
    """A frame at one go, in the quickest way; None if something is wrong with it, or it is longer than the limit."""
    try:
        unpacker = _OF_THREAD.zstd
    except AttributeError:
        unpacker = _OF_THREAD.zstd = zstandard.ZstdDecompressor()
    try:
        return cast(bytes, unpacker.decompress(view, max_output_size=limit_bytes))
    except zstandard.ZstdError:
        return None


def _zstd_frames(view: memoryview, limit_bytes: int, limit_parts: int) -> int:
    """The number of frames (RFC 8878). Raises if the last one is not whole, which the library does not notice."""
    at = count = stated = 0
    left = limit_parts
    while at < len(view):
        count, left = count + 1, left - 1
        start = int.from_bytes(view[at : at + 4], "little")
        if start & _ZSTD_SKIPPABLE_MASK == _ZSTD_SKIPPABLE:
            at += 8 + int.from_bytes(view[at + 4 : at + 8], "little")
        else:
            about = zstandard.get_frame_parameters(view[at:])
            if about.content_size != zstandard.CONTENTSIZE_UNKNOWN:  # as in what Java writes
                stated += about.content_size
            if stated > limit_bytes:
                raise _too_long(ZSTD, limit_bytes)
            at, left = _zstd_blocks_end(view, at + zstandard.frame_header_size(view[at:]), left)
            at += 4 * about.has_checksum
        if left < 0:
            raise _too_many(ZSTD, limit_parts)
    if at != len(view):
        raise CorruptBatchError("zstd data ends early")
    return count


def _zstd_blocks_end(view: memoryview, at: int, left: int) -> tuple[int, int]:
    """The end of a frame's blocks, and the number that may follow; below zero if these are too many already."""
    size = len(view)
    while at < size and left >= 0:
        left -= 1
        block = int.from_bytes(view[at : at + 3], "little")  # is it the last one, its type, its size
        at += 4 if block >> 1 & 3 == _ZSTD_REPEATED_BYTE else 3 + (block >> 3)
        if block & 1:
            return at, left
    if left < 0:
        return at, left
    raise CorruptBatchError("zstd data ends early")


_COMPRESSORS: Final[dict[int, Callable[[Buffer], bytes]]] = {
    NONE: bytes,
    GZIP: _gzip,
    SNAPPY: _xerial,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESSORS: Final[dict[int, Callable[[Buffer, int, int], Unpacked]]] = {
    NONE: _plain,
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
