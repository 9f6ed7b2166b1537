"""Batches that cost a broker as much as they may, produced again and again: `python -m benchmarks.bombs PORT KIND S`.

Each has a checksum that is right, and WRITE on one topic is enough to send it; for a lookup by time DESCRIBE is. Those
within the bounds of `actors/records/bounds.py` are taken, and checked to the last record; the others are refused.
Prints how many were answered, and with which error codes.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import zstandard

from actors.records.batch import GZIP, LZ4, SNAPPY, ZSTD, BatchHeader, assembled
from actors.records.bounds import at_produce
from actors.records.building import encode_record
from actors.records.compression import compress
from actors.wire.messages import ListOffsetsRequest, ProduceRequest
from benchmarks.attackers import Streams, ask, connected

TOPIC: Final = "bombs"
CONNECTIONS: Final = 8
MAX_MESSAGE_BYTES: Final = 1_048_588  # Kafka's default
BOUNDS: Final = at_produce(MAX_MESSAGE_BYTES)

_ZSTD_MAGIC: Final = struct.pack("<I", 0xFD2FB528)
_ZSTD_BLOCK: Final = 128 << 10


def zeros(plain_bytes: int) -> bytes:
    """A zstd frame of so many zeros, four bytes for each 128 KiB, that does not state its size."""
    parts = [_ZSTD_MAGIC, b"\x00\x50"]
    for at in range(0, plain_bytes, _ZSTD_BLOCK):
        size = min(_ZSTD_BLOCK, plain_bytes - at)
        parts.append((size << 3 | 2 | (at + size == plain_bytes)).to_bytes(3, "little") + b"\0")
    return b"".join(parts)


def _batch(payload: bytes, count: int, codec: int) -> bytes:
    now_ms = int(time.time() * 1000)
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, now_ms, now_ms, -1, -1, -1, count)
    return assembled(header, payload)


def _zstd(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(plain)


def five_kilobytes() -> bytes:
    """150 MiB of zeros in five kilobytes: beyond the bounds."""
    return _batch(zeros(150 << 20), 1, ZSTD)


def forty_kilobytes() -> bytes:
    """1.2 GiB of zeros in forty kilobytes: beyond the bounds."""
    return _batch(zeros(1200 << 20), 1, ZSTD)


def most_zeros() -> bytes:
    """As many zeros as the bounds allow. They are no records."""
    return _batch(zeros(BOUNDS.plain_bytes), 1, ZSTD)


def most_records() -> bytes:
    """As many records as the bounds allow, of two lengths in turns."""
    plain = b"".join(
        [encode_record(number, 0, None, b"" if number % 2 else b"x", None) for number in range(BOUNDS.records)]
    )
    return _batch(_zstd(plain), BOUNDS.records, ZSTD)


def most_headers() -> bytes:
    """One record with as many headers as the bounds allow."""
    plain = encode_record(0, 0, None, None, [(b"", None)] * BOUNDS.records)
    return _batch(_zstd(plain), 1, ZSTD)


def lz4_zeros() -> bytes:
    """As many zeros as the bounds allow, in lz4. They are no records."""
    return _batch(compress(LZ4, bytes(BOUNDS.plain_bytes)), 1, LZ4)


def gzip_zeros() -> bytes:
    """The same in gzip."""
    return _batch(compress(GZIP, bytes(BOUNDS.plain_bytes)), 1, GZIP)


def headers_at_once() -> bytes:
    """One record, not compressed, with as many headers as fit: to look it up by time must not read them."""
    return _batch(encode_record(0, 0, None, None, [(b"", None)] * 500_000), 1, 0)


def many_blocks() -> bytes:
    """Snappy in the smallest blocks there are."""
    block = struct.pack(">I", 1) + b"\0"  # nothing, compressed
    return _batch(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + block * 200_000, 1, SNAPPY)


def many_frames() -> bytes:
    """Zstd in the smallest frames there are."""
    return _batch(_zstd(b"") * 100_000, 1, ZSTD)


KINDS: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "five": ("zstd of 5 KB, 150 MiB", five_kilobytes),
    "forty": ("zstd of 40 KB, 1.2 GiB", forty_kilobytes),
    "zeros": ("zstd of as many bytes as are taken", most_zeros),
    "records": ("as many records as are taken", most_records),
    "headers": ("as many headers as are taken", most_headers),
    "lz4": ("lz4 of as many bytes as are taken", lz4_zeros),
    "gzip": ("gzip of as many bytes as are taken", gzip_zeros),
    "plain-headers": ("half a million headers, not compressed", headers_at_once),
    "blocks": ("snappy of 200,000 blocks", many_blocks),
    "frames": ("zstd of 100,000 frames", many_frames),
}
LOOKUPS: Final = "lookups"


async def produce(streams: Streams, batch: bytes) -> int:
    """The error code of one produce request with acks=1."""
    part = ProduceRequest.PartitionProduceData(index=0, records=batch)
    data = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=[data])
    answer = await ask(streams, request, 9)
    return int(answer.responses[0].partition_responses[0].error_code)


async def look_up(streams: Streams) -> int:
    """The error code of one lookup by a time that no record of the batches has but the last."""
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1, current_leader_epoch=-1)
    asked = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[part])
    answer = await ask(streams, ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked]), 7)
    return int(answer.topics[0].partitions[0].error_code)


async def attack(port: int, kind: str, seconds: float) -> Counter[int]:
    """Do it on all connections, again and again; how often each error code came back."""
    codes: Counter[int] = Counter()
    ends = time.monotonic() + seconds
    batch = b"" if kind == LOOKUPS else KINDS[kind][1]()

    async def again(_: int) -> None:
        async with connected(port) as streams:
            while time.monotonic() < ends:
                codes[await (look_up(streams) if kind == LOOKUPS else produce(streams, batch))] += 1

    await asyncio.gather(*map(again, range(CONNECTIONS)))
    return codes


def main(arguments: Sequence[str]) -> None:
    port, kind, seconds = arguments
    codes = asyncio.run(attack(int(port), kind, float(seconds)))
    sys.stdout.write(f"{codes.total()} answers, by error code: {dict(codes)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
