"""From fetched batches to records, or to columns. No I/O; runs in the user's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from aiokafka.record.default_records import DefaultRecordBatch

from actors.client.consumer.columnar import HEADERS, ArrowColumns, read_columns
from actors.client.consumer.positions import Chunk
from actors.client.errors import CorruptMessageError, KafkaError, SerializationError
from actors.client.records import ConsumerRecord, TopicPartition
from actors.log.batch import BatchHeader, batch_records, crc_matches

Deserializer = Callable[[bytes], Any]
_ABORT = b"\0\0"
_SLICE = 200
_new = tuple.__new__


def next_batch(chunk: Chunk, position: int, *, committed: bool, check: bool) -> tuple[memoryview, BatchHeader] | None:
    """The next batch with something to hand out from `position` on; None when the chunk is used up.

    It stays the chunk's first until `position` has passed it, so that nobody gets past one that cannot be read.
    Control batches are passed over and, with `committed`, those of aborted transactions (KIP-98).
    Raises CorruptMessageError on a wrong checksum.
    """
    view = memoryview(chunk.data)
    while chunk.batches:
        start, end, header = chunk.batches[0]
        if header.next_offset > position:
            batch = view[start:end]
            if check and not crc_matches(batch, header.crc):
                raise CorruptMessageError(f"the batch at offset {header.base_offset} fails its checksum")
            if header.is_control:
                _end_transaction(chunk, batch, header)
            elif not (committed and header.is_transactional and _aborted(chunk, header)):
                return batch, header
        chunk.batches.popleft()
    return None


def _aborted(chunk: Chunk, header: BatchHeader) -> bool:
    return any(pid == header.producer_id and first <= header.base_offset for pid, first in chunk.aborted)


def _end_transaction(chunk: Chunk, batch: memoryview, header: BatchHeader) -> None:
    """An abort marker ends the oldest aborted transaction of its producer."""
    for record in batch_records(batch, header):
        if record.key is not None and record.key[2:4] == _ABORT:
            mine = [entry for entry in chunk.aborted if entry[0] == header.producer_id]
            if mine:
                chunk.aborted.remove(min(mine, key=lambda entry: entry[1]))


def read_batch(
    tp: TopicPartition,
    batch: memoryview,
    header: BatchHeader,
    position: int,
    key_of: Deserializer | None,
    value_of: Deserializer | None,
) -> Iterator[ConsumerRecord]:
    """The records of one batch from offset `position` on. Raises CorruptMessageError, SerializationError."""
    topic, partition = tp
    epoch, kind = header.leader_epoch, int(header.is_log_append_time)
    new, cls = _new, ConsumerRecord
    for some in _slices(tp, batch, header):
        for r in some:
            offset = r.offset
            if offset < position:
                continue
            key, value = r.key, r.value
            key_size = -1 if key is None else len(key)
            size = -1 if value is None else len(value)
            if key_of is not None and key is not None:
                key = key_of(key)
            if value_of is not None and value is not None:
                value = value_of(value)
            fields = (topic, partition, epoch, offset, r.timestamp, kind, key, value, r.headers, key_size, size)
            yield new(cls, fields)


def _slices(tp: TopicPartition, batch: memoryview, header: BatchHeader) -> Iterator[list[Any]]:
    """The records of a batch, some at a time.

    Thousands of them at once would each survive the garbage collector's first generations, which then costs more
    than the reading. `map` over `next` stays in C; a generator per record would double the time.
    """
    left = header.record_count
    try:
        # An uncompressed batch goes to the compiled reader as it is; others through the bounded decompression.
        records = iter(DefaultRecordBatch(batch)) if header.codec == 0 else batch_records(batch, header)
        while left > 0:
            yield list(map(next, repeat(records, min(left, _SLICE))))
            left -= _SLICE
    except KafkaError:
        raise
    except Exception as error:
        raise CorruptMessageError(f"{tp.topic}-{tp.partition} at offset {header.base_offset}: {error}") from error


def deserializer(given: Any, topic: str | None = None) -> Deserializer | None:
    """A function of bytes from what the user gave: a function, or an object with `deserialize(topic, data)`."""
    if given is None:
        return None
    function = given if not hasattr(given, "deserialize") else lambda data: given.deserialize(topic, data)

    def checked(data: bytes) -> Any:
        try:
            return function(data)
        except Exception as error:
            raise SerializationError(f"the deserializer failed: {type(error).__name__}: {error}") from error

    return checked


_MANY = 1_000
"""From so many records on, a batch is read column by column; below, setting that up costs more than it saves."""


@dataclass(slots=True)
class Columns:
    """Records gathered column by column, in pieces: a large batch is one of its own, small ones share one."""

    with_headers: bool = False
    count: int = 0
    runs: list[tuple[TopicPartition, int]] = field(default_factory=list)
    _pieces: list[ArrowColumns] = field(default_factory=list)
    _offsets: list[Any] = field(default_factory=list)
    _timestamps: list[int] = field(default_factory=list)
    _keys: list[bytes | None] = field(default_factory=list)
    _values: list[bytes | None] = field(default_factory=list)
    _headers: list[list[dict[str, Any]]] = field(default_factory=list)

    def __len__(self) -> int:
        return self.count

    def add(self, tp: TopicPartition, batch: memoryview, header: BatchHeader, position: int) -> None:
        """All records of a batch from offset `position` on, or none if it cannot be read."""
        if header.record_count >= _MANY:
            piece = read_columns([(batch, header)], with_headers=self.with_headers)
            piece = piece.since(position) if header.base_offset < position else piece
            self._close()
            self._pieces.append(piece)
            self._count(tp, len(piece))
            return
        records = [r for some in _slices(tp, batch, header) for r in some]
        if header.base_offset < position:
            records = [r for r in records if r.offset >= position]
        if not records:
            return
        first, last, count = records[0].offset, records[-1].offset, len(records)
        if last - first + 1 == count:
            self._offsets.append(np.arange(first, last + 1, dtype=np.int64))
        else:  # compaction left gaps
            self._offsets.append(np.fromiter((r.offset for r in records), np.int64, count))
        self._timestamps += [r.timestamp for r in records]
        self._keys += [r.key for r in records]
        self._values += [r.value for r in records]
        if self.with_headers:
            self._headers += [[{"key": k, "value": v} for k, v in r.headers] for r in records]
        self._count(tp, len(records))

    def _count(self, tp: TopicPartition, count: int) -> None:
        if not count:
            return
        self.count += count
        if self.runs and self.runs[-1][0] == tp:
            count += self.runs.pop()[1]
        self.runs.append((tp, count))

    def _close(self) -> None:
        """Make a piece of the small batches gathered so far."""
        if self._offsets:
            piece = ArrowColumns(
                np.concatenate(self._offsets),
                np.array(self._timestamps, np.int64),
                np.empty(0, np.int32),  # nobody asks for it here
                pa.array(self._keys, pa.binary()),
                pa.array(self._values, pa.binary()),
                pa.array(self._headers, HEADERS) if self.with_headers else None,
            )
            self._pieces.append(piece)
            for column in (self._offsets, self._timestamps, self._keys, self._values, self._headers):
                column.clear()

    def batch(self) -> pa.RecordBatch:
        """Columns topic, partition, offset, timestamp (ms), key, value and, if asked for, headers."""
        self._close()
        pieces = self._pieces
        topics = [pa.repeat(pa.scalar(tp.topic), n) for tp, n in self.runs]
        numbers = [pa.repeat(pa.scalar(tp.partition, pa.int32()), n) for tp, n in self.runs]
        columns = {
            "topic": _joined(topics, pa.string()),
            "partition": _joined(numbers, pa.int32()),
            "offset": _joined([pa.array(p.offsets) for p in pieces], pa.int64()),
            "timestamp": _joined([pa.array(p.timestamps) for p in pieces], pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "key": _joined([p.keys for p in pieces], pa.binary()),
            "value": _joined([p.values for p in pieces], pa.binary()),
        }
        if self.with_headers:
            columns["headers"] = _joined([_without_null(p.headers) for p in pieces], HEADERS)
        return pa.RecordBatch.from_pydict(columns)


def _joined(arrays: list[Any], kind: Any) -> Any:
    return pa.concat_arrays(arrays) if arrays else pa.array([], kind)


def _without_null(headers: Any) -> Any:
    """A record without headers has an empty list here."""
    if headers is None or not headers.null_count:
        return headers
    return pc.if_else(headers.is_null(), pa.scalar([], HEADERS), headers)
