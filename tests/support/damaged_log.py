"""Logs whose bytes have changed on the disk, and reads of them. Holds no tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from actors.log.damage import Damage, DamagedBatchError
from actors.log.files import REAL_WRITER
from actors.log.partition_log import PartitionLog
from actors.records.batch import iter_batches
from tests.support.log_helpers import NOW_MS, all_bytes, append, config, open_log, values

EPOCH = range(12, 16)
"""The bytes of a batch's leader epoch. A lower one goes unnoticed: no checksum or neighbour tells."""


def made(path: Path, batches: int = 40, each: int = 100, **settings: str) -> bytes:
    """Make a log, close it in order, and return what is in it."""
    log = open_log(path, **{"segment_bytes": "3000", "index_interval_bytes": "500", **settings})
    rng = random.Random(7)
    for _ in range(batches):
        append(log, values(*(rng.randbytes(each) for _ in range(rng.randint(1, 3)))))
    data = all_bytes(log)
    log.close()
    return data


def opened(path: Path, found: list[Damage] | None = None, **settings: str) -> PartitionLog:
    """The log after a clean stop, of which nothing is known to be right."""
    told = found if found is not None else []
    return PartitionLog.open(
        path, config(**settings), REAL_WRITER, clean_shutdown=True, now_ms=NOW_MS, damaged=told.append
    )


def files(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def flip(file: Path, position: int, bit: int = 0) -> None:
    """Change one bit of a file."""
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(data)


def at_once(log: PartitionLog, offset: int) -> tuple[bytes, int]:
    return log.read_with_end(offset, 700)


def in_pieces(log: PartitionLog, offset: int) -> tuple[bytes, int]:
    extent = log.locate(offset, 2000)
    assert extent is not None
    pieces = []
    try:
        while len(extent):
            pieces.append(extent.read(150))
    except DamagedBatchError:
        if not pieces:
            raise
    data = b"".join(pieces)
    batches = list(iter_batches(data))
    whole = batches[-1][1] if batches else 0
    return data[:whole], batches[-1][2].next_offset if batches else offset


READS = [at_once, in_pieces]


def read_on(log: PartitionLog, read: object) -> Iterator[bytes]:
    """Successive reads, from the start of the log until an error or its end."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, offset = read(log, offset)  # type: ignore[operator]
        yield data


def until_damaged(pieces: Iterator[bytes]) -> bytes:
    """The bytes before the first damaged batch. Fails if no batch is damaged."""
    got = b""
    try:
        for data in pieces:
            got += data
    except DamagedBatchError:
        return got
    raise AssertionError("nothing was found to be damaged")


def after(log: PartitionLog, offset: int) -> bytes:
    """All bytes of a read from an offset to the log's end."""
    got = b""
    while offset < log.log_end_offset:
        data, offset = log.read_with_end(offset, 1 << 20)
        got += data
    return got
