"""Batches of a few kilobytes that hold megabytes."""

from __future__ import annotations

from actors.records.batch import MAGIC, ZSTD, BatchHeader, assembled
from actors.records.building import varint

_MAGIC = b"\x28\xb5\x2f\xfd"
_NO_SIZE_WINDOW_OF_1_MIB = b"\x00\x50"
_RAW, _REPEATED = 0, 1
_BLOCK_BYTES = 128 << 10


def zeros(value_bytes: int, base_offset: int = 0, timestamp: int = 0, newest: int = 0, record_count: int = 1) -> bytes:
    """A batch with one record, whose value is so many zeros: four bytes of zstd for 128 KiB."""
    body = b"\0" + varint(0) * 2 + varint(-1) + varint(value_bytes)
    head = varint(len(body) + value_bytes + 1) + body
    whole, rest = divmod(value_bytes, _BLOCK_BYTES)
    blocks = [_block(_RAW, len(head), head)]
    blocks += [_block(_REPEATED, _BLOCK_BYTES, b"\0")] * whole
    blocks += [_block(_RAW, rest + 1, bytes(rest + 1), last=True)]
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=ZSTD,
        last_offset_delta=record_count - 1,
        first_timestamp=timestamp,
        max_timestamp=max(timestamp, newest),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=record_count,
    )
    return assembled(header, _MAGIC + _NO_SIZE_WINDOW_OF_1_MIB + b"".join(blocks))


def _block(kind: int, size: int, content: bytes, *, last: bool = False) -> bytes:
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + content
