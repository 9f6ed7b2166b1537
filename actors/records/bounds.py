"""How much one batch may hold. The bounds are known before a record is read, so that no batch costs more than they say.

A producer may send at most `max.message.bytes`, but compressed: five kilobytes of zstd can be gigabytes of records.

- `EXPANSION` (F = 32): at produce, the records of a batch take at most 32 x `max.message.bytes` when decompressed, and
  there are at most `max.message.bytes` of them, and as many headers. Text compresses to a fifth or a tenth, the most
  repetitive logs to a thirtieth; clients count a batch's size before compression (librdkafka), or stop at batches a
  fraction as large as that (Java: 16 KiB by default). A Java producer that is told MESSAGE_TOO_LARGE splits the batch.
- `PLAIN_BYTES_MAX` (C = 128 MiB): never more than that, whatever `max.message.bytes` says. It lies above the 100 MiB
  that a request may have by default (`socket.request.max.bytes`), so that every batch that arrives uncompressed fits,
  and well below what a broker may use for one partition.
- `RECORDS_MAX` (4 Mi = C / F): likewise for records and headers. To check so many takes about a second of one thread.

What an event loop may do at once is bounded by `AT_ONCE` and the constants beside it, measured so that it takes less
than a millisecond, whatever the bytes look like. All else is done in another thread or process.

Who reads a stored batch goes by `STORED`, which is C alone: a topic's settings may have been lowered since.
"""

from dataclasses import dataclass
from typing import Final

EXPANSION: Final = 32
PLAIN_BYTES_MAX: Final = 128 << 20
RECORDS_MAX: Final = PLAIN_BYTES_MAX // EXPANSION


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that is read of one batch: bytes when decompressed, records, and headers of all records together."""

    plain_bytes: int
    records: int
    headers: int = RECORDS_MAX


STORED: Final = Bounds(PLAIN_BYTES_MAX, RECORDS_MAX)


def at_produce(max_message_bytes: int) -> Bounds:
    """The bounds of a batch that is produced to a topic with this `max.message.bytes`."""
    records = min(max_message_bytes, RECORDS_MAX)
    return Bounds(min(EXPANSION * max_message_bytes, PLAIN_BYTES_MAX), records, records)


AT_ONCE_BYTES: Final = 1 << 20
"""So many bytes are copied and summed up in a tenth of a millisecond."""
AT_ONCE_PACKED_BYTES: Final = 4 << 10
"""So many compressed bytes are decompressed in a millisecond, however they are cut into blocks and frames."""
AT_ONCE_REWRITTEN_BYTES: Final = 16 << 10
"""So many bytes are compressed in a quarter of a millisecond, by the slowest codec."""
AT_ONCE: Final = Bounds(plain_bytes=256 << 10, records=4000, headers=1000)
"""So many bytes come out of any codec in a quarter of a millisecond, and so many records or headers are read in one."""


def may_read_at_once(size_bytes: int, record_count: int, *, is_compressed: bool) -> bool:
    """Whether a batch is small enough to be read at once, if it also proves to hold no more than `AT_ONCE`."""
    most_bytes = AT_ONCE_PACKED_BYTES if is_compressed else AT_ONCE_BYTES
    return size_bytes <= most_bytes and record_count <= AT_ONCE.records
