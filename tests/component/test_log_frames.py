"""A compressed batch is one frame in the log, whatever a producer made of it, and nothing of it is lost."""

from __future__ import annotations

import gzip
import struct
import warnings
from collections.abc import Callable
from itertools import pairwise

import cramjam
import lz4.frame
import pytest
import zstandard
from aiokafka.record.memory_records import MemoryRecords as AioRecords

from tests.support.log_helpers import all_bytes, append, open_log, refused
from tests.support.raw_batches import (
    CODECS,
    batch,
    batches_in,
    pack,
    records,
    records_in,
    skippable,
    zstd_of_unknown_size,
)
from tests.support.read_records import read_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its import uses importlib.resources' old functions
    from kafka.record import MemoryRecords as PyRecords

COUNT = 40
PLAIN = records(COUNT, range(COUNT), headers=[(b"h", b"1")])
JUNK = b"junk behind the last frame"
TOPIC_CODECS = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]


def in_parts(number: int, made: Callable[[bytes], bytes], between: bytes = b"") -> bytes:
    """So many frames, which are cut anywhere, also inside a record."""
    cuts = [len(PLAIN) * part // number for part in range(number + 1)]
    return between.join(made(PLAIN[begin:end]) for begin, end in pairwise(cuts))


def zstd(plain: bytes) -> bytes:
    return pack("zstd", plain)


def zstd_with_checksum(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(plain)


def linked_lz4(plain: bytes) -> bytes:
    """A frame whose blocks may depend on those before, however few there are."""
    with lz4.frame.LZ4FrameCompressor(block_linked=True) as packer:
        return packer.begin() + packer.compress(plain) + packer.flush()


SEVERAL = {
    "2 gzip members": ("gzip", in_parts(2, gzip.compress)),
    "50 gzip members": ("gzip", in_parts(50, gzip.compress)),
    "an empty gzip member first": ("gzip", gzip.compress(b"") + gzip.compress(PLAIN)),
    "an empty gzip member last": ("gzip", gzip.compress(PLAIN) + gzip.compress(b"")),
    "2 zstd frames": ("zstd", in_parts(2, zstd)),
    "50 zstd frames": ("zstd", in_parts(50, zstd)),
    "2 zstd frames of unknown size": ("zstd", in_parts(2, zstd_of_unknown_size)),
    "2 zstd frames with checksums": ("zstd", in_parts(2, zstd_with_checksum)),
    "a zstd frame of either kind": ("zstd", zstd(PLAIN[:50]) + zstd_of_unknown_size(PLAIN[50:])),
    "an empty zstd frame first": ("zstd", zstd(b"") + zstd(PLAIN)),
    "an empty zstd frame last": ("zstd", zstd(PLAIN) + zstd(b"")),
    "a skippable zstd frame first": ("zstd", skippable(b"about") + zstd(PLAIN)),
    "a skippable zstd frame last": ("zstd", zstd(PLAIN) + skippable(b"")),
    "skippable zstd frames between": ("zstd", in_parts(4, zstd, skippable(bytes(99)))),
}
"""Payloads of several frames that Kafka's own reader takes for the records in all of them."""

ONE = {
    "gzip": ("gzip", gzip.compress(PLAIN)),
    "gzip with a file name": ("gzip", b"\x1f\x8b\x08\x08" + bytes(6) + b"name\0" + gzip.compress(PLAIN)[10:]),
    "zstd": ("zstd", zstd(PLAIN)),
    "zstd of unknown size": ("zstd", zstd_of_unknown_size(PLAIN)),
    "zstd with a checksum": ("zstd", zstd_with_checksum(PLAIN)),
    "lz4": ("lz4", pack("lz4", PLAIN)),
    "lz4 of unknown size": ("lz4", lz4.frame.compress(PLAIN, block_linked=False, store_size=False)),
    "lz4 with checksums": (
        "lz4",
        lz4.frame.compress(PLAIN, block_linked=False, content_checksum=True, block_checksum=True),
    ),
    "snappy": ("snappy", pack("snappy", PLAIN)),
}
"""Payloads of one frame, which stay as they are."""

REFUSED = {
    "2 lz4 frames": ("lz4", in_parts(2, lambda part: pack("lz4", part))),
    "an empty lz4 frame last": ("lz4", pack("lz4", PLAIN) + pack("lz4", b"")),
    "2000 lz4 frames": ("lz4", pack("lz4", PLAIN) + pack("lz4", b"") * 2000),
    "linked lz4 blocks": ("lz4", linked_lz4(PLAIN)),
    "2 frames of linked lz4 blocks": ("lz4", in_parts(2, linked_lz4)),
    "raw snappy and junk": ("snappy", bytes(cramjam.snappy.compress_raw(PLAIN)) + JUNK),
    "a snappy block that is cut": ("snappy", pack("snappy", PLAIN) + struct.pack(">i", 99) + JUNK),
    "a snappy block of negative length": ("snappy", pack("snappy", PLAIN) + struct.pack(">i", -1)),
    "a zstd frame and a skippable one that is cut": ("zstd", zstd(PLAIN) + skippable(bytes(99))[:-1]),
    "a zstd frame and half of one": ("zstd", zstd(PLAIN) + zstd(b"x" * 99)[:-1]),
    "a gzip member and half of one": ("gzip", gzip.compress(PLAIN) + gzip.compress(b"x")[:-1]),
    "the records twice in gzip": ("gzip", gzip.compress(PLAIN) * 2),
    "the records twice in zstd": ("zstd", zstd(PLAIN) * 2),
    **{f"{codec} and junk": (codec, pack(codec, PLAIN) + JUNK) for codec in CODECS},
    **{f"{codec} and a byte": (codec, pack(codec, PLAIN) + b"\x01") for codec in CODECS},
    **{f"junk and {codec}": (codec, JUNK + pack(codec, PLAIN)) for codec in CODECS},
}
"""Payloads of which a reader would see other records than those counted, or none."""


def sent_as(codec: str, packed: bytes) -> bytes:
    return batch(b"", COUNT, codec, packed=packed)


EXPECTED = records_in(batch(PLAIN, COUNT))


def seen_by_others(data: bytes, *, kafka_python: bool) -> None:
    """Our reader, aiokafka's and kafka-python's see the records."""
    expected = [(each.offset, each.time, each.key, each.value) for each in EXPECTED]
    readers = [lambda: read_records(data, verify_crc=True), lambda: AioRecords(data).next_batch()]
    if kafka_python:
        readers.append(lambda: PyRecords(data).next_batch())
    for reader in readers:
        assert [(each.offset, each.timestamp, each.key, each.value) for each in reader()] == expected


@pytest.mark.parametrize("topic_codec", TOPIC_CODECS)
@pytest.mark.parametrize("kind", [*SEVERAL, *ONE])
def test_no_frame_of_a_batch_is_lost(tmp_path, kind, topic_codec):
    codec, packed = {**SEVERAL, **ONE}[kind]
    log = open_log(tmp_path, compression_type=topic_codec)
    append(log, sent_as(codec, packed))
    data = all_bytes(log)
    log.abandon()
    assert records_in(data) == EXPECTED, "and they are one frame"
    ((header, _),) = batches_in(data)
    assert header.codec == {"producer": codec, "uncompressed": "none"}.get(topic_codec, topic_codec)
    seen_by_others(data, kafka_python=header.codec != "snappy")


@pytest.mark.parametrize("kind", ONE)
def test_a_batch_of_one_frame_is_not_compressed_anew(tmp_path, kind):
    codec, packed = ONE[kind]
    for topic_codec in ("producer", codec):
        log = open_log(tmp_path / topic_codec, compression_type=topic_codec)
        append(log, sent_as(codec, packed))
        assert [payload for _, payload in batches_in(all_bytes(log))] == [packed]
        log.abandon()


@pytest.mark.parametrize("topic_codec", ["producer", "zstd"])
@pytest.mark.parametrize("kind", REFUSED)
def test_frames_that_clients_read_otherwise_are_refused(tmp_path, kind, topic_codec):
    codec, packed = REFUSED[kind]
    log = open_log(tmp_path, compression_type=topic_codec)
    refused(log, sent_as(codec, packed), 87)
    log.abandon()


@pytest.mark.parametrize("topic_codec", ["producer", "gzip"])
@pytest.mark.parametrize("codec", CODECS)
def test_a_frame_that_is_cut_is_refused_wherever_it_is_cut(tmp_path, codec, topic_codec):
    packed = pack(codec, PLAIN)
    log = open_log(tmp_path, compression_type=topic_codec)
    for end in (*range(0, len(packed), 7), len(packed) - 2, len(packed) - 1):
        refused(log, sent_as(codec, packed[:end]), 87)
    append(log, sent_as(codec, packed))
    log.abandon()


@pytest.mark.parametrize("topic_codec", ["producer", "lz4"])
def test_zeros_behind_a_gzip_stream_are_padding(tmp_path, topic_codec):
    log = open_log(tmp_path, compression_type=topic_codec)
    append(log, sent_as("gzip", gzip.compress(PLAIN) + bytes(20)))
    assert records_in(all_bytes(log)) == EXPECTED
    log.abandon()
