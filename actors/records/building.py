"""Records to batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from actors.records import compression as codecs
from actors.records.batch import (
    CODEC_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    NONE,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    assembled,
    stamp,
)
from actors.records.reading import Headers, payload_of
from actors.records.rows import Row, read_rows

RecordTuple = tuple[bytes | None, bytes | None, Headers | None, int]
"""Key, value, headers, timestamp in ms."""

_MAX_BUILD_BYTES: Final = 2**31 - 1
_NULL: Final = b"\x01"
NO_HEADERS: Final = b"\0"


def build_batch(
    records: Iterable[RecordTuple],
    base_offset: int = 0,
    compression: str = "none",
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """One batch of records with offsets `base_offset`, +1, ...

    ValueError when there are no records; LogError UNSUPPORTED_COMPRESSION_TYPE for an unknown codec.
    """
    return build_sparse_batch(
        ((delta, *record) for delta, record in enumerate(records)),
        base_offset=base_offset,
        codec=codecs.codec_id(compression),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def build_sparse_batch(
    records: Iterable[tuple[int, bytes | None, bytes | None, Headers | None, int]],
    *,
    base_offset: int,
    codec: int = NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset_delta: int | None = None,
) -> bytes:
    """As `build_batch`, of records that have their offset deltas in front: compaction leaves gaps."""
    given = list(records)
    if not given:
        raise ValueError("a record batch holds at least one record")
    first = given[0][4]
    payload = b"".join(
        [encode_record(delta, time - first, key, value, headers) for delta, key, value, headers, time in given]
    )
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL if is_transactional else 0) | (CONTROL if is_control else 0),
        last_offset_delta=given[-1][0] if last_offset_delta is None else last_offset_delta,
        first_timestamp=first,
        max_timestamp=max(NO_TIMESTAMP, *(record[4] for record in given)),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(given),
    )
    return assembled(header, codecs.compress(codec, payload))


def encode_record(
    offset_delta: int, time_delta: int, key: bytes | None, value: bytes | None, headers: Headers | None
) -> bytes:
    """One record of a payload."""
    return _framed(0, time_delta, offset_delta, _sized(key) + _sized(value) + encode_headers(headers))


def encode_headers(headers: Headers | None) -> bytes:
    """The headers of a record, with their count in front. A name may be text or any bytes."""
    if not headers:
        return NO_HEADERS
    parts = [varint(len(headers))]
    for name, content in headers:
        parts += (_sized(name.encode() if isinstance(name, str) else name), _sized(content))
    return b"".join(parts)


def moved(payload: bytes, row: Row, offset_shift: int, time_shift: int) -> bytes:
    """A record of `rows.read_rows`, as it is in a batch that begins so many offsets and ms earlier."""
    body = payload[row.body : row.end]
    return _framed(row.attributes, row.time_delta + time_shift, row.offset_delta + offset_shift, body)


def _framed(attributes: int, time_delta: int, offset_delta: int, body: bytes) -> bytes:
    content = bytes((attributes,)) + varint(time_delta) + varint(offset_delta) + body
    return varint(len(content)) + content


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else varint(len(data)) + data


def varint(number: int) -> bytes:
    """A signed number of up to 64 bits as a zigzag varint."""
    value = (number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def build_keyed_batch(keys: Sequence[bytes], values: Sequence[bytes | None], timestamp_ms: int) -> bytes:
    """`build_batch` of records without headers and of one time, given as columns: in a fraction of the time.

    ValueError when there are no records, or not as many keys as values.
    """
    if not keys or len(keys) != len(values):
        raise ValueError("a record batch holds at least one record, and as many keys as values")
    builder = DefaultRecordBatchBuilder(2, 0, 0, NO_PRODUCER_ID, -1, NO_SEQUENCE, _MAX_BUILD_BYTES)
    no_headers: list[tuple[str, bytes | None]] = []
    for _ in map(builder.append, range(len(keys)), repeat(timestamp_ms), keys, values, repeat(no_headers)):
        pass
    batch = builder.build()
    stamp(batch, 0, -1)
    return bytes(batch)


def recompressed(header: BatchHeader, payload: Buffer, codec: int) -> tuple[BatchHeader, bytes]:
    """Header and payload of a batch, whose decompressed payload is given, under another codec. Not sealed.

    The result is decompressed again and compared, so that every record in it is one that was given.
    """
    packed = codecs.compress(codec, payload)
    if codecs.decompress(codec, packed, len(payload)) != payload:
        raise RuntimeError(f"{codecs.CODEC_NAMES[codec]} gave back other bytes than it was given")
    return header._replace(attributes=header.attributes & ~CODEC_MASK | codec), packed


def without_records_before(batch: Buffer, header: BatchHeader, offset: int) -> bytes | None:
    """The batch without its records before `offset`; None if no record is left.

    Compaction merges batches, so a follower may be offered one it holds the beginning of. The records stay what they
    were to the byte, but for their distance to the batch's first offset.
    """
    payload = payload_of(batch, header)
    shift = header.base_offset - offset
    kept = [row for row in read_rows(payload, header.record_count) if row.offset_delta + shift >= 0]
    if not kept:
        return None
    fields = header._replace(
        base_offset=offset,
        attributes=header.attributes & (CODEC_MASK | LOG_APPEND_TIME),
        last_offset_delta=header.last_offset_delta + shift,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=len(kept),
    )
    plain = b"".join([moved(payload, row, shift, 0) for row in kept])
    return assembled(fields, codecs.compress(header.codec, plain))
