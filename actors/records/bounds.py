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


STORED: Final = Bounds(PLAIN_BYTES_MAX, RECORDS_MAX)


def at_produce(max_message_bytes: int) -> Bounds:
    """The bounds of a batch that is produced to a topic with this `max.message.bytes`."""
    return Bounds(
        plain_bytes=min(EXPANSION * max_message_bytes, PLAIN_BYTES_MAX),
        records=min(max_message_bytes, RECORDS_MAX),
    )
