"""From fetched batches to records, or to columns. No I/O; runs in the user's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatch

from actors.client.errors import CorruptMessageError, KafkaError, SerializationError
from actors.client.positions import Chunk
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


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(slots=True)
class Columns:
    """Records gathered column by column."""

    with_headers: bool = False
    count: int = 0
    runs: list[tuple[TopicPartition, int]] = field(default_factory=list)
    offsets: list[Any] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[list[dict[str, Any]]] = field(default_factory=list)

    def __len__(self) -> int:
        return self.count

    def add(self, tp: TopicPartition, batch: memoryview, header: BatchHeader, position: int) -> None:
        """All records of a batch from offset `position` on, or none if it cannot be read."""
        before = self.count, list(self.runs), len(self.offsets)
        try:
            for records in _slices(tp, batch, header):
                if header.base_offset < position:
                    records = [r for r in records if r.offset >= position]
                if records:
                    self._add(tp, records)
        except BaseException:
            self.count, self.runs = before[:2]
            del self.offsets[before[2] :]
            for column in (self.timestamps, self.keys, self.values, self.headers):
                del column[self.count :]
            raise

    def _add(self, tp: TopicPartition, records: list[Any]) -> None:
        count = len(records)
        self._count(tp, count)
        first, last = records[0].offset, records[-1].offset
        if last - first + 1 == count:
            self.offsets.append(np.arange(first, last + 1, dtype=np.int64))
        else:  # compaction left gaps
            self.offsets.append(np.fromiter((r.offset for r in records), np.int64, count))
        self.timestamps += [r.timestamp for r in records]
        self.keys += [r.key for r in records]
        self.values += [r.value for r in records]
        if self.with_headers:
            self.headers += [[{"key": k, "value": v} for k, v in r.headers] for r in records]

    def _count(self, tp: TopicPartition, count: int) -> None:
        self.count += count
        if self.runs and self.runs[-1][0] == tp:
            count += self.runs.pop()[1]
        self.runs.append((tp, count))

    def batch(self) -> pa.RecordBatch:
        """Columns topic, partition, offset, timestamp (ms), key, value and, if asked for, headers."""
        topics = [pa.repeat(pa.scalar(tp.topic), n) for tp, n in self.runs]
        numbers = [pa.repeat(pa.scalar(tp.partition, pa.int32()), n) for tp, n in self.runs]
        columns = {
            "topic": pa.concat_arrays(topics) if topics else pa.array([], pa.string()),
            "partition": pa.concat_arrays(numbers) if numbers else pa.array([], pa.int32()),
            "offset": pa.array(np.concatenate(self.offsets) if self.offsets else [], pa.int64()),
            "timestamp": pa.array(self.timestamps, pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "key": pa.array(self.keys, pa.binary()),
            "value": pa.array(self.values, pa.binary()),
        }
        if self.with_headers:
            columns["headers"] = pa.array(self.headers, _HEADERS)
        return pa.RecordBatch.from_pydict(columns)
