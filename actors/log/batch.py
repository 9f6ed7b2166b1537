"""Kafka's record batch, version 2 (KIP-98): build, split, check, stamp, read. Bytes only, no files.

    offset  size  field
         0     8  base offset            stamped by the leader, outside the CRC
         8     4  length                 of all that follows this field
        12     4  partition leader epoch stamped by the leader, outside the CRC
        16     1  magic                  2
        17     4  CRC-32C                of everything from `attributes` on
        21     2  attributes             codec 0-2, timestamp type 3, transactional 4, control 5
        23     4  last offset delta
        27     8  base timestamp
        35     8  max timestamp
        43     8  producer id
        51     2  producer epoch
        53     4  base sequence
        57     4  record count
        61        records, compressed as one block

The record codec itself is aiokafka's compiled one.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple, Protocol, cast

import crc32c
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from actors.log import compression as codecs
from actors.log.errors import CorruptBatchError

Buffer = bytes | bytearray | memoryview
Headers = Sequence[tuple[str, bytes | None]]
RecordTuple = tuple[bytes | None, bytes | None, Headers | None, int]

HEADER: Final = struct.Struct(">qiibIhiqqqhiI")
HEADER_BYTES: Final = HEADER.size
PREFIX: Final = struct.Struct(">qii")
"""Base offset, length and leader epoch: what the leader writes anew."""
LENGTH_BYTES: Final = 12
"""Base offset and length: the bytes the length field does not count."""
MIN_LENGTH: Final = HEADER_BYTES - LENGTH_BYTES
MAGIC: Final = 2

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

_ATTRIBUTES_AT: Final = 21
_LENGTH: Final = struct.Struct(">i")
_BASE_OFFSET: Final = struct.Struct(">q")
_MAX_BUILD_BYTES: Final = 2**31 - 1


class Record(Protocol):
    """One record, as the compiled reader gives it. `timestamp` is in ms; its meaning depends on the timestamp type."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


class BatchHeader(NamedTuple):
    """The 61 bytes before a batch's records. `length` counts from the leader epoch on."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.length + LENGTH_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; sequences wrap from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked. Its 61 bytes must be there."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def split_batches(buffer: Buffer) -> list[tuple[int, int, BatchHeader]]:
    """All whole batches as (start, end, header); an incomplete last one is left out.

    CorruptBatchError on a length no batch can have or a magic other than 2.
    """
    return list(iter_batches(buffer))


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, int, BatchHeader]]:
    """`split_batches`, one at a time."""
    position, size = 0, len(buffer)
    while position + HEADER_BYTES <= size:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if header.length < MIN_LENGTH or header.magic != MAGIC:
            raise CorruptBatchError(f"no record batch at byte {position}: length {header.length}, magic {header.magic}")
        end = position + LENGTH_BYTES + header.length
        if end > size:
            return
        yield position, end, header
        position = end


def crc_matches(batch: Buffer, crc: int) -> bool:
    """Whether one whole batch still has the checksum its header states."""
    return cast(int, crc32c.crc32c(memoryview(batch)[_ATTRIBUTES_AT:])) == crc


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Write base offset and leader epoch into the batch at `position`, in place."""
    _BASE_OFFSET.pack_into(batch, position, base_offset)
    _LENGTH.pack_into(batch, position + 12, leader_epoch)


def with_log_append_time(batch: Buffer, header: BatchHeader, now_ms: int) -> bytearray:
    """A copy whose records all have the timestamp `now_ms` (message.timestamp.type=LogAppendTime)."""
    fields = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=now_ms)
    return _with_header(bytearray(batch), fields)


def _with_header(batch: bytearray, header: BatchHeader) -> bytearray:
    """Write `header` over the first 61 bytes, with the length and the CRC that are then right."""
    fields = header._replace(length=len(batch) - LENGTH_BYTES)
    HEADER.pack_into(batch, 0, *fields)
    crc = crc32c.crc32c(memoryview(batch)[_ATTRIBUTES_AT:])
    HEADER.pack_into(batch, 0, *fields._replace(crc=crc))
    return batch


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
    """One batch of (key, value, headers, timestamp in ms) records with offsets `base_offset`, +1, ...

    ValueError when there are no records; LogError UNSUPPORTED_COMPRESSION_TYPE for an unknown codec.
    """
    numbered = ((delta, *record) for delta, record in enumerate(records))
    return build_sparse_batch(
        numbered,
        base_offset=base_offset,
        codec=0 if compression == "none" else codecs.codec_id(compression),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def build_keyed_batch(keys: Sequence[bytes], values: Sequence[bytes | None], timestamp_ms: int) -> bytes:
    """`build_batch` of records without headers and of one time, given as columns: in half the time.

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


def build_sparse_batch(
    records: Iterable[tuple[int, bytes | None, bytes | None, Headers | None, int]],
    *,
    base_offset: int,
    codec: int = codecs.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset_delta: int | None = None,
) -> bytes:
    """As `build_batch`, of records that have their offset deltas in front: compaction leaves gaps."""
    builder = DefaultRecordBatchBuilder(
        2, 0, int(is_transactional), producer_id, producer_epoch, base_sequence, _MAX_BUILD_BYTES
    )
    append = builder.append
    empty = True
    for delta, key, value, headers, timestamp_ms in records:
        append(delta, timestamp_ms, key, value, headers if type(headers) is list else list(headers or ()))
        empty = False
    if empty:
        raise ValueError("a record batch holds at least one record")
    batch = builder.build()
    stamp(batch, base_offset, leader_epoch)
    if codec == codecs.NONE and not is_control and last_offset_delta is None:
        return bytes(batch)
    return bytes(_finish(batch, codec, is_control, last_offset_delta))


def _finish(batch: bytearray, codec: int, is_control: bool, last_offset_delta: int | None) -> bytearray:
    header = read_header(batch)
    attributes = header.attributes | codec | (CONTROL if is_control else 0)
    delta = header.last_offset_delta if last_offset_delta is None else last_offset_delta
    if codec != codecs.NONE:
        batch[HEADER_BYTES:] = codecs.compress(codec, memoryview(batch)[HEADER_BYTES:].toreadonly())
    return _with_header(batch, header._replace(attributes=attributes, last_offset_delta=delta))


def recompress(batch: Buffer, header: BatchHeader, codec: int) -> bytearray:
    """The same records under another codec (topic config compression.type)."""
    view = memoryview(batch)[HEADER_BYTES:]
    payload = codecs.compress(codec, codecs.decompress(header.codec, view))
    out = bytearray(HEADER_BYTES) + payload
    return _with_header(out, header._replace(attributes=header.attributes & ~CODEC_MASK | codec))


def without_records_before(batch: Buffer, header: BatchHeader, offset: int) -> bytes | None:
    """The batch without its records before `offset`; None if no record is left.

    Compaction merges batches, so a follower may be offered one it holds the beginning of.
    """
    records = (record for record in batch_records(batch, header) if record.offset >= offset)
    kept = [(each.offset - offset, each.key, each.value, each.headers, each.timestamp) for each in records]
    if not kept:
        return None
    return build_sparse_batch(
        kept,
        base_offset=offset,
        codec=header.codec,
        leader_epoch=header.leader_epoch,
        last_offset_delta=header.last_offset - offset,
    )


def without_records(header: BatchHeader) -> bytes:
    """A batch with this header and no records, as Kafka's compaction leaves of a producer's last one."""
    fields = header._replace(
        attributes=header.attributes & ~CODEC_MASK,
        first_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return bytes(_with_header(bytearray(HEADER_BYTES), fields))


def batch_records(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records of one whole batch, which may be a control batch. The CRC is not checked.

    Raises CorruptBatchError if the bytes are not records.
    """
    if header.codec != codecs.NONE:
        batch = _decompressed(batch, header)
    try:
        yield from DefaultRecordBatch(cast(bytes, batch))
    except CorruptBatchError:
        raise
    except Exception as error:
        raise CorruptBatchError(f"batch at offset {header.base_offset}: {error}") from error


def _decompressed(batch: Buffer, header: BatchHeader) -> bytes:
    payload = codecs.decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    plain = header._replace(attributes=header.attributes & ~CODEC_MASK)
    return HEADER.pack(*plain) + payload


def read_records(buffer: Buffer, *, verify_crc: bool = False) -> Iterator[Record]:
    """All records of all whole batches; control batches are skipped, a partial last batch is ignored.

    CorruptBatchError on damage (with `verify_crc` also on a wrong checksum).
    """
    view = memoryview(buffer)
    for start, end, header in iter_batches(buffer):
        if verify_crc and not crc_matches(view[start:end], header.crc):
            raise CorruptBatchError(f"batch at offset {header.base_offset} fails its checksum")
        if not header.is_control:
            yield from batch_records(view[start:end], header)


def iter_key_values(buffer: Buffer) -> Iterator[tuple[bytes | None, bytes | None]]:
    """(key, value) of all records of all whole batches, in the fastest way: for loading a shard.

    Checksums are not checked. Raises CorruptBatchError if bytes are not records.
    """
    done = 0
    try:
        batches = MemoryRecords(buffer if isinstance(buffer, bytes) else bytes(buffer))
        while (batch := batches.next_batch()) is not None:
            if cast(DefaultRecordBatch, batch).compression_type:
                break
            done += 1
            if batch.is_control_batch:
                continue
            for record in batch:
                yield record.key, record.value
        else:
            return
    except Exception as error:
        raise CorruptBatchError(f"batch number {done}: {error}") from error
    yield from _bounded_key_values(buffer, done)


def _bounded_key_values(buffer: Buffer, skip_batches: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    # The compiled walk decompresses without a limit, so buffers with compressed batches go this way.
    view = memoryview(buffer)
    for number, (start, end, header) in enumerate(iter_batches(buffer)):
        if number >= skip_batches and not header.is_control:
            for record in batch_records(view[start:end], header):
                yield record.key, record.value
