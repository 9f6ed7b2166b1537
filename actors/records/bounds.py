"""The bounds of one batch. They are known before a record is read, so that no batch costs more than they say.

A producer may send at most `max.message.bytes`, but compressed: five kilobytes of zstd can be gigabytes of records.

- `EXPANSION` (F = 32): at produce, the records of a batch take at most 32 x `max.message.bytes` when decompressed, and
  there are at most `max.message.bytes` of them, and as many headers. Text compresses to a fifth or a tenth, the most
  repetitive logs to a thirtieth; clients count a batch's size before compression (librdkafka), or stop at batches a
  fraction as large as that (Java: 16 KiB by default). A Java producer that is told MESSAGE_TOO_LARGE splits the batch.
- `PLAIN_BYTES_MAX` (C = 128 MiB): never more than that, whatever `max.message.bytes` says. It lies above the 100 MiB
  that a request may have by default (`socket.request.max.bytes`), so that every batch that arrives uncompressed fits,
  and well below what a broker may use for one partition.
- `RECORDS_MAX` (4 Mi = C / F): likewise for records and headers. To check so many takes about a second of one thread.

The constant `AT_ONCE` and those beside it bound the work that an event loop does at once, measured so that it takes
less than a millisecond, whatever the bytes look like. All else is done in another thread or process.

A reader of stored batches goes by `STORED`, which is C alone: a topic's settings may have been lowered since.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.records.batch import GZIP, NONE, BatchHeader

EXPANSION: Final = 32
PLAIN_BYTES_MAX: Final = 128 << 20
RECORDS_MAX: Final = PLAIN_BYTES_MAX // EXPANSION


class Bounds(NamedTuple):
    """The most that is read of one batch: bytes when decompressed, records, and headers of all records together.

    `parts`: frames and blocks that are walked one by one. `rewritten_bytes`: bytes to compress anew.
    """

    plain_bytes: int
    records: int
    headers: int = RECORDS_MAX
    parts: int = PLAIN_BYTES_MAX
    rewritten_bytes: int = PLAIN_BYTES_MAX

    def within(self, other: Bounds) -> Bounds:
        """The narrower one of each."""
        return Bounds(*map(min, self, other))


STORED: Final = Bounds(PLAIN_BYTES_MAX, RECORDS_MAX)


def at_produce(max_message_bytes: int) -> Bounds:
    """The bounds of a batch that is produced to a topic with this `max.message.bytes`."""
    records = min(max_message_bytes, RECORDS_MAX)
    return Bounds(min(EXPANSION * max_message_bytes, PLAIN_BYTES_MAX), records, records)


AT_ONCE: Final = Bounds(plain_bytes=256 << 10, records=4000, headers=1000, parts=100, rewritten_bytes=16 << 10)
"""So many bytes come out of any codec in a quarter of a millisecond, or are compressed by any; so many parts are
walked in a tenth of one, and so many records or headers are read in one."""
_PLAIN_AT_ONCE: Final = AT_ONCE._replace(plain_bytes=1 << 20)
"""Bytes that are not compressed are only copied and summed up, a million in a tenth of a millisecond."""
PACKED_AT_ONCE: Final = 128 << 10
GZIP_AT_ONCE: Final = 16 << 10
"""So many compressed bytes are decompressed in half a millisecond, however they are made. gzip is the
slowest: it can have a table for each ten bytes."""


def bounds_at_once(codec: int) -> Bounds:
    """The bounds of what is read at once."""
    return _PLAIN_AT_ONCE if codec == NONE else AT_ONCE


def may_read_at_once(header: BatchHeader) -> bool:
    """True if a batch is small enough to be read at once, provided that it proves to keep to `bounds_at_once`."""
    most_bytes = GZIP_AT_ONCE if header.codec == GZIP else PACKED_AT_ONCE
    if header.codec == NONE:
        most_bytes = _PLAIN_AT_ONCE.plain_bytes
    return header.size_bytes <= most_bytes and header.record_count <= AT_ONCE.records
