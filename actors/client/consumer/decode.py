"""Decodes fetched batches to records. No I/O; runs in the user's thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import islice, repeat
from typing import Any, Final

from actors.client.consumer.positions import Chunk
from actors.client.errors import CorruptMessageError, KafkaError, SerializationError
from actors.client.records import ConsumerRecord, TopicPartition
from actors.records.batch import BatchHeader, crc_matches
from actors.records.bounds import Bounds
from actors.records.errors import LogError
from actors.records.markers import ABORT, marker_of
from actors.records.reading import batch_records, compiled_records, records_of_any_names

Deserializer = Callable[[bytes], Any]
_SLICE = 200
_MARKERS: Final = Bounds(plain_bytes=1 << 20, records=1 << 10)
"""More than a control batch has: one marker of a few bytes."""
_new = tuple.__new__


Whole = tuple[memoryview, BatchHeader]
"""A whole batch."""


def next_batches(
    tp: TopicPartition, chunk: Chunk, position: int, count: int, *, committed: bool, check: bool
) -> list[Whole]:
    """`next_batch`, and those after it up to `count` records, as long as nothing has to be said of them."""
    batch = next_batch(tp, chunk, position, committed=committed, check=check)
    if batch is None:
        return []
    found, records = [batch], batch[1].record_count
    view = memoryview(chunk.data)
    for start, end, header in islice(chunk.batches, 1, None):
        batch = view[start:end], header
        if records >= count or header.is_control or header.is_transactional:
            break
        if check and not crc_matches(batch[0], header.crc):
            break  # it is met when it is the first
        found.append(batch)
        records += header.record_count
    return found


def next_batch(tp: TopicPartition, chunk: Chunk, position: int, *, committed: bool, check: bool) -> Whole | None:
    """The next batch of the chunk with records from `position` on; None when the chunk is used up.

    It stays in the chunk until `position` is behind it, so that a batch that cannot be decoded is met again. Control
    batches are passed over and, with `committed`, batches of aborted transactions (KIP-98). Raises
    CorruptMessageError on a wrong checksum.
    """
    view = memoryview(chunk.data)
    while chunk.batches:
        start, end, header = chunk.batches[0]
        if header.next_offset > position:
            batch = view[start:end]
            if check and not crc_matches(batch, header.crc):
                raise unreadable(tp, header.base_offset, "the batch fails its checksum")
            if header.is_control:
                _end_transaction(tp, chunk, batch, header)
            elif not (committed and header.is_transactional and _aborted(chunk, header)):
                return batch, header
        chunk.batches.popleft()
    return None


def _aborted(chunk: Chunk, header: BatchHeader) -> bool:
    return any(pid == header.producer_id and first <= header.base_offset for pid, first in chunk.aborted)


def _end_transaction(tp: TopicPartition, chunk: Chunk, batch: memoryview, header: BatchHeader) -> None:
    """An abort marker ends the oldest aborted transaction of its producer."""
    try:
        keys = [record.key for record in batch_records(batch, header, _MARKERS)]
    except LogError as error:
        raise unreadable(tp, header.base_offset, error) from error
    for key in keys:
        if marker_of(key) == ABORT:
            mine = [entry for entry in chunk.aborted if entry[0] == header.producer_id]
            if mine:
                chunk.aborted.remove(min(mine, key=lambda entry: entry[1]))


def unreadable(tp: TopicPartition, offset: int, why: object) -> CorruptMessageError:
    """The error of a batch, which says where it is."""
    return CorruptMessageError(f"{tp.topic}-{tp.partition} at offset {offset}: {why}")


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
    for some in slices(tp, batch, header):
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


def slices(tp: TopicPartition, batch: memoryview, header: BatchHeader) -> Iterator[list[Any]]:
    """The records of a batch, in slices.

    Thousands at once would survive the first generations of the garbage collector, which would then cost more than
    decoding them. `map` over `next` stays in C; a generator would double the time of each record.
    """
    try:
        done = yield from _sliced(compiled_records(batch, header), header.record_count)
        if done < header.record_count:
            # The compiled reader has met the name of a header that is not UTF-8.
            rest = islice(records_of_any_names(batch, header), done, None)
            yield from _sliced(rest, header.record_count - done)
    except KafkaError:
        raise
    except Exception as error:  # the compiled reader raises many kinds, by what is wrong with the bytes
        raise unreadable(tp, header.base_offset, error) from error


def _sliced(records: Iterator[Any], count: int) -> Generator[list[Any], None, int]:
    """The next `count` records, in slices. Returns how many come before one whose header's name is not text."""
    done = 0
    while done < count:
        try:
            some = list(map(next, repeat(records, min(count - done, _SLICE))))
        except UnicodeDecodeError:
            break
        yield some
        done += min(count - done, _SLICE)
    return done


def deserializer(given: Any, topic: str | None = None) -> Deserializer | None:
    """A function of bytes, made of what the user gave: a function, or an object with `deserialize(topic, data)`."""
    if given is None:
        return None
    function = given if not hasattr(given, "deserialize") else lambda data: given.deserialize(topic, data)

    def checked(data: bytes) -> Any:
        try:
            return function(data)
        except Exception as error:  # it is the user's, and may raise anything
            raise SerializationError(f"the deserializer failed: {type(error).__name__}: {error}") from error

    return checked
