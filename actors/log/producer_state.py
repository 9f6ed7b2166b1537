"""Idempotent producers (KIP-98): the last five batches of each, to refuse gaps and answer repeats.

Snapshots stand beside segments as `<offset>.snapshot`: the state before the record at that offset.
"""

import zlib
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack

from actors.records.batch import MAX_SEQUENCE, NO_SEQUENCE, BatchHeader
from actors.records.errors import INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, LogError

CACHED_BATCHES: Final = 5
_CRC_BYTES: Final = 4
_VERSION: Final = 1


class ProducerBatch(NamedTuple):
    """One appended batch of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class ProducerEntry:
    """The log's knowledge of one producer id."""

    epoch: int
    seen_at_ms: int
    batches: deque[ProducerBatch] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))

    def find(self, first_sequence: int, last_sequence: int) -> ProducerBatch | None:
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None


class ProducerStates:
    """The producers of one log. `check` refuses bad batches, `record` remembers those that were appended."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> list[tuple[int, ProducerEntry]]:
        """Each producer id and its state."""
        return sorted(self._entries.items())

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def find_duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        """The batch that `header` repeats, if it is one of the producer's last five."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        return entry.find(header.base_sequence, header.last_sequence)

    def check(self, header: BatchHeader, previous: BatchHeader | None = None) -> None:
        """Raise LogError for an old epoch (47) or a gap (45). `previous`: the batch before it in the same append.

        A producer this log does not know may begin anywhere: its state may have expired (KIP-360).
        """
        entry = self._entries.get(header.producer_id)
        epoch, last = (entry.epoch, _last_sequence(entry)) if entry else (None, NO_SEQUENCE)
        if previous is not None and previous.producer_id == header.producer_id:
            epoch, last = previous.producer_epoch, previous.last_sequence
        if epoch is None:
            return
        if header.producer_epoch < epoch:
            raise LogError(
                INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {header.producer_epoch}, the log saw {epoch}",
            )
        expected = 0 if header.producer_epoch > epoch else _next_sequence(last)
        if expected not in (None, header.base_sequence):
            raise LogError(
                OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
            )

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Remember an appended batch; `header` may still carry the producer's base offset."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_epoch, now_ms)
        entry.seen_at_ms = now_ms
        if header.base_sequence != NO_SEQUENCE:
            last_offset = base_offset + header.last_offset_delta
            entry.batches.append(
                ProducerBatch(
                    header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp
                )
            )

    def last_offsets(self, end: int) -> frozenset[int]:
        """The last offset of each producer's last remembered batch before `end`."""
        batches = ([batch.last_offset for batch in entry.batches] for entry in self._entries.values())
        found = (max((offset for offset in offsets if offset < end), default=-1) for offsets in batches)
        return frozenset(offset for offset in found if offset >= 0)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Drop producers that have been silent for `expiration_ms`."""
        limit = now_ms - expiration_ms
        for producer_id in [key for key, entry in self._entries.items() if entry.seen_at_ms <= limit]:
            del self._entries[producer_id]

    def clear(self) -> None:
        self._entries.clear()

    def keep_times(self, before: "ProducerStates") -> None:
        """Take over from `before` when its producers were last seen, which their batches do not say."""
        for producer_id, entry in self._entries.items():
            known = before.entry(producer_id)
            if known is not None:
                entry.seen_at_ms = max(entry.seen_at_ms, known.seen_at_ms)

    def packed(self) -> bytes:
        """The state as a snapshot file's content."""
        entries = [
            (producer_id, entry.epoch, entry.seen_at_ms, [tuple(batch) for batch in entry.batches])
            for producer_id, entry in self._entries.items()
        ]
        body: bytes = msgpack.packb((_VERSION, entries))
        return zlib.crc32(body).to_bytes(_CRC_BYTES, "big") + body

    def load(self, path: Path) -> bool:
        """Replace the state by a snapshot's. If that is missing or damaged the state is empty, and the result False."""
        self._entries.clear()
        try:
            content = path.read_bytes()
            body = content[_CRC_BYTES:]
            if zlib.crc32(body) != int.from_bytes(content[:_CRC_BYTES], "big"):
                return False
            version, entries = msgpack.unpackb(body)
            if version != _VERSION:
                return False
            for producer_id, epoch, seen_at_ms, batches in entries:
                self._entries[producer_id] = _entry(epoch, seen_at_ms, batches)
        except (OSError, ValueError, TypeError):
            self._entries.clear()
            return False
        return True


def _entry(epoch: int, seen_at_ms: int, batches: list[list[Any]]) -> ProducerEntry:
    kept = deque((ProducerBatch(*batch) for batch in batches), maxlen=CACHED_BATCHES)
    return ProducerEntry(epoch, seen_at_ms, kept)


def _last_sequence(entry: ProducerEntry) -> int:
    return entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE


def _next_sequence(last: int) -> int | None:
    """The sequence that has to follow `last`; None if any may."""
    if last == NO_SEQUENCE:
        return None
    return 0 if last == MAX_SEQUENCE else last + 1
