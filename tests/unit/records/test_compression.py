"""Codecs: what is one frame, what is damaged, and that no more is decompressed than was asked for."""

from __future__ import annotations

import gzip

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from actors.records.compression import CODEC_IDS, CODEC_NAMES, compress, decompress, unpack
from actors.records.errors import CorruptBatchError, LogError, OverBoundsError
from tests.support.raw_batches import CODECS, bomb, pack, skippable, snappy_that_states, zstd_bomb, zstd_of_unknown_size
from tests.support.raw_batches import unpack as unpack_of_others

COMPRESSING = [codec for codec in CODECS if codec != "none"]
PLAIN = bytes(range(256)) * 400
ZSTD, GZIP, LZ4 = (pack(codec, PLAIN) for codec in ("zstd", "gzip", "lz4"))
UNSTATED = zstd_of_unknown_size(PLAIN)

FRAMES = {
    "gzip": ("gzip", GZIP, True),
    "two gzip members": ("gzip", gzip.compress(PLAIN[:9]) + gzip.compress(PLAIN[9:]), False),
    "gzip and padding": ("gzip", GZIP + bytes(9), False),
    "zstd": ("zstd", ZSTD, True),
    "zstd of unknown size": ("zstd", UNSTATED, True),
    "zstd with a checksum": ("zstd", zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN), True),
    "two zstd frames": ("zstd", pack("zstd", PLAIN[:9]) + zstd_of_unknown_size(PLAIN[9:]), False),
    "two zstd frames, the first of unknown size": (
        "zstd",
        zstd_of_unknown_size(PLAIN[:9]) + pack("zstd", PLAIN[9:]),
        False,
    ),
    "a skippable frame before zstd": ("zstd", skippable(b"") + ZSTD, False),
    "a skippable frame after zstd": ("zstd", UNSTATED + skippable(b"x"), False),
    "lz4": ("lz4", LZ4, True),
    "lz4 with checksums": (
        "lz4",
        lz4.frame.compress(PLAIN, block_linked=False, content_checksum=True, block_checksum=True),
        True,
    ),
    "linked lz4 blocks": (
        "lz4",
        lz4.frame.compress(PLAIN, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB),
        False,
    ),
    "two lz4 frames": ("lz4", pack("lz4", PLAIN[:9]) + pack("lz4", PLAIN[9:]), False),
    "snappy in xerial's blocks": ("snappy", pack("snappy", PLAIN), True),
    "raw snappy": ("snappy", bytes(cramjam.snappy.compress_raw(PLAIN)), True),
    "none": ("none", PLAIN, True),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_all_frames_are_read_and_counted(kind):
    codec, packed, is_one_frame = FRAMES[kind]
    for data in (packed, bytearray(packed), memoryview(packed)):
        found = unpack(CODECS[codec], data, len(PLAIN))
        assert (found.data, found.is_one_frame) == (PLAIN, is_one_frame)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_limit_one_byte_short_is_over_bounds(kind):
    codec, packed, _ = FRAMES[kind]
    for limit in (len(PLAIN) - 1, 1, 0):
        with pytest.raises(OverBoundsError):
            unpack(CODECS[codec], packed, limit)


@pytest.mark.parametrize("kind", [kind for kind in FRAMES if kind != "none"])
def test_what_is_cut_or_followed_by_junk_is_corrupt(kind):
    codec, packed, _ = FRAMES[kind]
    ends_otherwise = [packed[:-1], packed[: len(packed) // 2], packed[:5], packed + b"junk", packed + b"\x01"]
    if kind == "gzip and padding":
        ends_otherwise = ends_otherwise[1:]
    if kind == "two gzip members":
        ends_otherwise.append(GZIP + GZIP[:-9])
    for data in ends_otherwise:
        with pytest.raises(CorruptBatchError):
            unpack(CODECS[codec], data)


BOMBS = {
    **{codec: (codec, bomb(codec, 5_000_000)) for codec in COMPRESSING},
    "10 GB of zstd": ("zstd", zstd_bomb(10_000_000_000)),
    "10 GB of zstd that says so": ("zstd", zstd_bomb(10_000_000_000, states_size=True)),
    "100 zstd frames": ("zstd", zstd_bomb(10_000) * 100),
    "100 zstd frames that state their sizes": ("zstd", zstd_bomb(10_000, states_size=True) * 100),
    "100 gzip members": ("gzip", gzip.compress(bytes(10_000)) * 100),
    "100 lz4 frames": ("lz4", pack("lz4", bytes(10_000)) * 100),
    "4 GB of raw snappy": ("snappy", snappy_that_states(2**32 - 1)),
    "100 blocks of snappy": ("snappy", pack("snappy", bytes(1_000_000))),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_over_bounds(kind):
    codec, packed = BOMBS[kind]
    with pytest.raises(OverBoundsError):
        decompress(CODECS[codec], packed, 900_000)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(st.binary(max_size=200))
def test_garbage_is_corrupt_and_nothing_worse(codec, garbage):
    try:
        unpack(CODECS[codec], garbage, 10_000)
    except CorruptBatchError:
        return
    assert unpack(CODECS[codec], garbage).data is not None


@pytest.mark.parametrize("codec", COMPRESSING)
@given(st.integers(0, 2**20), st.integers(0, 255))
def test_a_frame_with_one_byte_changed_is_never_more_than_the_limit(codec, at, byte):
    packed = bytearray(pack(codec, PLAIN[:5000]))
    packed[at % len(packed)] = byte
    try:
        assert len(unpack(CODECS[codec], bytes(packed), 6000).data) <= 6000
    except CorruptBatchError:
        return


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(max_size=5000))
def test_others_read_the_one_frame_that_is_written(codec, plain):
    packed = compress(CODEC_IDS[codec], plain)
    assert unpack_of_others(codec, packed) == plain
    assert unpack(CODEC_IDS[codec], packed, len(plain)) == (plain, True)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_a_codec_that_is_not_known_is_unsupported(codec):
    assert codec not in CODEC_NAMES
    for call in (compress, decompress):
        with pytest.raises(LogError) as caught:
            call(codec, b"x")
        assert caught.value.error_code == 76
