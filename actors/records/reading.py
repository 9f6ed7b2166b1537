"""Stored batches to records. A batch that holds more than `bounds.STORED` is refused before it is decompressed.

aiokafka's compiled reader makes the records. It wants names of headers to be UTF-8, which Kafka does not: records that
it cannot read are read here, and a name that is not UTF-8 stays bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, cast

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from actors.records import compression as codecs
from actors.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    NONE,
    BatchHeader,
    Buffer,
    iter_batches,
)
from actors.records.bounds import STORED, Bounds
from actors.records.errors import CorruptBatchError, OverBoundsError
from actors.records.rows import name_of, of_64_bits, read_headers, read_rows

Headers = Sequence[tuple[str | bytes, bytes | None]]
"""Names and values. A name is text if it is UTF-8, else bytes."""


class Record(Protocol):
    """One record. `timestamp` is in ms; its meaning depends on the timestamp type, 0 CreateTime or 1 LogAppendTime."""

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
    def headers(self) -> Headers: ...


class _ReadRecord(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def payload_of(batch: Buffer, header: BatchHeader, bounds: Bounds = STORED) -> bytes:
    """The decompressed records of one whole batch. Raises CorruptBatchError, OverBoundsError."""
    if not 0 <= header.record_count <= bounds.records:
        raise OverBoundsError(f"a batch of {header.record_count} records, at most {bounds.records} are read")
    return codecs.decompress(header.codec, memoryview(batch)[HEADER_BYTES:], bounds.plain_bytes, bounds.parts)


def batch_records(batch: Buffer, header: BatchHeader, bounds: Bounds = STORED) -> Iterator[Record]:
    """The records of one whole batch, which may be a control batch. The CRC is not checked.

    Raises CorruptBatchError if the bytes are not records, OverBoundsError if they are too many.
    """
    done = 0
    try:
        for record in compiled_records(batch, header, bounds):
            yield record
            done += 1
        return
    except CorruptBatchError:
        raise
    except UnicodeDecodeError:
        pass
    except Exception as error:  # the compiled reader raises many kinds, by what is wrong with the bytes
        raise CorruptBatchError(f"batch at offset {header.base_offset}: {error}") from error
    yield from islice(records_of_any_names(batch, header, bounds), done, None)


def compiled_records(batch: Buffer, header: BatchHeader, bounds: Bounds = STORED) -> Iterator[Record]:
    """`batch_records` as the compiled reader gives them, with its exceptions; UnicodeDecodeError for names of bytes."""
    if header.codec == NONE and header.record_count <= bounds.records:
        return iter(DefaultRecordBatch(cast(bytes, batch)))
    plain = header._replace(attributes=header.attributes & ~CODEC_MASK)
    return iter(DefaultRecordBatch(HEADER.pack(*plain) + payload_of(batch, header, bounds)))


def records_of_any_names(batch: Buffer, header: BatchHeader, bounds: Bounds = STORED) -> Iterator[Record]:
    """`batch_records`, read without the compiled reader, whatever the names of headers are."""
    payload = payload_of(batch, header, bounds)
    appended = header.is_log_append_time
    for row in read_rows(payload, header.record_count):
        yield _ReadRecord(
            header.base_offset + row.offset_delta,
            header.max_timestamp if appended else of_64_bits(header.first_timestamp + row.time_delta),
            int(appended),
            None if row.key_size < 0 else payload[row.key_start : row.key_start + row.key_size],
            None if row.value_size < 0 else payload[row.value_start : row.value_start + row.value_size],
            [(name_of(name), value) for name, value in read_headers(payload, row.header_start, row.header_count)],
        )


def iter_key_values(buffer: Buffer) -> Iterator[tuple[bytes | None, bytes | None]]:
    """(key, value) of all records of all whole batches, in the fastest way: for loading a shard.

    Checksums are not checked. Raises CorruptBatchError if bytes are not records.
    """
    done = given = 0
    try:
        batches = MemoryRecords(buffer if isinstance(buffer, bytes) else bytes(buffer))
        while (batch := batches.next_batch()) is not None:
            if cast(DefaultRecordBatch, batch).compression_type:
                break
            done, given = done + 1, 0
            if batch.is_control_batch:
                continue
            for record in batch:
                given += 1
                yield record.key, record.value
        else:
            return
    except UnicodeDecodeError:
        yield from islice(_bounded_key_values(buffer, done - 1), given, None)
        return
    except Exception as error:  # as above
        raise CorruptBatchError(f"batch number {done}: {error}") from error
    yield from _bounded_key_values(buffer, done)


def _bounded_key_values(buffer: Buffer, skip_batches: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    # The compiled walk decompresses without a limit, and wants names of headers to be UTF-8: other buffers go this way.
    view = memoryview(buffer)
    for number, (start, end, header) in enumerate(iter_batches(buffer)):
        if number >= skip_batches and not header.is_control:
            for record in batch_records(view[start:end], header):
                yield record.key, record.value
