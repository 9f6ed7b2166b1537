"""From the log of an offsets partition to its shard, and back: pieces of the log are replayed, appends become batches.

Our brokers take no transactions, but a log that was copied from Kafka may hold them: offsets that a producer wrote
with TxnOffsetCommit (KIP-98) count once the marker of its transaction follows, and not at all if that says abort.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from actors.coordinator.group_types import GroupShard
from actors.coordinator.writer import Append
from actors.records.batch import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    assembled,
    iter_batches,
    read_header,
)
from actors.records.building import build_keyed_batch, recompressed
from actors.records.glances import any_marked
from actors.records.markers import ABORT, COMMIT, marker_of
from actors.records.reading import batch_records, iter_key_values

_OF_TRANSACTIONS: Final = TRANSACTIONAL | CONTROL


def replay(shard: GroupShard, piece: bytes) -> None:
    """Give the next whole batches of its log to a shard that loads. Raises CorruptBatchError."""
    plain = 0
    if any_marked(piece, _OF_TRANSACTIONS):  # to read whole headers would double the time of a load
        for start, end, header in iter_batches(piece):
            if header.attributes & _OF_TRANSACTIONS:
                _load_plain(shard, piece[plain:start])
                _load_of_transaction(shard, piece[start:end], header)
                plain = end
    _load_plain(shard, piece[plain:])


def _load_plain(shard: GroupShard, batches: bytes) -> None:
    if batches:
        # The topic is compacted, so every record has a key.
        shard.load(cast("Iterable[tuple[bytes, bytes | None]]", iter_key_values(batches)))


def _load_of_transaction(shard: GroupShard, batch: bytes, header: BatchHeader) -> None:
    if not header.is_control:
        records = cast("Iterable[tuple[bytes, bytes | None]]", iter_key_values(batch))
        shard.load_transactional(header.producer_id, records)
        return
    for record in batch_records(batch, header):
        kind = marker_of(record.key)
        if kind in (ABORT, COMMIT):
            shard.load_marker(header.producer_id, committed=kind == COMMIT)


def batch(append: Append, now_ms: int, compression: int) -> bytes:
    """The record batch of an append. It is compressed if that makes it smaller, because its size is limited."""
    plain = build_keyed_batch(append.keys, append.values, now_ms)
    return compressed(plain, compression) if compression else plain


def compressed(plain: bytes, compression: int) -> bytes:
    """The batch with its records compressed; the batch itself if that is not smaller."""
    header, payload = recompressed(read_header(plain), memoryview(plain)[HEADER_BYTES:], compression)
    return assembled(header, payload) if HEADER_BYTES + len(payload) < len(plain) else plain
