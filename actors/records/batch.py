"""Kafka's record batch, version 2 (KIP-98): the header, whole batches in a buffer, stamps.

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

Records are read in rows.py, columns.py and reading.py, and made in building.py.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, cast

import crc32c

from actors.records.errors import CorruptBatchError

Buffer = bytes | bytearray | memoryview
Plain = bytes | bytearray
"""A decompressed payload."""

HEADER: Final = struct.Struct(">qiibIhiqqqhiI")
HEADER_BYTES: Final = HEADER.size
LENGTH_BYTES: Final = 12
"""Base offset and length: the bytes the length field does not count."""
MIN_LENGTH: Final = HEADER_BYTES - LENGTH_BYTES
MAGIC: Final = 2
RECORD_OVERHEAD_BYTES: Final = 32
"""Allowed for the varints of a record: more than they ever take, if it has no headers."""

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

CODEC_MASK: Final = 0x07
NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
KNOWN_ATTRIBUTES: Final = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL
"""The attributes that a producer may set. Kafka's other bit, the delete horizon, is its compaction's."""

_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_PRODUCER_AT: Final = 43
_CRC: Final = struct.Struct(">I")
_PRODUCER: Final = struct.Struct(">qhi")
_LENGTH: Final = struct.Struct(">i")
_BASE_OFFSET: Final = struct.Struct(">q")


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

    def packed(self) -> bytes:
        """The 61 bytes themselves."""
        return HEADER.pack(*self)

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
    def is_sound(self) -> bool:
        """True if a batch can have this magic and this length."""
        return self.magic == MAGIC and self.length >= MIN_LENGTH

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


def read_base_offset(buffer: Buffer, position: int = 0) -> int:
    """The base offset of the batch at `position`, unchecked."""
    return cast(int, _BASE_OFFSET.unpack_from(buffer, position)[0])


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
    """True if one whole batch still has the checksum its header states."""
    return cast(int, crc32c.crc32c(memoryview(batch)[_ATTRIBUTES_AT:])) == crc


NO_CRC: Final = 0
"""The checksum of no bytes."""


def crc_continued(chunk: Buffer, crc: int, *, begins: bool) -> int:
    """The checksum of a batch up to the end of this chunk, by that of those before. The first one has the header."""
    return cast(int, crc32c.crc32c(memoryview(chunk)[_ATTRIBUTES_AT:] if begins else chunk, crc))


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Write base offset and leader epoch into the batch at `position`, in place."""
    _BASE_OFFSET.pack_into(batch, position, base_offset)
    _LENGTH.pack_into(batch, position + 12, leader_epoch)


def number(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Write a producer and its sequence into one whole batch, in place, and the CRC that is right then."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))


def write_header(batch: bytearray, header: BatchHeader) -> None:
    """Write a header, whose length is right, before the payload of one whole batch, and the CRC that is right then."""
    HEADER.pack_into(batch, 0, *header)
    _CRC.pack_into(batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))


def sealed(header: BatchHeader, payload: Buffer) -> BatchHeader:
    """The header with the length and the CRC that are right for this payload."""
    fields = header._replace(length=MIN_LENGTH + len(payload))
    crc = crc32c.crc32c(payload, crc32c.crc32c(fields.packed()[_ATTRIBUTES_AT:]))
    return fields._replace(crc=crc)


def assembled(header: BatchHeader, payload: Buffer) -> bytes:
    """The whole batch, sealed."""
    return sealed(header, payload).packed() + payload


def fresh_header(codec: int, count: int, first_ms: int, latest_ms: int, payload_bytes: int = 0) -> BatchHeader:
    """The header of a batch as a client makes it, not sealed yet: without offset, leader and producer."""
    return BatchHeader(
        base_offset=0,
        length=MIN_LENGTH + payload_bytes,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        first_timestamp=first_ms,
        max_timestamp=latest_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )


def without_records(header: BatchHeader) -> bytes:
    """A batch with this header and no records, as Kafka's compaction leaves of a producer's last one."""
    fields = header._replace(
        attributes=header.attributes & ~CODEC_MASK,
        first_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return assembled(fields, b"")
